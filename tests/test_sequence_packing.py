"""Packing sequences into rows, and taking their results apart."""

import numpy as np
import pytest

from bert_tf.records import Feature, FeatureSpec
from bert_tf.sequence_packing import (
    PACKING_FEATURES,
    RowLayout,
    best_fit_rows,
    examples_in_order,
)

LENGTH, SLOTS = 16, 3
SPEC = FeatureSpec(
    [
        Feature("input_ids", (LENGTH,)),
        Feature("input_mask", (LENGTH,)),
        Feature("segment_ids", (LENGTH,)),
        Feature("label_ids"),
        Feature("answer"),
        Feature("values", (2,), "float32"),
        Feature("slot_positions", (SLOTS,)),
        Feature("slot_weights", (SLOTS,), "float32"),
    ]
)
LAYOUT = RowLayout(
    SPEC,
    predictions=("slot_positions", "slot_weights"),
    positions=("slot_positions", "answer"),
)


def examples(lengths, slots=None):
    """A chunk whose every value tells where it comes from."""
    count = len(lengths)
    chunk = {
        f.name: np.zeros(
            (count, *f.shape), np.float32 if f.dtype != "int64" else np.int32
        )
        for f in SPEC
    }
    for i, length in enumerate(lengths):
        chunk["input_ids"][i, :length] = 100 * (i + 1) + np.arange(length)
        chunk["input_mask"][i, :length] = 1
        chunk["segment_ids"][i, length // 2 : length] = 1
        chunk["label_ids"][i] = i + 7
        chunk["answer"][i] = length - 1
        chunk["values"][i] = (i, -i)
        used = 1 if slots is None else slots[i]
        chunk["slot_positions"][i, :used] = np.arange(used) % length
        chunk["slot_weights"][i, :used] = 1.0
    return chunk


def shaped(row):
    return {f.name: np.reshape(row[f.name], f.shape) for f in LAYOUT.row_spec()}


def test_every_sequence_is_in_one_row_that_it_fits():
    rng = np.random.default_rng(3)
    sizes = [
        (int(rng.integers(1, 60)), int(rng.integers(0, 9))) for _ in range(500)
    ]
    rows = best_fit_rows(sizes, (64, 12), 6)
    assert sorted(n for row in rows for n in row) == list(range(500))
    for row in rows:
        assert sum(sizes[n][0] for n in row) <= 64
        assert sum(sizes[n][1] for n in row) <= 12
        assert len(row) <= 6
        assert row == sorted(row)


def test_rows_of_short_texts_are_nearly_full():
    rng = np.random.default_rng(4)
    sizes = [(int(n), 0) for n in rng.integers(5, 50, 2000)]
    rows = best_fit_rows(sizes, (128, 0), 16)
    assert sum(n for n, _ in sizes) / (128 * len(rows)) > 0.99


def test_the_number_of_sequences_in_a_row_is_bounded():
    assert best_fit_rows([(1, 0)] * 5, (64, 0), 2) == [[0, 1], [2, 3], [4]]


def test_a_sequence_longer_than_a_row_is_refused():
    with pytest.raises(ValueError, match="sequence 1 has 65 pieces"):
        best_fit_rows([(3, 0), (65, 0)], (64, 0), 4)


def test_features_of_a_row():
    # M is 2 at 16 pieces.
    (row,) = map(shaped, LAYOUT.rows(examples([5, 9]), first_number=40))
    assert row["input_ids"].tolist() == [
        *range(100, 105),
        *range(200, 209),
        *[0, 0],
    ]
    assert row["input_mask"].tolist() == [1] * 14 + [0] * 2
    assert row["segment_ids"].tolist() == [
        *[0, 0, 1, 1, 1],
        *[0] * 4,
        *[1] * 5,
        *[0, 0],
    ]
    assert row["position_ids"].tolist() == [*range(5), *range(9), 0, 0]
    assert row["sequence_ids"].tolist() == [1] * 5 + [2] * 9 + [0] * 2
    assert row["sequence_starts"].tolist() == [0, 5]
    assert row["sequence_lengths"].tolist() == [5, 9]
    assert row["example_numbers"].tolist() == [40, 41]
    assert row["label_ids"].tolist() == [7, 8]
    assert row["answer"].tolist() == [4, 13]
    assert row["values"].tolist() == [[0, 0], [1, -1]]
    assert row["slot_positions"].tolist() == [0, 5, 0]
    assert row["slot_weights"].tolist() == [1, 1, 0]


def test_predictions_of_a_row_are_bounded():
    rows = list(LAYOUT.rows(examples([5, 5], slots=[2, 2]), first_number=0))
    assert len(rows) == 2


def test_results_come_back_in_order():
    lengths = [9, 3, 12, 5, 4, 7, 2, 2]
    chunk = examples(lengths)
    rows = [shaped(row) for row in LAYOUT.rows(chunk, first_number=0)]
    assert len(rows) > 2
    assert [r["example_numbers"][0] for r in rows] != list(range(len(rows)))
    batches = [
        {
            **{name: row[name][np.newaxis] for name in PACKING_FEATURES},
            "label": row["label_ids"][np.newaxis],
            "piece": row["input_ids"][np.newaxis],
        }
        for row in rows
    ]
    found = list(examples_in_order(batches, {"piece": -5}, len(lengths)))
    labels = np.concatenate([batch["label"] for batch in found])
    pieces = np.concatenate([batch["piece"] for batch in found])
    assert labels.tolist() == chunk["label_ids"].tolist()
    beyond = np.where(chunk["input_mask"] == 1, chunk["input_ids"], -5)
    np.testing.assert_array_equal(pieces, beyond)
    with pytest.raises(AssertionError, match="example 2 of 9 is in no row"):
        list(examples_in_order(batches[:2], {"piece": -5}, 9))
