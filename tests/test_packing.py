"""Truncation and packing."""

import random

import pytest

from bert_tf.packing import pack, pad_inputs, truncate_pair


def one_at_a_time(a, b, limit):
    while len(a) + len(b) > limit:
        (a if len(a) > len(b) else b).pop()


def test_pair_truncation_equals_taking_one_at_a_time():
    rng = random.Random(1)
    for _ in range(2000):
        a = list(range(rng.randrange(12)))
        b = list(range(rng.randrange(12)))
        limit = rng.randrange(len(a) + len(b) + 2)
        a2, b2 = a[:], b[:]
        truncate_pair(a, b, limit)
        one_at_a_time(a2, b2, limit)
        assert (a, b) == (a2, b2)


def test_single():
    packed = pack([5, 6], None, 6, cls_id=1, sep_id=2)
    assert packed.input_ids == [1, 5, 6, 2, 0, 0]
    assert packed.input_mask == [1, 1, 1, 1, 0, 0]
    assert packed.segment_ids == [0] * 6
    assert pack([5, 6], [], 6, 1, 2) == packed
    assert pack([5, 6, 7], None, 4, 1, 2).input_ids == [1, 5, 6, 2]


def test_pair():
    packed = pack([5], [8, 9], 8, cls_id=1, sep_id=2)
    assert packed.input_ids == [1, 5, 2, 8, 9, 2, 0, 0]
    assert packed.input_mask == [1] * 6 + [0, 0]
    assert packed.segment_ids == [0, 0, 0, 1, 1, 1, 0, 0]


def test_empty_text():
    assert pack([], None, 4, 1, 2).input_ids == [1, 2, 0, 0]
    assert pack([], [7], 4, 1, 2).input_ids == [1, 2, 7, 2]


def test_no_room():
    with pytest.raises(ValueError, match="max_seq_length is 2"):
        pack([5], [6], 2, 1, 2)
    with pytest.raises(ValueError, match="3 tokens do not fit"):
        pad_inputs([1, 2, 3], [0, 0, 0], 2)
