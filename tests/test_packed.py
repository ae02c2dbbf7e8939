"""Every task on packed rows computes what it computes on single ones."""

import dataclasses
import os

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import losses
from bert_tf.config import BertConfig
from bert_tf.records import record_dataset, write_records
from bert_tf.sequence_packing import examples_in_order
from bert_tf.settings import RunSettings
from bert_tf.tasks.base import RecordFiles, Split
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.multiple_choice import MultipleChoiceTask
from bert_tf.tasks.packed import PackedTask
from bert_tf.tasks.pretraining import PretrainingTask
from bert_tf.tasks.squad import SquadTask
from bert_tf.tasks.squad_settings import SquadSettings
from bert_tf.tasks.tagging import TaggingTask

LENGTH, VOCAB, PREDICTIONS, COUNT = 64, 60, 10, 37
CONFIG = BertConfig(
    VOCAB,
    hidden_size=32,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=64,
    max_position_embeddings=LENGTH,
    type_vocab_size=2,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    initializer_range=0.3,
)
TASKS = {
    "classification": lambda: ClassificationTask(["a", "b", "c"], LENGTH),
    "regression": lambda: ClassificationTask(None, LENGTH, "regression"),
    "multi_label": lambda: ClassificationTask(
        ["a", "b", "c"], LENGTH, "multi_label"
    ),
    "tagging": lambda: TaggingTask(["O", "B-X", "I-X"], LENGTH),
    "squad": lambda: SquadTask(
        SquadSettings(max_seq_length=LENGTH, max_query_length=20)
    ),
    "pretraining": lambda: PretrainingTask(LENGTH, PREDICTIONS),
}


def examples(task, rng):
    """Records of random texts, most of them short."""
    for number in range(COUNT):
        length = LENGTH if number == 5 else int(rng.integers(4, 24))
        values = {
            f.name: np.full(f.size, f.padding)
            for f in task.feature_spec("train")
        }
        values["input_ids"][:length] = rng.integers(1, VOCAB, length)
        values["input_mask"][:length] = 1
        values["segment_ids"][length // 2 : length] = 1
        for name, value in values.items():
            if name == "label_ids" and value.size > 1:
                value[1 : length - 1] = rng.integers(0, 3, length - 2)
            elif name in ("label_ids", "next_sentence_labels"):
                value[:] = rng.integers(0, 2)
            elif name == "label_values":
                values[name] = rng.integers(0, 2, value.size).astype(float)
            elif name in ("start_positions", "end_positions"):
                value[:] = rng.integers(0, length)
            elif name == "unique_ids":
                value[:] = 1000 + number
            elif name == "masked_lm_weights":
                used = max(1, round(0.15 * length))
                values[name] = np.arange(PREDICTIONS) < used
            elif name == "masked_lm_positions":
                value[:] = rng.integers(1, length - 1, PREDICTIONS)
            elif name == "masked_lm_ids":
                value[:] = rng.integers(1, VOCAB, PREDICTIONS)
        yield values


@pytest.fixture(params=sorted(TASKS))
def pair(request, tmp_path):
    """A task, the same packed, and one batch of all examples of each."""
    task = TASKS[request.param]()
    path = str(tmp_path / "single.tf_record")
    write_records(
        path,
        task.feature_spec("train"),
        examples(task, np.random.default_rng(1)),
    )
    task.prepare = lambda split, folder: RecordFiles([path], COUNT, COUNT)
    packed = PackedTask(task)
    records = packed.prepare(Split("train", "train"), str(tmp_path))
    assert records.num_records < COUNT / 3
    assert records.examples_per_record == COUNT / records.num_records
    return [
        (t, _batch(t, files, size))
        for t, files, size in (
            (task, [path], COUNT),
            # As an evaluation pads its last batch.
            (packed, records.paths, records.num_records + 2),
        )
    ]


def _batch(task, paths, size):
    spec = task.feature_spec("train")
    padding = tf.data.Dataset.from_tensors(spec.padding_record()).repeat()
    serialized = record_dataset(paths).concatenate(padding).batch(size)
    return next(iter(serialized.map(spec.parse)))


def _own_pieces(task, features):
    """SQuAD's loss counts padding, which packed rows do not have: the single
    rows are cut to their pieces, one by one."""
    if not isinstance(task, SquadTask):
        return [features]
    lengths = tf.reduce_sum(features["input_mask"], axis=1).numpy()
    return [
        {
            name: x[i : i + 1, :length] if x.shape.rank == 2 else x[i : i + 1]
            for name, x in features.items()
        }
        for i, length in enumerate(lengths)
    ]


def test_loss_and_gradients(pair):
    tf.keras.utils.set_random_seed(1)
    model = pair[0][0].create_model(CONFIG)
    if hasattr(model, "head_dropout"):
        model.head_dropout = 0.0
    variables = list(pair[0][0].trained_variables(model).values())
    found = []
    for task, features in pair:
        weights = task.loss_weights(features)
        with tf.GradientTape() as tape:
            loss = 0.0
            for part in _own_pieces(task, features):
                sums = task.loss_sums(
                    model(part, training=True, dropout_seed=[1, 2]), part
                )
                loss += tf.add_n(
                    [value / weights[name] for name, value in sums.items()]
                )
        gradients = tape.gradient(loss, variables)
        found.append((loss, [tf.convert_to_tensor(g) for g in gradients]))
    (loss, gradients), (packed_loss, packed_gradients) = found
    np.testing.assert_allclose(packed_loss, loss, rtol=1e-5)
    norm = tf.linalg.global_norm(gradients)
    for one, other in zip(gradients, packed_gradients, strict=True):
        np.testing.assert_allclose(other, one, rtol=0, atol=1e-5 * norm)


def test_results_in_the_order_of_the_examples(pair):
    (task, features), (packed, rows) = pair
    if "train" not in task.packed_modes or "eval" not in task.packed_modes:
        pytest.skip("evaluation of this task is not packed")
    model = task.create_model(CONFIG)
    expected = task.example_outputs(model(features), features)
    results = packed.example_outputs(model(rows), rows)
    batch = {name: x.numpy() for name, x in results.items()}
    halves = [
        {name: x[part] for name, x in batch.items()}
        for part in (slice(0, 4), slice(4, None))
    ]
    found = list(examples_in_order(halves, task.token_outputs, COUNT))
    assert set(found[0]) == set(expected)
    is_piece = features["input_mask"].numpy() == 1
    for name, value in expected.items():
        joined = np.concatenate([part[name] for part in found])
        value = value.numpy()
        if name in task.token_outputs:
            fill = task.token_outputs[name]
            assert (joined[~is_piece] == fill).all()
            joined, value = joined[is_piece], value[is_piece]
        np.testing.assert_allclose(joined, value, rtol=1e-5, atol=1e-5)


def test_pretraining_evaluates_single_examples():
    packed = PackedTask(PretrainingTask(LENGTH, PREDICTIONS))
    assert packed.feature_spec("eval").names() == (
        packed.task.feature_spec("eval").names()
    )
    assert "sequence_ids" in packed.feature_spec("train").names()


def test_a_task_that_cannot_be_packed():
    with pytest.raises(ValueError, match="multiple_choice cannot be packed"):
        PackedTask(MultipleChoiceTask(num_choices=2, max_seq_length=LENGTH))


def test_batches_count_examples():
    records = RecordFiles(["x"], 100, 470, num_packed=470)
    assert records.records_of(32) == 7
    assert records.records_of(32, multiple=4) == 8
    assert records.records_of(1, multiple=2) == 2
    single = dataclasses.replace(records, num_packed=None)
    assert single.records_of(32, multiple=4) == 32


@pytest.mark.parametrize(
    ("examples", "rows", "batch_size", "epochs", "steps"),
    [(44, 9, 16, 1, 3), (78, 15, 16, 3, 15), (470, 100, 32, 2, 28)],
)
def test_an_epoch_is_whole(examples, rows, batch_size, epochs, steps):
    records = RecordFiles(["x"], rows, examples, num_packed=examples)
    settings = RunSettings(
        "out",
        do_train=True,
        train_batch_size=batch_size,
        num_train_epochs=epochs,
        pack_sequences=True,
    )
    found = settings.with_train_steps(
        records.records_per_epoch, records.records_of(batch_size)
    )
    assert found.num_train_steps == steps


def test_no_step_is_told_in_rows():
    settings = RunSettings("out", do_train=True, pack_sequences=True)
    with pytest.raises(ValueError, match=r"0 steps: 2 rows / 8 in a batch"):
        settings.with_train_steps(2.0, 8)


def test_squad_without_the_padding_it_was_never_told_of():
    settings = SquadSettings(
        max_seq_length=LENGTH, max_query_length=20, pack_sequences=True
    )
    features = {
        "unique_ids": tf.constant([1]),
        "input_mask": tf.cast(tf.range(LENGTH) < 9, tf.int32)[tf.newaxis],
    }
    outputs = {
        name: tf.ones([1, LENGTH]) for name in ("start_logits", "end_logits")
    }
    found = SquadTask(settings).example_outputs(outputs, features)
    assert found["start_logits"][0, 8] == 1
    assert found["end_logits"][0, 9] == losses.OUTSIDE_LOGIT


def test_rows_are_packed_again_only_when_records_change(tmp_path):
    task = TASKS["pretraining"]()
    path = str(tmp_path / "single.tf_record")

    def write(seed):
        rng = np.random.default_rng(seed)
        write_records(path, task.feature_spec("train"), examples(task, rng))

    def prepare():
        packed = PackedTask(task)
        return packed.prepare(Split("train", "train"), str(tmp_path))

    write(1)
    task.prepare = lambda split, folder: RecordFiles([path], None, None, 10)
    first = prepare()
    assert first.describe() == f"{COUNT} examples in {first.num_records} rows"
    written = os.stat(first.paths[0]).st_mtime_ns
    assert prepare() == first
    assert os.stat(first.paths[0]).st_mtime_ns == written
    os.remove(first.paths[0])
    assert prepare() == first
    assert os.path.exists(first.paths[0])
    write(2)
    prepare()
    assert os.stat(first.paths[0]).st_mtime_ns > written


def test_a_mask_with_a_hole_is_refused(tmp_path):
    task = TASKS["classification"]()
    path = str(tmp_path / "single.tf_record")
    rows = list(examples(task, np.random.default_rng(1)))
    rows[3]["input_mask"][0] = 0
    write_records(path, task.feature_spec("train"), rows)
    task.prepare = lambda split, folder: RecordFiles([path], COUNT, COUNT)
    with pytest.raises(ValueError, match=r"single.tf_record: example 3: the"):
        PackedTask(task).prepare(Split("train", "train"), str(tmp_path))
    assert not list(tmp_path.glob("train_packed*"))
