"""Masks drawn in the input pipeline: the same as numpy's, and fresh."""

import numpy as np
import pytest

from bert_tf import records
from bert_tf.pretraining_draws import MaskDrawer, instance_keys
from bert_tf.pretraining_encoding import apply_masks
from bert_tf.pretraining_masking import mask_batch
from bert_tf.pretraining_settings import (
    dynamic_features,
    features_of_record,
    static_features,
)

tf = pytest.importorskip("tensorflow")

S, P, V, MASK, PROB = 24, 5, 500, 4, 0.2


def examples(n, whole_words, seed=0):
    rng = np.random.default_rng(seed)
    out = []
    for _ in range(n):
        a, b = rng.integers(1, 11), rng.integers(1, 11)
        length = a + b + 3
        ids = np.zeros(S, int)
        ids[:length] = rng.integers(10, V, length)
        ids[[0, a + 1, length - 1]] = 2, 3, 3
        starts = rng.random(S) < 0.6
        starts[[1, a + 2]] = True
        starts[[0, a + 1]] = False
        starts[length - 1 :] = False
        example = {
            "input_ids": ids,
            "next_sentence_labels": [int(rng.integers(2))],
            "input_mask": (np.arange(S) < length).astype(int),
            "segment_ids": (
                (np.arange(S) >= a + 2) & (np.arange(S) < length)
            ).astype(int),
            "masking_vocabulary": [MASK, V],
        }
        if whole_words:
            example["word_starts"] = starts.astype(int)
        out.append(example)
    return out


def parsed(rows, whole_words):
    spec = dynamic_features(S, whole_words)
    return spec.parse(tf.constant([spec.serialize(row) for row in rows]))


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize("predictions", [P, 40])
def test_the_same_masks_as_numpy(whole_words, predictions):
    rows = examples(200, whole_words)
    index = np.arange(1000, 1200)
    ours = mask_batch(
        parsed(rows, whole_words), 3, index, 77, predictions, PROB
    )
    ids = np.array([row["input_ids"] for row in rows], np.int32)
    is_text = (ids > 3) & (np.array([r["input_mask"] for r in rows]) == 1)
    starts = None
    if whole_words:
        starts = np.array([row["word_starts"] for row in rows]) == 1
    masks = MaskDrawer(S, predictions, PROB, MASK, V).draw(
        instance_keys(77, 3, index), ids, is_text, starts
    )
    originals = apply_masks(
        ids, masks.positions, masks.replacements, masks.counts
    )
    real = np.arange(predictions) < masks.counts[:, None]
    np.testing.assert_array_equal(ours["masked_lm_positions"], masks.positions)
    np.testing.assert_array_equal(ours["masked_lm_ids"], originals)
    np.testing.assert_array_equal(ours["masked_lm_weights"], real)
    np.testing.assert_array_equal(ours["input_ids"], ids)
    names = static_features(S, predictions).names()
    assert sorted(ours) == sorted(names)
    for name, value in ours.items():
        is_float = name == "masked_lm_weights"
        assert value.dtype == (tf.float32 if is_float else tf.int32), name


def dataset(path, spec, seed, batch, skip=0, epochs=2):
    """Masked batches of several epochs, as a training run reads them."""
    count = sum(1 for _ in records.read_records(path))

    def parse(number, serialized):
        index = number * batch + tf.range(batch, dtype=tf.int64)
        return mask_batch(
            spec.parse(serialized),
            index // count,
            index % count,
            seed,
            P,
            PROB,
        )

    data = records.record_dataset([path]).repeat(epochs)
    data = data.batch(batch, drop_remainder=True).enumerate().skip(skip)
    return data.map(parse, num_parallel_calls=2)


@pytest.mark.parametrize("whole_words", [False, True])
def test_fresh_each_epoch_and_the_same_on_resume(tmp_path, whole_words):
    path = str(tmp_path / "records")
    rows = examples(32, whole_words)
    records.write_records(path, dynamic_features(S, whole_words), iter(rows))
    first = next(records.read_records(path))
    spec = features_of_record(first, path, S, P)
    whole = list(dataset(path, spec, 5, 8).as_numpy_iterator())
    assert len(whole) == 8
    resumed = list(dataset(path, spec, 5, 8, skip=3).as_numpy_iterator())
    for one, other in zip(whole[3:], resumed, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])
    positions = np.concatenate([each["masked_lm_positions"] for each in whole])
    assert (positions[:32] != positions[32:]).any(1).mean() > 0.7
    other_seed = next(iter(dataset(path, spec, 6, 8)))
    other_positions = other_seed["masked_lm_positions"].numpy()
    assert (other_positions != positions[:8]).any()
    # Put back, the ids to predict give the ids of the record.
    for batch, at in ((whole[0], 0), (whole[4], 0), (whole[7], 24)):
        for row in range(8):
            ids = batch["input_ids"][row].copy()
            count = int(batch["masked_lm_weights"][row].sum())
            place = batch["masked_lm_positions"][row][:count]
            ids[place] = batch["masked_lm_ids"][row][:count]
            np.testing.assert_array_equal(ids, rows[at + row]["input_ids"])
