"""Prediction files: the original's table, and one that explains itself."""

import json
import os
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from bert_tf import files, metrics

RESULTS_FILE = "test_results.tsv"
PREDICTIONS_FILE = "predictions.jsonl"


def write_test_results(
    path: str | os.PathLike, probabilities: np.ndarray
) -> int:
    """Writes one line of numbers for each example, as the original does.

    Args:
      path: file to write.
      probabilities: [n, L] in label order; [n] in regression. Written as
        float32, the shortest digits that give the number back, without
        header, tab-separated.

    Returns:
      The number of lines.
    """
    values = np.asarray(probabilities, np.float32)
    if values.ndim == 1:
        values = values[:, None]
    with files.atomic_write(path) as stream:
        for row in values:
            stream.write("\t".join([str(value) for value in row]) + "\n")
    return len(values)


def _write_lines(
    path: str | os.PathLike,
    examples: Iterable,
    outputs: Sequence,
    describe: Callable[[Any], dict[str, Any]],
) -> int:
    """Writes a JSON object for each example: its texts, what was predicted."""
    count = 0
    with files.atomic_write(path) as stream:
        for example in examples:
            count += 1
            if count > len(outputs):
                continue
            line = {
                "id": example.id,
                "text_a": example.text_a,
                "text_b": example.text_b,
                **describe(outputs[count - 1]),
            }
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        if count != len(outputs):
            raise ValueError(
                f"{os.fspath(path)}: {count} examples but {len(outputs)} "
                "predictions"
            )
    return count


def _by_label(labels: Sequence[str], row: np.ndarray) -> dict[str, float]:
    # JSON knows no numpy numbers.
    return {label: float(p) for label, p in zip(labels, row, strict=True)}


def write_predictions(
    path: str | os.PathLike,
    examples: Iterable,
    probabilities: np.ndarray,
    labels: Sequence[str],
) -> int:
    """Writes a JSON object for each example of a classification.

    Args:
      path: file to write.
      examples: `Example`s in the order of the predictions; read once.
      probabilities: softmax outputs [n, L].
      labels: L labels.

    Returns:
      The number of lines. Each has `id`, `text_a`, `text_b`, `label` (the
      likeliest) and `probabilities` (label -> number, in label order).

    Raises:
      ValueError: there are not as many examples as predictions, or a
        prediction is not finite.
    """
    metrics.check_probabilities(probabilities, len(labels))

    def describe(row):
        return {
            "label": labels[np.argmax(row)],
            "probabilities": _by_label(labels, row),
        }

    return _write_lines(path, examples, probabilities, describe)


def write_multi_label_predictions(
    path: str | os.PathLike,
    examples: Iterable,
    probabilities: np.ndarray,
    labels: Sequence[str],
    thresholds: float | Sequence[float] = 0.5,
) -> int:
    """As `write_predictions`, with `labels`: all that reach their threshold.

    Args:
      path: file to write.
      examples: `Example`s in the order of the predictions; read once.
      probabilities: sigmoid outputs [n, L].
      labels: L labels.
      thresholds: one, or one for each label.
    """
    metrics.check_probabilities(probabilities, len(labels))
    limits = np.asarray(thresholds)

    def describe(row):
        return {
            "labels": [labels[k] for k in np.flatnonzero(row >= limits)],
            "probabilities": _by_label(labels, row),
        }

    return _write_lines(path, examples, probabilities, describe)


def write_regression_predictions(
    path: str | os.PathLike, examples: Iterable, values: np.ndarray
) -> int:
    """As `write_predictions`, with `value`: the predicted number.

    Args:
      path: file to write.
      examples: `Example`s in the order of the predictions; read once.
      values: [n].
    """
    return _write_lines(
        path, examples, values, lambda value: {"value": float(value)}
    )
