"""Lines of text -> vectors, as a stream."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import feature_extraction
from bert_tf.checkpoint import load_checkpoint, save_checkpoint
from bert_tf.config import BertConfig
from bert_tf.feature_files import ExtractionSettings
from bert_tf.modeling import BertModel
from bert_tf.settings import DeviceSettings, ModelSettings
from bert_tf.tokenization import FullTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "dog", "sat", "|"]
CONFIG = BertConfig(
    vocab_size=len(PIECES),
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=32,
    type_vocab_size=2,
    initializer_range=0.3,
)
TEXT = (
    b"the cat sat\n\n  the cat ||| the dog sat  \nthe \xff\r\n\xe2\x80\xa8dog"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    tf.keras.utils.set_random_seed(2)
    folder = tmp_path_factory.mktemp("model")
    CONFIG.save(folder / "bert_config.json")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (folder / "input.txt").write_bytes(TEXT)
    save_checkpoint(BertModel(CONFIG), folder / "bert_model.ckpt")
    return folder


def extract(folder, output, devices=None, max_seq_length=16, **options):
    settings = ExtractionSettings(
        **{
            "input_file": str(folder / "input.txt"),
            "output_file": str(output),
            "layers": ["-1", "embeddings"],
            "max_seq_length": max_seq_length,
            "batch_size": 2,
            **options,
        }
    )
    model = ModelSettings(
        str(folder / "bert_config.json"),
        str(folder / "vocab.txt"),
        str(folder / "bert_model.ckpt"),
        True,
        max_seq_length,
    )
    return feature_extraction.run(
        lambda config: FullTokenizer(model.vocab_file),
        model,
        settings,
        devices or DeviceSettings(),
    )


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("a ||| b ||| c", ("a ||| b", "c")),
        ("a ||| b", ("a", "b")),
        ("a|||b", ("a|||b", None)),
        ("", ("", None)),
        (" ||| b", ("", "b")),
    ],
)
def test_pairs_are_split_at_the_last_separator(line, expected):
    assert feature_extraction.split_line(line) == expected


def test_every_line_counts_and_line_feeds_alone_end_one(folder):
    tokenizer = FullTokenizer(folder / "vocab.txt")
    lines = list(
        feature_extraction.read_lines(str(folder / "input.txt"), tokenizer, 8)
    )
    assert [line.index for line in lines] == [0, 1, 2, 3, 4]
    tokens = [
        " ".join(tokenizer.convert_ids_to_tokens(line.row["input_ids"]))
        for line in lines
    ]
    assert tokens == [
        "[CLS] the cat sat [SEP]",
        "[CLS] [SEP]",
        "[CLS] the cat [SEP] the dog sat [SEP]",
        "[CLS] the [SEP]",
        "[CLS] dog [SEP]",
    ]
    assert lines[2].row["segment_ids"] == [0] * 4 + [1] * 4
    assert not any(line.is_cut for line in lines)
    lines = list(
        feature_extraction.read_lines(str(folder / "input.txt"), tokenizer, 5)
    )
    assert [line.is_cut for line in lines] == [False, False, True] + [False] * 2


def test_layers_and_embeddings_are_those_of_the_model(folder, tmp_path):
    assert extract(folder, tmp_path / "out", output_format="npy") == 5
    array = np.load(tmp_path / "out")
    model = BertModel(CONFIG)
    load_checkpoint(model, folder / "bert_model.ckpt", strict=True)
    tokenizer = FullTokenizer(folder / "vocab.txt")
    lines = feature_extraction.read_lines(
        str(folder / "input.txt"), tokenizer, 16
    )
    first = 0
    for line in lines:
        outputs = model({k: np.int32([v]) for k, v in line.row.items()})
        expected = np.stack(
            [
                outputs["all_encoder_layers"][-1][0],
                outputs["embedding_output"][0],
            ],
            axis=1,
        )
        found = array[first : first + len(expected)]
        np.testing.assert_allclose(found, expected, atol=1e-5)
        first += len(expected)
    assert first == len(array)


def test_fixed_shapes_give_the_same(folder, tmp_path):
    model = BertModel(CONFIG)
    load_checkpoint(model, folder / "bert_model.ckpt", strict=True)
    tokenizer = FullTokenizer(folder / "vocab.txt")
    arrays = []
    for fixed in (False, True):
        settings = ExtractionSettings(
            str(folder / "input.txt"),
            str(tmp_path / f"{fixed}.npy"),
            [0],
            16,
            3,
            output_format="npy",
        )
        runner = feature_extraction.create_runner(
            model, settings, fixed_length=fixed
        )
        feature_extraction.extract_file(settings, runner, tokenizer)
        arrays.append(np.load(settings.output_file))
    np.testing.assert_allclose(*arrays, atol=1e-5)


def test_pooled_vectors_and_their_similarity(folder, tmp_path, capsys):
    options = {"pooling": "mean", "normalize": True, "print_similarity": True}
    extract(folder, tmp_path / "out", **options)
    lines = (tmp_path / "out").read_text().splitlines()
    vectors = np.float64([json.loads(line)["values"] for line in lines])
    assert vectors.shape == (5, 16)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-4)
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 7
    for i, line in enumerate(printed[2:]):
        values = line.split()[1:6]
        np.testing.assert_allclose(
            np.float64(values), vectors @ vectors[i], atol=6e-4
        )
    assert printed[2].endswith("  the cat sat")


def test_values_of_few_lines_are_held(folder):
    """The reader is never further ahead than the window."""
    model = BertModel(CONFIG)
    settings = ExtractionSettings("", "", [0], 16, 2)
    runner = feature_extraction.create_runner(model, settings)
    tokenizer = FullTokenizer(folder / "vocab.txt")
    lines = list(
        feature_extraction.read_lines(str(folder / "input.txt"), tokenizer, 16)
    )
    read = []

    def reader():
        for number in range(1000):
            read.append(number)
            yield lines[number % 5]

    stream = feature_extraction.extract(reader(), runner, window=6)
    found = [next(stream) for _ in range(7)]
    assert len(read) == 12
    assert [line.index for line, _ in found] == [0, 1, 2, 3, 4, 0, 1]
    for line, values in found:
        assert values.shape == (len(line.row["input_ids"]), 1, 8)


def test_inputs_are_checked(folder, tmp_path):
    for options, message in (
        ({"input_file": str(tmp_path / "no")}, "--input_file=.*no such file"),
        ({"layers": ["2"]}, "--layers: the model has no layer 2"),
        ({"max_seq_length": 33}, "--max_seq_length is 33, expected 3 to 32"),
        (
            {"devices": DeviceSettings(distribution_strategy="multi_worker")},
            "multi_worker",
        ),
    ):
        with pytest.raises(ValueError, match=message):
            extract(folder, tmp_path / "out", **options)
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(ValueError, match="has no line"):
        extract(
            folder, tmp_path / "out", input_file=str(tmp_path / "empty.txt")
        )
    assert not (tmp_path / "out").exists()


def test_every_variable_must_come_from_the_checkpoint(folder, tmp_path):
    (copy := tmp_path / "copy").mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    values = {**CONFIG.to_dict(), "num_hidden_layers": 3}
    (copy / "bert_config.json").write_text(json.dumps(values))
    with pytest.raises(ValueError, match="layer_2"):
        extract(copy, tmp_path / "out")
