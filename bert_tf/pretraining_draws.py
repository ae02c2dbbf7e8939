"""Masks drawn by a hash of (seed, pass, instance, position): no state.

Which tokens are predicted, and what stands in their place, is distributed as
in the original (google-research/bert, `create_pretraining_data.py`): tokens,
or whole words, in random order until the number of predictions is reached, a
word that would overshoot it passed over; of each token 80 % `[MASK]`, 10 %
kept, 10 % a random id. `pretraining_masking` is the same for `tf.data`.

Shape letters: n instances, S sequence length, P masked predictions.
"""

from typing import NamedTuple

import numpy as np

from bert_tf.pretraining_settings import prediction_counts

# SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number
# generators", OOPSLA 2014): the increment and the finalizer.
GAMMA = 0x9E3779B97F4A7C15
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)
_64 = (1 << 64) - 1

# A sort key holds a position in its low bits, so that no two are equal.
POSITION_BITS = 15
LAST_POSITION = (1 << POSITION_BITS) - 1
NEVER = (1 << 63) - 1

MASKED_BELOW = int(0.8 * (1 << 53))
KEPT_BELOW = int(0.9 * (1 << 53))


def mix(value: int) -> int:
    """SplitMix64's finalizer: 64 bits to 64 well mixed bits."""
    value &= _64
    value = (value ^ value >> SHIFTS[0]) * MULTIPLIERS[0] & _64
    value = (value ^ value >> SHIFTS[1]) * MULTIPLIERS[1] & _64
    return value ^ value >> SHIFTS[2]


def stream_key(*parts: int) -> int:
    """One 64-bit key for a tuple of numbers, such as (seed, pass, document)."""
    key = 0
    for part in parts:
        key = mix(mix(key + GAMMA) ^ mix(part + GAMMA))
    return key


def _mix_array(value: np.ndarray) -> np.ndarray:
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        value ^= value >> np.uint64(shift)
        value *= np.uint64(multiplier)
    value ^= value >> np.uint64(SHIFTS[2])
    return value


def random_bits(keys: np.ndarray, counters: np.ndarray) -> np.ndarray:
    """The numbers at `counters` of the streams of `keys`.

    Args:
      keys: uint64, broadcast against `counters`.
      counters: non-negative integers.

    Returns:
      uint64, the broadcast shape.
    """
    steps = (counters.astype(np.uint64) + np.uint64(1)) * np.uint64(GAMMA)
    return _mix_array(keys + steps)


class Masks(NamedTuple):
    """Masks of n instances.

    Attributes:
      positions: ascending, padded with 0, int64 [n, P].
      replacements: ids to put there, padded with 0, int64 [n, P].
      counts: real predictions of each, int64 [n].
    """

    positions: np.ndarray
    replacements: np.ndarray
    counts: np.ndarray


class MaskDrawer:
    """Draws masks for instances of one shape.

    Args:
      max_seq_length: S.
      max_predictions_per_seq: P.
      masked_lm_prob: share of an instance's tokens that is predicted.
      mask_id: id of `[MASK]`.
      vocab_size: random replacements are drawn below this id.
    """

    def __init__(
        self,
        max_seq_length: int,
        max_predictions_per_seq: int,
        masked_lm_prob: float,
        mask_id: int,
        vocab_size: int,
    ):
        self._s = max_seq_length
        self._p = max_predictions_per_seq
        self._mask_id = mask_id
        self._vocab_size = vocab_size
        self._wanted = np.array(
            prediction_counts(
                max_seq_length, max_predictions_per_seq, masked_lm_prob
            )
        )

    def draw(
        self,
        keys: np.ndarray,
        input_ids: np.ndarray,
        is_text: np.ndarray,
        word_starts: np.ndarray | None = None,
    ) -> Masks:
        """Draws the masks of a batch.

        Args:
          keys: a random stream for each instance, uint64 [n].
          input_ids: unmasked, [n, S].
          is_text: False on special tokens and padding, bool [n, S].
          word_starts: where a word begins, bool [n, S]; None masks single
            pieces.
        """
        # [SEP] follows the last piece of text.
        lengths = self._s - is_text[:, ::-1].argmax(1) + 1
        wanted = self._wanted[lengths]
        position = np.arange(self._s)
        bits = random_bits(keys[:, None], position[None])
        order = (bits >> np.uint64(1)).astype(np.int64)
        order &= ~LAST_POSITION
        order |= position
        if word_starts is None:
            order[~is_text] = NEVER
            places = self._smallest(order)
            is_real = np.arange(places.shape[1]) < wanted[:, None]
            is_real &= places < self._s
            places[~is_real] = LAST_POSITION
        else:
            chosen = _choose_words(order, is_text, word_starts, wanted)
            places = self._smallest(np.where(chosen, position, LAST_POSITION))
        places.sort(1)
        is_real = places < self._s
        positions = places * is_real
        replacements = self._replacements(keys, input_ids, positions)
        return Masks(
            self._padded(positions),
            self._padded(replacements * is_real),
            is_real.sum(1),
        )

    def _smallest(self, order: np.ndarray) -> np.ndarray:
        """Positions held by the P smallest keys of each row, smallest first."""
        order.sort(1)
        return order[:, : self._p] & LAST_POSITION

    def _padded(self, values: np.ndarray) -> np.ndarray:
        """[n, at most P] -> [n, P]."""
        missing = self._p - values.shape[1]
        return np.pad(values, ((0, 0), (0, missing))) if missing else values

    def _replacements(self, keys, input_ids, positions) -> np.ndarray:
        counters = positions + self._s
        chance = random_bits(keys[:, None], counters) >> np.uint64(11)
        drawn = random_bits(keys[:, None], counters + self._s)
        random_ids = (
            (drawn >> np.uint64(32)) * np.uint64(self._vocab_size)
        ) >> np.uint64(32)
        return np.where(
            chance < MASKED_BELOW,
            self._mask_id,
            np.where(
                chance < KEPT_BELOW,
                np.take_along_axis(input_ids, positions, 1),
                random_ids.astype(np.int64),
            ),
        )


def _choose_words(
    order: np.ndarray,
    is_text: np.ndarray,
    word_starts: np.ndarray,
    wanted: np.ndarray,
) -> np.ndarray:
    """Which tokens whole-word masking takes.

    Args:
      order: sort key of each position, the position in its low bits, [n, S].
      is_text: bool [n, S].
      word_starts: bool [n, S].
      wanted: number of tokens to take at most, [n].

    Returns:
      bool [n, S].
    """
    size = order.shape[1]
    position = np.arange(size)
    # A word reaches to the next start, special token or padding.
    is_border = word_starts | ~is_text
    own_start = np.maximum.accumulate(np.where(is_border, position, 0), 1)
    next_border = np.full(order.shape, size)
    next_border[:, :-1] = np.minimum.accumulate(
        np.where(is_border, position, size)[:, :0:-1], 1
    )[:, ::-1]
    lengths = next_border - position
    order = np.where(word_starts & is_text, order, NEVER)
    order.sort(1)
    taken = np.zeros(order.shape, bool)
    total = np.zeros(len(order), np.int64)
    rows = np.arange(len(order))
    for rank in range(size):
        is_word = order[:, rank] != NEVER
        if not (is_word & (total < wanted)).any():
            break
        start = order[:, rank] & LAST_POSITION
        start[~is_word] = 0
        length = lengths[rows, start]
        takes = is_word & (total + length <= wanted)
        total += length * takes
        taken[rows, start] |= takes
    return np.take_along_axis(taken, own_start, 1) & is_text


def instance_keys(
    seed: int, epoch: int | np.ndarray, index: np.ndarray
) -> np.ndarray:
    """Keys of instances as `mask_batch` makes them, for numpy.

    Args:
      seed: of the run.
      epoch: pass over the data, a number or int64 [n].
      index: index of each instance, int64 [n].

    Returns:
      uint64 [n].
    """
    key = np.full(len(index), stream_key(seed), np.uint64)
    for part in (np.broadcast_to(epoch, key.shape), index):
        step = np.uint64(GAMMA)
        own = _mix_array(part.astype(np.int64).view(np.uint64) + step)
        key = _mix_array(_mix_array(key + step) ^ own)
    return key
