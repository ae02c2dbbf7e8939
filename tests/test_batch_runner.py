"""A model applied to rows of any length.

`test_run_extract_features` has the test on two replicas.
"""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import batch_runner
from bert_tf.batch_runner import BatchRunner, ProgramTrial
from bert_tf.config import BertConfig
from bert_tf.modeling import BertModel

CONFIG = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=64,
    type_vocab_size=2,
    # Large enough that attention is far from uniform.
    initializer_range=0.3,
)


@pytest.fixture(scope="module")
def model():
    tf.keras.utils.set_random_seed(3)
    return BertModel(CONFIG)


@pytest.fixture(scope="module")
def rows():
    source = np.random.default_rng(4)
    lengths = [2, 24, 5, 17, 9, 20, 5, 23, 2, 12, 7]
    return [
        {
            "input_ids": source.integers(1, 50, n).tolist(),
            "segment_ids": source.integers(0, 2, n).tolist(),
        }
        for n in lengths
    ]


@pytest.fixture(scope="module")
def expected(model, rows):
    """Each row alone, without any padding."""
    found = []
    for row in rows:
        batch = {name: np.int32([ids]) for name, ids in row.items()}
        outputs = model(batch)
        found.append(
            (outputs["sequence_output"][0], outputs["pooled_output"][0])
        )
    return found


def select(outputs, features):
    return {
        "tokens": outputs["sequence_output"],
        "pooled": outputs["pooled_output"],
    }


def check(found, rows, expected):
    assert len(found) == len(rows)
    for outputs, row, (tokens, pooled) in zip(
        found, rows, expected, strict=True
    ):
        length = len(row["input_ids"])
        np.testing.assert_allclose(
            outputs["tokens"][:length], tokens, atol=1e-5
        )
        np.testing.assert_allclose(outputs["pooled"], pooled, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"max_rows": 2},
        {"batch_tokens": 1, "xla": True},
        {"fixed_length": True, "max_rows": 4},
    ],
)
def test_values_depend_on_neither_batch_nor_padding(
    model, rows, expected, options
):
    runner = BatchRunner(model, select, 24, **options)
    check(runner.map(rows), rows, expected)


def test_stream_reads_no_further_than_its_window(model, rows, expected):
    read = []

    def reader():
        for row in rows:
            read.append(row)
            yield row

    runner = BatchRunner(model, select, 24)
    stream = runner.stream(reader(), window=3)
    assert not read
    first = next(stream)
    assert len(read) == 3
    check([first, *stream], rows, expected)


def test_other_features_go_along(model):
    def pick(outputs, features):
        spots = features["spots"]
        return {
            "picked": tf.gather(outputs["sequence_output"], spots, batch_dims=1)
        }

    rows = [
        {"input_ids": [3, 4, 5], "segment_ids": [0] * 3, "spots": [1, 2, 0]},
        {"input_ids": [3, 4], "segment_ids": [0] * 2, "spots": [1]},
    ]
    found = BatchRunner(model, pick, 24).map(rows)
    tokens = BatchRunner(model, select, 24).map(rows)
    np.testing.assert_allclose(
        found[0]["picked"][:3], tokens[0]["tokens"][[1, 2, 0]], atol=1e-5
    )
    np.testing.assert_allclose(
        found[1]["picked"][0], tokens[1]["tokens"][1], atol=1e-5
    )


def uses_xla(runner):
    return "xla" in runner._graphs


def test_only_single_rows_that_come_again_are_compiled(
    model, rows, monkeypatch
):
    monkeypatch.setattr(batch_runner, "_CALLS_BEFORE_XLA", 2)
    runner = BatchRunner(model, select, 24)
    for _ in range(4):
        runner.map(rows[:2] * 9)
    for row in rows[:2] * 2:
        runner.map([row])
    assert not uses_xla(runner)
    runner.map([rows[0]])
    assert uses_xla(runner)
    never = BatchRunner(model, select, 24, xla=False)
    for _ in range(4):
        never.map([rows[0]])
    assert not uses_xla(never)


@pytest.mark.parametrize("compiled_is_quicker", [False, True])
def test_the_quicker_program_is_kept(compiled_is_quicker):
    trial = ProgramTrial()
    seconds = {False: 0.2, True: 0.1 if compiled_is_quicker else 0.3}
    tried = []
    for call in range(100):
        compiled = trial.choose()
        # The first call of each program takes long; some calls are slowed
        # down by others.
        first = compiled not in tried
        tried.append(compiled)
        trial.add(compiled, seconds[compiled] + 9 * first + call % 3)
    assert not any(tried[:32])
    assert all(tried[32:41])
    assert set(tried[41:]) == {compiled_is_quicker}


def test_one_graph_serves_all_shapes(model, rows):
    traces = []

    def counted(outputs, features):
        traces.append(None)
        return select(outputs, features)

    runner = BatchRunner(model, counted, 24, max_rows=3)
    runner.map(rows)
    runner.map(rows[:1])
    assert len(traces) == 1


def test_fixed_length_needs_a_batch_size(model):
    with pytest.raises(ValueError, match="max_rows"):
        BatchRunner(model, select, 24, fixed_length=True)
