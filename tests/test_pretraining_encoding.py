"""Layout and encoding of many instances, against the one-by-one forms."""

import numpy as np
import pytest

from bert_tf import packing
from bert_tf.pretraining_encoding import RecordEncoder, apply_masks, lay_out
from bert_tf.pretraining_settings import dynamic_features, static_features


def instances(n, s, vocab, seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.integers(5, vocab, 5000)
    starts_a = rng.integers(0, 4000, n)
    starts_b = rng.integers(0, 4000, n)
    lengths_a = rng.integers(1, s - 3, n)
    lengths_b = np.array([rng.integers(1, s - 2 - a) for a in lengths_a])
    # The last tokens of the array, so that an index beyond them occurs.
    starts_b[0] = 5000 - lengths_b[0]
    return tokens, starts_a, lengths_a, starts_b, lengths_b


@pytest.mark.parametrize("s", [5, 16, 130])
def test_lay_out_packs_pairs(s):
    tokens, start_a, len_a, start_b, len_b = instances(50, s, 300)
    layout = lay_out(tokens, start_a, len_a, start_b, len_b, s, 2, 3)
    for i in range(50):
        a = tokens[start_a[i] : start_a[i] + len_a[i]]
        b = tokens[start_b[i] : start_b[i] + len_b[i]]
        expected = packing.pack(a.tolist(), b.tolist(), s, 2, 3).input_ids
        assert layout.input_ids[i].tolist() == expected
        assert layout.is_text[i].tolist() == [id_ > 3 for id_ in expected]


def test_apply_masks():
    ids = np.arange(10, 26).reshape(2, 8)
    positions = np.array([[1, 3, 0], [7, 0, 0]])
    new = np.array([[4, 99, 0], [5, 0, 0]])
    originals = apply_masks(ids, positions, new, np.array([2, 1]))
    assert originals.tolist() == [[11, 13, 0], [25, 0, 0]]
    assert ids[0].tolist() == [10, 4, 12, 99, 14, 15, 16, 17]
    assert ids[1].tolist() == [18, 19, 20, 21, 22, 23, 24, 5]


@pytest.mark.parametrize(
    ("s", "vocab"), [(16, 100), (128, 30_000), (300, 120_000)]
)
def test_static_records_are_those_of_the_spec(s, vocab):
    n, p = 40, 7
    rng = np.random.default_rng(1)
    tokens, start_a, len_a, start_b, len_b = instances(n, s, vocab)
    ids, _ = lay_out(tokens, start_a, len_a, start_b, len_b, s, 2, 3)
    counts = rng.integers(0, p + 1, n)
    real = np.arange(p) < counts[:, None]
    positions = np.sort(rng.integers(1, s, (n, p))) * real
    mlm = rng.integers(0, vocab, (n, p)) * real
    labels = rng.integers(0, 2, n)
    lengths = len_a + len_b + 3
    encoded = RecordEncoder(s, p).static(
        ids, len_a, lengths, labels, positions, mlm, counts
    )
    spec = static_features(s, p)
    column = np.arange(s)
    for i in range(n):
        assert encoded[i] == spec.serialize(
            {
                "input_ids": ids[i],
                "input_mask": (column < lengths[i]).astype(int),
                "segment_ids": (
                    (column > len_a[i] + 1) & (column < lengths[i])
                ).astype(int),
                "masked_lm_positions": positions[i],
                "masked_lm_ids": mlm[i],
                "masked_lm_weights": real[i].astype(float),
                "next_sentence_labels": labels[i],
            }
        )


@pytest.mark.parametrize("whole_words", [False, True])
def test_dynamic_records_are_those_of_the_spec(whole_words):
    n, s = 30, 64
    rng = np.random.default_rng(2)
    tokens, start_a, len_a, start_b, len_b = instances(n, s, 30_000)
    layout = lay_out(tokens, start_a, len_a, start_b, len_b, s, 2, 3)
    starts = layout.is_text & (rng.random((n, s)) < 0.5)
    labels = rng.integers(0, 2, n)
    lengths = len_a + len_b + 3
    encoded = RecordEncoder(s).dynamic(
        layout.input_ids,
        len_a,
        lengths,
        labels,
        (103, 30_522),
        starts if whole_words else None,
    )
    spec = dynamic_features(s, whole_words)
    column = np.arange(s)
    for i in range(n):
        values = {
            "input_ids": layout.input_ids[i],
            "next_sentence_labels": labels[i],
            "input_mask": (column < lengths[i]).astype(int),
            "segment_ids": (
                (column > len_a[i] + 1) & (column < lengths[i])
            ).astype(int),
            "masking_vocabulary": [103, 30_522],
            "word_starts": starts[i].astype(int),
        }
        assert encoded[i] == spec.serialize(values)
