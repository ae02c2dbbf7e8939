"""Scores of whole data sets, computed on the host with numpy.

Shape letters: n examples, L labels.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np


def _same_length(first, second) -> tuple[np.ndarray, np.ndarray]:
    first, second = np.asarray(first), np.asarray(second)
    if first.shape != second.shape:
        raise ValueError(
            f"shapes differ: {list(first.shape)} and {list(second.shape)}"
        )
    if not first.size:
        raise ValueError("no examples to score")
    return first, second


def check_class_ids(ids: Sequence[int], num_labels: int, what: str) -> None:
    """Refuses class ids that are not whole numbers from 0 to L - 1.

    Raises:
      ValueError: names the first bad row.
    """
    ids = np.asarray(ids)
    bad = (ids != np.floor(ids)) | (ids < 0) | (ids >= num_labels)
    if bad.any():
        row = int(np.argmax(bad))
        raise ValueError(
            f"{what}, row {row}: class id {ids[row]}, expected 0 to "
            f"{num_labels - 1}"
        )


def check_probabilities(probabilities: np.ndarray, num_labels: int) -> None:
    """Refuses outputs of a wrong shape, or that are not finite.

    Args:
      probabilities: [n, L].
      num_labels: L.

    Raises:
      ValueError: names the shape, or the first bad row.
    """
    probabilities = np.asarray(probabilities)
    if probabilities.ndim != 2 or probabilities.shape[1] != num_labels:
        raise ValueError(
            f"probabilities of shape {list(probabilities.shape)}, expected "
            f"[n, {num_labels}]"
        )
    bad = ~np.isfinite(probabilities).all(axis=1)
    if bad.any():
        raise ValueError(
            f"probabilities, row {int(np.argmax(bad))}: not finite"
        )


def weighted_mean(
    values: Sequence[float], weights: Sequence[float] | None = None
) -> float:
    """Mean of `values` weighted by `weights`, both [n], in float64.

    Returns:
      sum(weights * values) / sum(weights), 0 if all weights are 0.
    """
    values = np.asarray(values, np.float64)
    if weights is None:
        weights = np.ones_like(values)
    values, weights = _same_length(values, np.asarray(weights, np.float64))
    total = weights.sum()
    return float((values * weights).sum() / total) if total else 0.0


def mean_of_batch_means(values: Sequence[float], batch_size: int) -> float:
    """Mean over batches of each batch's mean; the last may be shorter.

    So the original's evaluation reports `loss`: an example in a short last
    batch weighs more than the others.

    Args:
      values: [n], in the order in which they were batched.
      batch_size: examples in all batches but the last.
    """
    values = np.asarray(values, np.float64)
    if not values.size:
        raise ValueError("no examples to score")
    starts = range(0, len(values), batch_size)
    return float(np.mean([values[i : i + batch_size].mean() for i in starts]))


def accuracy(
    labels: Sequence[int],
    predictions: Sequence[int],
    weights: Sequence[float] | None = None,
) -> float:
    """Fraction of equal class ids, weighted if weights are given."""
    labels, predictions = _same_length(labels, predictions)
    return weighted_mean(labels == predictions, weights)


def confusion_matrix(
    labels: Sequence[int], predictions: Sequence[int], num_labels: int
) -> np.ndarray:
    """Counts int64 [L, L]: row is the label, column the prediction.

    Raises:
      ValueError: a class id outside 0 to L - 1.
    """
    labels, predictions = _same_length(labels, predictions)
    check_class_ids(labels, num_labels, "labels")
    check_class_ids(predictions, num_labels, "predictions")
    cells = labels.astype(np.int64) * num_labels + predictions.astype(np.int64)
    counts = np.bincount(cells, minlength=num_labels**2)
    return counts.reshape(num_labels, num_labels)


def _ratio(numerator, denominator) -> np.ndarray:
    """Quotient, 0 where the denominator is 0."""
    numerator = np.asarray(numerator, np.float64)
    denominator = np.asarray(denominator, np.float64)
    out = np.zeros_like(numerator)
    return np.divide(numerator, denominator, out=out, where=denominator != 0)


def _num_labels(labels, predictions) -> int:
    return int(max(np.max(labels), np.max(predictions))) + 1


def precision_recall_f1(matrix: np.ndarray) -> dict[str, np.ndarray]:
    """Scores of each class from a confusion matrix.

    Returns:
      `precision`, `recall`, `f1`, float64 [L], 0 where undefined, and
      `support`, the number of examples of each label.
    """
    hits = np.diag(matrix)
    predicted, actual = matrix.sum(axis=0), matrix.sum(axis=1)
    return {
        "precision": _ratio(hits, predicted),
        "recall": _ratio(hits, actual),
        "f1": _ratio(2 * hits, predicted + actual),
        "support": actual,
    }


def f1(
    labels: Sequence[int], predictions: Sequence[int], positive: int = 1
) -> float:
    """F1 of one class, 2 tp / (2 tp + fp + fn), 0 if undefined."""
    labels, predictions = _same_length(labels, predictions)
    hits = np.sum((labels == positive) & (predictions == positive))
    total = np.sum(labels == positive) + np.sum(predictions == positive)
    return float(_ratio(2 * hits, total))


def macro_f1(labels: Sequence[int], predictions: Sequence[int]) -> float:
    """Mean F1 over the classes that occur in labels or predictions."""
    labels, predictions = _same_length(labels, predictions)
    size = _num_labels(labels, predictions)
    matrix = confusion_matrix(labels, predictions, size)
    occurs = matrix.sum(axis=0) + matrix.sum(axis=1) > 0
    return float(precision_recall_f1(matrix)["f1"][occurs].mean())


def micro_f1(labels: Sequence[int], predictions: Sequence[int]) -> float:
    """F1 of all classes counted together; with one label each, accuracy."""
    return accuracy(labels, predictions)


def matthews(labels: Sequence[int], predictions: Sequence[int]) -> float:
    """Matthews correlation coefficient, for any number of classes.

    The covariance form (Gorodkin 2004, R_K); 0 if labels or predictions are
    all the same.
    """
    labels, predictions = _same_length(labels, predictions)
    size = _num_labels(labels, predictions)
    matrix = confusion_matrix(labels, predictions, size).astype(np.float64)
    predicted, actual = matrix.sum(axis=0), matrix.sum(axis=1)
    total = matrix.sum()
    covariance = np.trace(matrix) * total - predicted @ actual
    spread = (total**2 - predicted @ predicted) * (total**2 - actual @ actual)
    return float(_ratio(covariance, np.sqrt(spread)))


def pearson(labels: Sequence[float], predictions: Sequence[float]) -> float:
    """Pearson correlation; NaN if either is constant."""
    labels, predictions = _same_length(labels, predictions)
    x = labels.astype(np.float64) - np.mean(labels, dtype=np.float64)
    y = predictions.astype(np.float64)
    y = y - y.mean()
    spread = np.sqrt((x @ x) * (y @ y))
    if not spread:
        return float("nan")
    return float(np.clip(x @ y / spread, -1, 1))


def average_ranks(values: Sequence[float]) -> np.ndarray:
    """Ranks from 1, float64 [n]; equal values share their mean rank."""
    _, inverse, counts = np.unique(
        np.asarray(values), return_inverse=True, return_counts=True
    )
    last = np.cumsum(counts)
    return ((2 * last - counts + 1) / 2)[inverse]


def spearman(labels: Sequence[float], predictions: Sequence[float]) -> float:
    """Rank correlation, ties averaged; NaN if either is constant."""
    labels, predictions = _same_length(labels, predictions)
    return pearson(average_ranks(labels), average_ranks(predictions))


def mean_squared_error(
    labels: Sequence[float], predictions: Sequence[float]
) -> float:
    """Mean of the squared differences."""
    labels, predictions = _same_length(labels, predictions)
    difference = labels.astype(np.float64) - predictions.astype(np.float64)
    return float(np.mean(difference**2))


SCORES: Mapping[str, Callable[[Any, Any], float]] = {
    "accuracy": accuracy,
    "f1": f1,
    "macro_f1": macro_f1,
    "micro_f1": micro_f1,
    "matthews": matthews,
    "pearson": pearson,
    "spearman": spearman,
    "mean_squared_error": mean_squared_error,
}


def compute_scores(
    names: Sequence[str], labels: Sequence, predictions: Sequence
) -> dict[str, float]:
    """Computes the named scores of class ids or numbers, both [n].

    Raises:
      ValueError: an unknown name; lists those known.
    """
    unknown = [name for name in names if name not in SCORES]
    if unknown:
        raise ValueError(
            f"unknown scores {', '.join(unknown)}; known: {', '.join(SCORES)}"
        )
    return {name: SCORES[name](labels, predictions) for name in names}


MULTI_LABEL_SCORES = (
    "micro_f1",
    "micro_precision",
    "micro_recall",
    "macro_f1",
    "exact_match",
    "hamming_loss",
)


def multi_label_scores(
    targets: np.ndarray,
    probabilities: np.ndarray,
    thresholds: float | Sequence[float] = 0.5,
) -> dict[str, float]:
    """Scores of multi-label predictions.

    Args:
      targets: 0 or 1, [n, L].
      probabilities: sigmoid outputs [n, L].
      thresholds: one, or one for each label; a label is predicted where its
        probability reaches its threshold.

    Returns:
      `micro_f1`, `micro_precision`, `micro_recall`, `macro_f1` (mean over
      labels, 0 for one that is neither true nor predicted anywhere),
      `exact_match` (fraction of rows right in all labels), `hamming_loss`
      (fraction of wrong cells).
    """
    counts = _multi_label_counts(targets, probabilities, thresholds)
    hits, actual, predicted, wrong = counts
    totals = hits.sum(), actual.sum(), predicted.sum()
    return {
        "micro_f1": float(_ratio(2 * totals[0], totals[1] + totals[2])),
        "micro_precision": float(_ratio(totals[0], totals[2])),
        "micro_recall": float(_ratio(totals[0], totals[1])),
        "macro_f1": float(_ratio(2 * hits, actual + predicted).mean()),
        "exact_match": float(np.mean(~wrong.any(axis=1))),
        "hamming_loss": float(np.mean(wrong)),
    }


def _multi_label_counts(targets, probabilities, thresholds):
    targets, probabilities = _same_length(targets, probabilities)
    check_probabilities(probabilities, targets.shape[-1])
    actual = targets > 0.5
    predicted = probabilities >= np.asarray(thresholds)
    return (
        np.sum(actual & predicted, axis=0),
        actual.sum(axis=0),
        predicted.sum(axis=0),
        actual != predicted,
    )


def best_thresholds(
    targets: np.ndarray, probabilities: np.ndarray
) -> np.ndarray:
    """The threshold of each label that gives its best F1.

    Args:
      targets: 0 or 1, [n, L].
      probabilities: sigmoid outputs [n, L].

    Returns:
      Thresholds [L], the highest of equally good ones, each halfway between
      the lowest probability that it takes in and the next one below (0 if
      there is none), so that rounding moves no example over it; 0.5 for a
      label that is never true.
    """
    targets, probabilities = _same_length(targets, probabilities)
    thresholds = np.full(targets.shape[1], 0.5)
    for k in range(targets.shape[1]):
        order = np.argsort(-probabilities[:, k], kind="stable")
        values = probabilities[order, k]
        hits = np.cumsum(targets[order, k] > 0.5)
        if not hits[-1]:
            continue
        # Only the last of equal values takes all of them in.
        is_last = np.append(values[1:] != values[:-1], True)
        scores = 2 * hits / (np.arange(1, len(values) + 1) + hits[-1])
        lowest = np.argmax(np.where(is_last, scores, -1))
        below = values[lowest + 1] if lowest + 1 < len(values) else 0.0
        thresholds[k] = (float(values[lowest]) + float(below)) / 2
    return thresholds
