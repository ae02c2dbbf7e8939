"""Scores: worked by hand, and against other libraries where installed."""

import math

import numpy as np
import pytest

from bert_tf import metrics

LABELS = [0, 1, 1, 0, 1, 0, 0, 1]
PREDICTIONS = [0, 1, 0, 0, 1, 1, 0, 1]  # tp 3, fn 1, fp 1, tn 3


def test_accuracy():
    assert metrics.accuracy(LABELS, PREDICTIONS) == 0.75
    # Rows that only fill a batch weigh nothing.
    assert metrics.accuracy([1, 0, 0], [1, 1, 0], [1, 1, 0]) == 0.5


def test_weighted_mean():
    assert metrics.weighted_mean([1, 2, 6]) == 3
    assert metrics.weighted_mean([1, 2, 6], [1, 1, 0]) == 1.5
    assert metrics.weighted_mean([1, 2], [0, 0]) == 0


def test_mean_of_batch_means():
    # Batches (1, 3), (5, 7), (10): means 2, 6, 10.
    assert metrics.mean_of_batch_means([1, 3, 5, 7, 10], 2) == 6
    assert metrics.mean_of_batch_means([1, 3, 5, 7, 10], 5) == 5.2
    with pytest.raises(ValueError, match="no examples"):
        metrics.mean_of_batch_means([], 2)


def test_confusion_matrix():
    got = metrics.confusion_matrix([0, 0, 1, 2, 2], [0, 1, 1, 0, 2], 4)
    assert got.tolist() == [
        [1, 1, 0, 0],
        [0, 1, 0, 0],
        [1, 0, 1, 0],
        [0, 0, 0, 0],
    ]
    with pytest.raises(ValueError, match="labels, row 1: class id 2, expected"):
        metrics.confusion_matrix([0, 2], [0, 1], 2)
    with pytest.raises(ValueError, match="predictions, row 0: class id -1"):
        metrics.confusion_matrix([0, 1], [-1, 1], 2)


def test_scores_of_each_class():
    matrix = np.array([[1, 1, 0], [0, 1, 0], [1, 0, 0]])
    got = metrics.precision_recall_f1(matrix)
    assert got["precision"].tolist() == [0.5, 0.5, 0]
    assert got["recall"].tolist() == [0.5, 1, 0]
    assert got["f1"] == pytest.approx([0.5, 2 / 3, 0])
    assert got["support"].tolist() == [2, 1, 1]


def test_f1():
    assert metrics.f1(LABELS, PREDICTIONS) == 0.75
    assert metrics.f1([1, 1, 1, 0], [1, 0, 0, 0]) == 0.5
    assert metrics.f1([1, 1, 1, 0], [1, 0, 0, 0], positive=0) == 0.5
    assert metrics.f1([0, 0], [0, 0]) == 0


def test_macro_and_micro_f1():
    labels, predictions = [0, 0, 2, 2], [0, 2, 2, 2]
    # Class 0: 2/3; class 2: 4/5; class 1 occurs nowhere.
    expected = (2 / 3 + 4 / 5) / 2
    assert metrics.macro_f1(labels, predictions) == pytest.approx(expected)
    assert metrics.micro_f1(labels, predictions) == 0.75


def test_matthews():
    # (3*3 - 1*1) / sqrt(4*4*4*4)
    assert metrics.matthews(LABELS, PREDICTIONS) == pytest.approx(0.5)
    assert metrics.matthews([0, 1], [1, 0]) == -1
    assert metrics.matthews([0, 1], [1, 1]) == 0
    assert metrics.matthews([0, 1, 2], [0, 1, 2]) == pytest.approx(1)


def test_pearson():
    assert metrics.pearson([1, 2, 3], [2, 4, 6]) == 1
    # Deviations (-1, 0, 1) and (-1, 1, 0): 1 / 2.
    assert metrics.pearson([1, 2, 3], [1, 3, 2]) == pytest.approx(0.5)
    assert math.isnan(metrics.pearson([1, 2], [3, 3]))


def test_spearman_averages_ties():
    assert metrics.average_ranks([10, 30, 20, 30]).tolist() == [1, 3.5, 2, 3.5]
    assert metrics.spearman([1, 2, 3], [1, 10, 100]) == pytest.approx(1)
    # Ranks (1, 2.5, 2.5) and (1, 2, 3): 1.5 / sqrt(1.5 * 2).
    expected = 1.5 / math.sqrt(3)
    assert metrics.spearman([1, 2, 2], [1, 2, 3]) == pytest.approx(expected)


def test_mean_squared_error():
    assert metrics.mean_squared_error([1, 2], [2.0, 4.0]) == 2.5


def test_scores_by_name():
    got = metrics.compute_scores(["f1", "accuracy"], LABELS, PREDICTIONS)
    assert got == {"f1": 0.75, "accuracy": 0.75}
    with pytest.raises(ValueError, match="unknown scores auc; known: accuracy"):
        metrics.compute_scores(["auc"], LABELS, PREDICTIONS)


def test_shapes_and_emptiness():
    with pytest.raises(ValueError, match=r"shapes differ: \[2\] and \[3\]"):
        metrics.accuracy([0, 1], [0, 1, 1])
    with pytest.raises(ValueError, match="no examples"):
        metrics.accuracy([], [])


def test_probabilities_are_checked():
    metrics.check_probabilities(np.full((2, 3), 0.5), 3)
    with pytest.raises(ValueError, match=r"shape \[2, 3\], expected \[n, 2\]"):
        metrics.check_probabilities(np.full((2, 3), 0.5), 2)
    with pytest.raises(ValueError, match="row 1: not finite"):
        metrics.check_probabilities(np.array([[0.5], [np.inf]]), 1)


TARGETS = np.array([[1, 0, 0], [1, 1, 0], [0, 1, 0], [0, 0, 0]])
SIGMOIDS = np.array(
    [[0.9, 0.6, 0.1], [0.5, 0.2, 0.1], [0.1, 0.7, 0.1], [0.2, 0.1, 0.1]]
)


def test_multi_label_scores():
    got = metrics.multi_label_scores(TARGETS, SIGMOIDS)
    # Predicted: rows (1, 1, 0), (1, 0, 0), (0, 1, 0), (0, 0, 0).
    assert got == pytest.approx(
        {
            "micro_f1": 6 / 8,
            "micro_precision": 3 / 4,
            "micro_recall": 3 / 4,
            "macro_f1": (1 + 0.5 + 0) / 3,
            "exact_match": 0.5,
            "hamming_loss": 2 / 12,
        }
    )
    strict = metrics.multi_label_scores(TARGETS, SIGMOIDS, [0.8, 0.65, 0.5])
    assert strict["micro_precision"] == 1 and strict["micro_recall"] == 0.5


def test_best_thresholds():
    got = metrics.best_thresholds(TARGETS, SIGMOIDS)
    # Label 1: 0.7 alone gives F1 2/3; down to 0.2, with one mistake, 4/5.
    assert got.tolist() == pytest.approx([0.35, 0.15, 0.5])
    equal = metrics.best_thresholds(
        np.array([[1], [0], [1]]), np.array([[0.4], [0.4], [0.4]])
    )
    assert equal.tolist() == [0.2]


def test_best_thresholds_outlive_rounding():
    thresholds = metrics.best_thresholds(TARGETS, SIGMOIDS)
    expected = metrics.multi_label_scores(TARGETS, SIGMOIDS, thresholds)
    for moved in (SIGMOIDS - 1e-6, SIGMOIDS + 1e-6):
        assert (
            metrics.multi_label_scores(TARGETS, moved, thresholds) == expected
        )


def test_names_of_multi_label_scores():
    scores = metrics.multi_label_scores(TARGETS, SIGMOIDS)
    assert tuple(scores) == metrics.MULTI_LABEL_SCORES


@pytest.fixture
def random():
    return np.random.default_rng(7)


def test_against_scipy(random):
    stats = pytest.importorskip("scipy.stats")
    x = random.integers(0, 8, 200) / 2
    y = x + random.normal(size=200).round(1)
    assert metrics.pearson(x, y) == pytest.approx(stats.pearsonr(x, y)[0])
    assert metrics.spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0])
    ranks = stats.rankdata(x)
    assert metrics.average_ranks(x).tolist() == ranks.tolist()


def test_against_sklearn(random):
    sklearn = pytest.importorskip("sklearn.metrics")
    labels = random.integers(0, 4, 300)
    noise = random.integers(0, 4, 300)
    predictions = np.where(random.random(300) < 0.6, labels, noise)
    assert metrics.matthews(labels, predictions) == pytest.approx(
        sklearn.matthews_corrcoef(labels, predictions)
    )
    for average in ("macro", "micro"):
        ours = getattr(metrics, f"{average}_f1")(labels, predictions)
        theirs = sklearn.f1_score(labels, predictions, average=average)
        assert ours == pytest.approx(theirs)
    binary = labels % 2, predictions % 2
    assert metrics.f1(*binary) == pytest.approx(sklearn.f1_score(*binary))
    targets = random.integers(0, 2, (100, 5))
    probabilities = random.random((100, 5))
    got = metrics.multi_label_scores(targets, probabilities)
    hot = probabilities >= 0.5
    for average in ("macro", "micro"):
        theirs = sklearn.f1_score(targets, hot, average=average)
        assert got[f"{average}_f1"] == pytest.approx(theirs)
    assert got["hamming_loss"] == pytest.approx(
        sklearn.hamming_loss(targets, hot)
    )
