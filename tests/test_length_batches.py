"""Batches of like lengths."""

import random

import numpy as np
import pytest

from bert_tf import packing
from bert_tf.length_batches import (
    length_batches,
    pack_unpadded,
    pad_rows,
    padded_lengths,
)


def test_padded_lengths_grow_in_steps_and_end_at_the_longest():
    assert padded_lengths(128) == (
        *range(4, 33, 4),
        *range(40, 65, 8),
        *range(80, 129, 16),
    )
    assert padded_lengths(512)[-5:] == (256, 320, 384, 448, 512)
    assert padded_lengths(21) == (4, 8, 12, 16, 20, 21)
    assert padded_lengths(3) == (3,)


@pytest.mark.parametrize("batch_tokens", [1, 100, 600, 4096])
@pytest.mark.parametrize("max_rows", [None, 3])
def test_each_row_is_in_one_batch_and_fits(batch_tokens, max_rows):
    source = random.Random(5)
    rows = [min(128, 2 + int(source.expovariate(0.07))) for _ in range(500)]
    lengths = padded_lengths(128)
    batches = list(length_batches(rows, lengths, max_rows, batch_tokens))
    seen = [i for batch in batches for i in batch.indices]
    assert sorted(seen) == list(range(500))
    for batch in batches:
        assert batch.length in lengths
        assert max(rows[i] for i in batch.indices) <= batch.length
        size = len(batch.indices)
        assert size == 1 or size * batch.length <= batch_tokens
        assert max_rows is None or size <= max_rows


def test_little_is_padded_and_no_batch_is_tiny_without_need():
    source = random.Random(6)
    rows = [min(128, 2 + int(source.expovariate(0.07))) for _ in range(2000)]
    batches = list(length_batches(rows, padded_lengths(128)))
    computed = sum(len(b.indices) * b.length for b in batches)
    assert sum(rows) / computed > 0.85
    small = [b for b in batches if len(b.indices) * b.length < 256]
    assert len(small) <= 1


def test_few_rows_share_a_batch():
    (batch,) = length_batches([5, 60, 30], padded_lengths(128))
    assert batch.indices == [1, 2, 0]
    assert batch.length == 64


def test_equal_lengths_keep_their_order():
    batches = list(length_batches([7] * 5, (8,), max_rows=2))
    assert [b.indices for b in batches] == [[0, 1], [2, 3], [4]]


def test_no_rows_and_too_long_rows():
    assert list(length_batches([], (8, 16))) == []
    with pytest.raises(ValueError, match="a row of 17 pieces"):
        list(length_batches([3, 17], (8, 16)))


@pytest.mark.parametrize("ids_b", [None, [], [7, 8, 9, 10]])
@pytest.mark.parametrize("limit", [5, 8, 40])
def test_unpadded_rows_are_the_packed_ones(ids_b, limit):
    row = pack_unpadded([4, 5, 6], ids_b, limit, 1, 2)
    packed = packing.pack([4, 5, 6], ids_b, limit, 1, 2)
    length = sum(packed.input_mask)
    assert row["input_ids"] == packed.input_ids[:length]
    assert row["segment_ids"] == packed.segment_ids[:length]


def test_pad_rows():
    rows = [
        {"input_ids": [1, 7, 2], "segment_ids": [0, 0, 1], "spots": [1, 2, 1]},
        {"input_ids": [1, 2], "segment_ids": [0, 0], "spots": [1]},
    ]
    arrays = pad_rows(rows, 4)
    assert {a.dtype for a in arrays.values()} == {np.dtype("int32")}
    assert arrays["input_ids"].tolist() == [[1, 7, 2, 0], [1, 2, 0, 0]]
    assert arrays["input_mask"].tolist() == [[1, 1, 1, 0], [1, 1, 0, 0]]
    assert arrays["segment_ids"].tolist() == [[0, 0, 1, 0], [0] * 4]
    assert arrays["spots"].tolist() == [[1, 2, 1, 0], [1, 0, 0, 0]]
