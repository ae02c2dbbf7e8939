"""Random numbers by hash, and masks made of them."""

import numpy as np
import pytest

from bert_tf.pretraining_draws import (
    GAMMA,
    MaskDrawer,
    instance_keys,
    mix,
    random_bits,
    stream_key,
)

S, P, V, MASK = 32, 6, 1000, 4


def batch(n, seed=0, full=False):
    """Ids, places of text and keys of n instances."""
    rng = np.random.default_rng(seed)
    is_text = np.zeros((n, S), bool)
    for row in is_text:
        a = rng.integers(1, 14)
        b = rng.integers(1, 14) if not full else S - 3 - a
        row[1 : a + 1] = True
        row[a + 2 : a + 2 + b] = True
    ids = rng.integers(10, V, (n, S)) * is_text
    return instance_keys(seed, 0, np.arange(n)), ids, is_text


def drawer(prob=0.15, predictions=P):
    return MaskDrawer(S, predictions, prob, MASK, V)


def test_splitmix64_known_numbers():
    # The first numbers of SplitMix64 from state 0, as published with
    # xoshiro256 (Vigna, prng.di.unimi.it).
    assert [mix(GAMMA * i) for i in (1, 2)] == [
        0xE220A8397B1DCDAF,
        0x6E789E6AA1B965F4,
    ]
    numbers = random_bits(np.zeros(1, np.uint64), np.arange(2))
    assert numbers.tolist() == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


def test_keys_differ_by_each_part_and_agree_with_numpy():
    keys = {
        stream_key(a, b, c) for a in (0, -1, 5) for b in (0, 1) for c in (0, 1)
    }
    assert len(keys) == 12
    assert instance_keys(7, 3, np.array([0, 9])).tolist() == [
        stream_key(7, 3, 0),
        stream_key(7, 3, 9),
    ]
    assert stream_key(1, 2) != stream_key(2, 1)


def test_bits_are_even():
    bits = random_bits(
        instance_keys(1, 0, np.arange(200))[:, None], np.arange(64)
    )
    ones = (bits[..., None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    share = ones.mean((0, 1))
    assert np.abs(share - 0.5).max() < 5 * 0.5 / np.sqrt(200 * 64)


def test_masks_lie_in_the_text_ascend_and_count():
    keys, ids, is_text = batch(500)
    masks = drawer().draw(keys, ids, is_text)
    lengths = is_text.sum(1) + 3
    wanted = [max(1, round(n * 0.15)) for n in lengths.tolist()]
    assert masks.counts.tolist() == wanted
    for row, (positions, new, count) in enumerate(zip(*masks, strict=True)):
        real = positions[:count]
        assert is_text[row, real].all() and (np.diff(real) > 0).all()
        assert not positions[count:].any() and not new[count:].any()


def test_predictions_are_capped():
    keys, ids, is_text = batch(50, full=True)
    masks = drawer(0.9).draw(keys, ids, is_text)
    assert (masks.counts == P).all()
    # More than there is text: all of it.
    everything = MaskDrawer(S, 40, 1.0, MASK, V).draw(keys, ids, is_text)
    assert (everything.counts == S - 3).all()
    assert everything.positions.shape == (50, 40)


def test_shares_of_mask_kept_and_random():
    keys, ids, is_text = batch(20_000, full=True)
    masks = drawer().draw(keys, ids, is_text)
    real = np.arange(P) < masks.counts[:, None]
    originals = np.take_along_axis(ids, masks.positions, 1)
    as_mask = (masks.replacements == MASK)[real].mean()
    kept = (masks.replacements == originals)[real].mean()
    error = np.sqrt(0.16 / real.sum())
    assert abs(as_mask - 0.8) < 4 * error
    assert abs(kept - 0.1) < 4 * error
    others = masks.replacements[
        real & (masks.replacements != MASK) & (masks.replacements != originals)
    ]
    # Any id of the vocabulary, evenly, special ones included.
    assert others.min() < 10 and others.max() >= V - 10
    assert abs(others.mean() / V - 0.5) < 4 * np.sqrt(1 / 12 / len(others))


def test_every_position_is_as_likely():
    keys, ids, is_text = batch(20_000, full=True)
    is_text[:] = is_text[0]
    masks = drawer().draw(keys, ids, is_text)
    real = np.arange(P) < masks.counts[:, None]
    counts = np.bincount(masks.positions[real], minlength=S)[is_text[0]]
    expected = real.sum() / (S - 3)
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 28 + 5 * np.sqrt(2 * 28)


def word_starts(is_text, seed=1):
    rng = np.random.default_rng(seed)
    starts = (rng.random(is_text.shape) < 0.6) & is_text
    before = np.zeros_like(is_text)
    before[:, 1:] = is_text[:, :-1]
    return starts | (is_text & ~before)


def words_of(starts, is_text):
    """Lists of positions, straight from the definition."""
    words = []
    for position in range(S):
        if starts[position]:
            words.append([position])
        elif is_text[position]:
            words[-1].append(position)
    return words


def test_whole_words_as_the_definition_has_them():
    keys, ids, is_text = batch(300)
    starts = word_starts(is_text)
    masks = drawer(0.25).draw(keys, ids, is_text, starts)
    lengths = is_text.sum(1) + 3
    partial = 0
    for row in range(300):
        wanted = min(P, max(1, round(int(lengths[row]) * 0.25)))
        bits = random_bits(keys[row], np.arange(S))
        words = sorted(
            words_of(starts[row], is_text[row]), key=lambda w: bits[w[0]] >> 16
        )
        chosen = []
        for word in words:
            if len(chosen) + len(word) <= wanted:
                chosen += word
        count = masks.counts[row]
        assert masks.positions[row, :count].tolist() == sorted(chosen)
        partial += count < wanted
    assert partial, "no row of the test has a word that does not fit"


def test_a_word_that_cannot_fit_is_never_masked():
    keys, ids, is_text = batch(100, full=True)
    # Each text is one word; 32 tokens have five predictions.
    starts = is_text & ~np.roll(is_text, 1, axis=1)
    lengths_a = is_text[:, 1:].argmin(1)
    masks = drawer().draw(keys, ids, is_text, starts)
    for length_a, count in zip(lengths_a, masks.counts, strict=True):
        short = [n for n in (length_a, S - 3 - length_a) if n <= 5]
        assert [count] == (short or [0])


@pytest.mark.parametrize("whole", [False, True])
def test_masks_depend_on_the_key_only(whole):
    keys, ids, is_text = batch(64)
    starts = word_starts(is_text) if whole else None
    masks = drawer().draw(keys, ids, is_text, starts)
    rows = np.array([5, 60, 3])
    again = drawer().draw(
        keys[rows], ids[rows], is_text[rows], starts[rows] if whole else None
    )
    for one, other in zip(masks, again, strict=True):
        assert (one[rows] == other).all()
