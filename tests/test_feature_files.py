"""The files that features are written to."""

import json

import numpy as np
import pytest

from bert_tf.feature_files import WRITERS, ExtractionSettings, Line
from bert_tf.records import decode_example, read_records
from bert_tf.tokenization import FullTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat"]
# Two lines of 4 and 2 pieces, two layers of three values.
LINES = [
    Line(0, "the cat", {"input_ids": [2, 4, 5, 3], "segment_ids": [0] * 4}),
    Line(1, "", {"input_ids": [2, 3], "segment_ids": [0] * 2}),
]
VALUES = [
    (np.arange(24, dtype=np.float32).reshape(4, 2, 3) - 7) / 3,
    -np.arange(12, dtype=np.float32).reshape(2, 2, 3) / 7,
]


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join(PIECES) + "\n")
    return FullTokenizer(path)


def write(tmp_path, tokenizer, values, **options):
    settings = ExtractionSettings(
        "unused", str(tmp_path / "output"), [-1, "embeddings"], **options
    )
    with WRITERS[settings.output_format](settings, tokenizer, 3, 2, 6) as out:
        for line, value in zip(LINES, values, strict=True):
            out.write(line, value)
    return tmp_path / "output"


def test_json_lines_are_the_originals(tmp_path, tokenizer):
    path = write(tmp_path, tokenizer, VALUES)
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert [x["linex_index"] for x in found] == [0, 1]
    for line, values in zip(found, VALUES, strict=True):
        for feature, of_layers in zip(line["features"], values, strict=True):
            assert list(feature) == ["token", "layers"]
            assert [x["index"] for x in feature["layers"]] == [
                -1,
                "embeddings",
            ]
            for layer, vector in zip(feature["layers"], of_layers, strict=True):
                # The very numbers that Python's own rounding gives.
                assert layer["values"] == [round(float(x), 6) for x in vector]
    tokens = [x["token"] for x in found[0]["features"]]
    assert tokens == ["[CLS]", "the", "cat", "[SEP]"]


def test_json_lines_of_pooled_vectors(tmp_path, tokenizer):
    vectors = [x.mean(axis=0).reshape(-1) for x in VALUES]
    path = write(tmp_path, tokenizer, vectors, pooling="mean")
    found = [json.loads(line) for line in path.read_text().splitlines()]
    assert found[1]["linex_index"] == 1
    assert found[1]["pooling"] == "mean"
    assert found[1]["layers"] == [-1, "embeddings"]
    np.testing.assert_allclose([x["values"] for x in found], vectors, atol=1e-6)


def test_npy_of_pieces_says_where_each_line_starts(tmp_path, tokenizer):
    path = write(tmp_path, tokenizer, VALUES, output_format="npy")
    array = np.load(path, mmap_mode="r")
    assert array.dtype == np.float32
    np.testing.assert_array_equal(array, np.concatenate(VALUES))
    lines = (tmp_path / "output.tokens.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [
        {
            "linex_index": 0,
            "first_row": 0,
            "tokens": ["[CLS]", "the", "cat", "[SEP]"],
        },
        {"linex_index": 1, "first_row": 4, "tokens": ["[CLS]", "[SEP]"]},
    ]


def test_npy_of_pooled_vectors(tmp_path, tokenizer):
    vectors = [x.max(axis=0).reshape(-1) for x in VALUES]
    path = write(
        tmp_path, tokenizer, vectors, output_format="npy", pooling="max"
    )
    np.testing.assert_array_equal(np.load(path), vectors)
    assert not (tmp_path / "output.tokens.jsonl").exists()


def test_records(tmp_path, tokenizer):
    path = write(tmp_path, tokenizer, VALUES, output_format="tfrecord")
    records = list(map(decode_example, read_records(str(path))))
    for i, (record, values) in enumerate(zip(records, VALUES, strict=True)):
        assert record["linex_index"] == [i]
        assert record["input_ids"] == LINES[i].row["input_ids"]
        assert record["segment_ids"] == LINES[i].row["segment_ids"]
        found = np.float32(record["values"]).reshape(record["shape"])
        np.testing.assert_array_equal(found, values)
    vectors = [x[0].reshape(-1) for x in VALUES]
    path = write(
        tmp_path, tokenizer, vectors, output_format="tfrecord", pooling="cls"
    )
    record = decode_example(next(read_records(str(path))))
    assert set(record) == {"linex_index", "shape", "values"}
    assert record["shape"] == [6]


@pytest.mark.parametrize("output_format", ["json", "npy", "tfrecord"])
def test_a_failed_run_leaves_no_file(tmp_path, tokenizer, output_format):
    with pytest.raises(ZeroDivisionError):
        write(
            tmp_path,
            tokenizer,
            (1 / i for i in range(1)),
            output_format=output_format,
        )
    assert [x.name for x in tmp_path.iterdir()] == ["vocab.txt"]


def test_settings_are_checked():
    with pytest.raises(ValueError, match="--output_format is 'csv'"):
        ExtractionSettings("a", "b", output_format="csv")
    for name in ("normalize", "print_similarity"):
        with pytest.raises(ValueError, match=f"--{name} .* --pooling"):
            ExtractionSettings("a", "b", **{name: True})
    with pytest.raises(ValueError, match="--batch_size is 0"):
        ExtractionSettings("a", "b", batch_size=0)
    settings = ExtractionSettings("a", "b", [0, 1], pooling="mean")
    assert settings.size(5) == 10
    settings = ExtractionSettings("a", "b", [0, 1], pooling="pooled")
    assert settings.size(5) == 5
