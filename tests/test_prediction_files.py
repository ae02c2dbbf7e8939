"""Prediction files: exact text of both."""

import json

import numpy as np
import pytest

from bert_tf.tasks import prediction_files
from bert_tf.tasks.classification_data import Example

EXAMPLES = [
    Example("test-1", "東京", None, id="7"),
    Example("test-2", "a", "b", id="9"),
]
PROBABILITIES = np.float32([[0.25, 0.75], [0.6, 0.4]])


def lines(path):
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_results_are_shortest_float32_digits(tmp_path):
    path = tmp_path / "test_results.tsv"
    assert prediction_files.write_test_results(path, PROBABILITIES) == 2
    assert path.read_bytes() == b"0.25\t0.75\n0.6\t0.4\n"
    # float64 outputs are rounded first, as the original computes in float32.
    prediction_files.write_test_results(path, np.float64([[1 / 3, 2 / 3]]))
    assert path.read_bytes() == b"0.33333334\t0.6666667\n"


def test_results_of_regression(tmp_path):
    path = tmp_path / "test_results.tsv"
    prediction_files.write_test_results(path, np.float32([2.5, 0.1]))
    assert path.read_bytes() == b"2.5\n0.1\n"


def test_predictions_explain_themselves(tmp_path):
    path = tmp_path / "predictions.jsonl"
    prediction_files.write_predictions(
        path, iter(EXAMPLES), PROBABILITIES, ["neg", "pos"]
    )
    first, second = lines(path)
    assert first == {
        "id": "7",
        "text_a": "東京",
        "text_b": None,
        "label": "pos",
        "probabilities": {"neg": 0.25, "pos": 0.75},
    }
    assert second["label"] == "neg" and second["text_b"] == "b"
    assert list(second["probabilities"]) == ["neg", "pos"]
    assert "東京" in path.read_text("utf-8")


def test_several_labels(tmp_path):
    path = tmp_path / "predictions.jsonl"
    prediction_files.write_multi_label_predictions(
        path, EXAMPLES, PROBABILITIES, ["x", "y"], [0.5, 0.4]
    )
    # A probability equal to its threshold counts, in float32 as given.
    assert [line["labels"] for line in lines(path)] == [["y"], ["x", "y"]]


def test_numbers(tmp_path):
    path = tmp_path / "predictions.jsonl"
    prediction_files.write_regression_predictions(
        path, EXAMPLES, np.float32([2.5, 1.0])
    )
    assert [line["value"] for line in lines(path)] == [2.5, 1.0]


@pytest.mark.parametrize("count", [1, 3])
def test_counts_must_agree_and_nothing_is_left_behind(tmp_path, count):
    path = tmp_path / "predictions.jsonl"
    with pytest.raises(ValueError, match=r"2 examples but . predictions"):
        prediction_files.write_predictions(
            path, EXAMPLES, np.full((count, 2), 0.5), ["neg", "pos"]
        )
    assert not list(tmp_path.iterdir())


def test_outputs_must_be_finite_and_fit_the_labels(tmp_path):
    path = tmp_path / "predictions.jsonl"
    bad = np.float32([[0.5, 0.5], [np.nan, 0.5]])
    with pytest.raises(ValueError, match="row 1: not finite"):
        prediction_files.write_predictions(path, EXAMPLES, bad, ["a", "b"])
    with pytest.raises(ValueError, match=r"expected \[n, 3\]"):
        prediction_files.write_predictions(
            path, EXAMPLES, PROBABILITIES, ["a", "b", "c"]
        )
