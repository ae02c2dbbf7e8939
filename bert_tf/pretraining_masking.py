"""`--masking=dynamic`: masks drawn in the input pipeline, new ones each epoch.

`mask_batch` turns a batch of records without masks into the features that
records with masks have. It holds no state: the masks of an example depend on
(seed, epoch, index of the example) only, so that a resumed run draws what an
uninterrupted one would have drawn. `pretraining_draws` is the same function
for numpy and gives the same masks.

    dataset = records.record_dataset(paths).batch(32).enumerate()
    def parse(number, serialized):
        features = spec.parse(serialized)
        index = number * 32 + tf.range(32, dtype=tf.int64)
        return mask_batch(features, epoch, index, seed, 20, 0.15)

Shape letters: B batch, S sequence length, P masked predictions.
"""

from collections.abc import Mapping
from typing import Any

from bert_tf.pretraining_draws import (
    GAMMA,
    KEPT_BELOW,
    LAST_POSITION,
    MASKED_BELOW,
    MULTIPLIERS,
    NEVER,
    SHIFTS,
    stream_key,
)
from bert_tf.pretraining_settings import prediction_counts


def mask_batch(
    features: Mapping[str, Any],
    epoch: Any,
    index: Any,
    seed: int,
    max_predictions_per_seq: int,
    masked_lm_prob: float,
) -> dict[str, Any]:
    """Draws the masks of a batch of records without masks.

    Args:
      features: as `dynamic_features` parses them: `input_ids`, `input_mask`,
        `segment_ids` [B, S], `next_sentence_labels` [B, 1],
        `masking_vocabulary` [B, 2] and, for whole words, `word_starts`
        [B, S], all int32.
      epoch: pass over the data, an int64 scalar or [B]. A count of examples
        that goes on over all epochs as `index` does as well, with epoch 0.
      index: index of each example, int64 [B].
      seed: of the run.
      max_predictions_per_seq: P.
      masked_lm_prob: share of an example's tokens that is predicted.

    Returns:
      `input_ids` (masked), `input_mask`, `segment_ids`,
      `next_sentence_labels` as in a record with masks, with
      `masked_lm_positions`, `masked_lm_ids` int32 [B, P] and
      `masked_lm_weights` float32 [B, P].
    """
    import tensorflow as tf

    ids = tf.cast(features["input_ids"], tf.int64)
    size = ids.shape[1]
    position = tf.range(size, dtype=tf.int64)
    is_text = _is_text(features)
    lengths = tf.reduce_sum(features["input_mask"], 1)
    wanted = tf.gather(
        tf.constant(
            prediction_counts(size, max_predictions_per_seq, masked_lm_prob),
            tf.int64,
        ),
        lengths,
    )
    keys = _keys(seed, epoch, index)[:, None]
    order = tf.bitcast(_shifted(_bits(keys, position[None]), 1), tf.int64)
    order = tf.bitwise.bitwise_and(order, ~LAST_POSITION) + position
    if "word_starts" in features:
        starts = tf.cast(features["word_starts"], tf.bool) & is_text
        chosen = _choose_words(order, is_text, starts, wanted)
    else:
        order = tf.where(is_text, order, NEVER)
        last = tf.gather(tf.sort(order, axis=1), wanted - 1, batch_dims=1)
        chosen = is_text & (order <= last[:, None])
    positions, weights = _positions(chosen, max_predictions_per_seq)
    originals = tf.gather(ids, positions, batch_dims=1)
    replacements = _replacements(
        keys, originals, positions, features["masking_vocabulary"], size
    )
    is_real = weights > 0
    changes = tf.where(is_real, replacements - originals, 0)
    ids += tf.reduce_sum(
        tf.one_hot(positions, size, dtype=tf.int64) * changes[..., None], 1
    )
    return {
        "input_ids": tf.cast(ids, tf.int32),
        "input_mask": features["input_mask"],
        "segment_ids": features["segment_ids"],
        "next_sentence_labels": features["next_sentence_labels"],
        "masked_lm_positions": tf.cast(positions, tf.int32),
        "masked_lm_ids": tf.cast(tf.where(is_real, originals, 0), tf.int32),
        "masked_lm_weights": weights,
    }


def _is_text(features):
    """False on `[CLS]`, both `[SEP]` and padding, bool [B, S]."""
    import tensorflow as tf

    mask, segments = features["input_mask"], features["segment_ids"]
    # A [SEP] is the last token of its segment.
    next_mask = tf.pad(mask[:, 1:], [[0, 0], [0, 1]])
    next_segment = tf.pad(segments[:, 1:], [[0, 0], [0, 1]])
    is_sep = (next_mask == 0) | (next_segment != segments)
    is_cls = tf.range(mask.shape[1]) == 0
    return (mask == 1) & ~is_sep & ~is_cls


def _positions(chosen, max_predictions: int):
    """Ascending positions of at most P chosen tokens, and their weights."""
    import tensorflow as tf

    size = chosen.shape[1]
    missing = max(0, max_predictions - size)
    position = tf.where(chosen, tf.range(size, dtype=tf.int64), LAST_POSITION)
    positions = tf.pad(
        tf.sort(position, axis=1)[:, :max_predictions],
        [[0, 0], [0, missing]],
        constant_values=LAST_POSITION,
    )
    is_real = positions < LAST_POSITION
    return tf.where(is_real, positions, 0), tf.cast(is_real, tf.float32)


def _replacements(keys, originals, positions, vocabulary, size: int):
    import tensorflow as tf

    vocabulary = tf.cast(vocabulary, tf.int64)
    mask_ids, vocab_size = vocabulary[:, :1], vocabulary[:, 1:]
    chance = tf.bitcast(_shifted(_bits(keys, positions + size), 11), tf.int64)
    drawn = _shifted(_bits(keys, positions + 2 * size), 32)
    random_ids = tf.bitwise.right_shift(
        tf.bitcast(drawn, tf.int64) * vocab_size, tf.constant(32, tf.int64)
    )
    return tf.where(
        chance < MASKED_BELOW,
        mask_ids,
        tf.where(chance < KEPT_BELOW, originals, random_ids),
    )


def _choose_words(order, is_text, word_starts, wanted):
    """Which tokens whole-word masking takes, bool [B, S].

    Args:
      order: sort key of each position, the position in its low bits, int64
        [B, S].
      is_text: bool [B, S].
      word_starts: bool [B, S], within the text.
      wanted: number of tokens to take at most, int64 [B].
    """
    import tensorflow as tf

    size = order.shape[1]
    position = tf.range(size, dtype=tf.int64)
    # A word reaches to the next start, special token or padding.
    is_border = word_starts | ~is_text
    word_of_token = tf.cumsum(tf.cast(is_border, tf.int64), axis=1) - 1
    borders = tf.sort(tf.where(is_border, position, size), axis=1)
    lengths = (
        tf.pad(borders[:, 1:], [[0, 0], [0, 1]], constant_values=size) - borders
    )
    ranked = tf.sort(tf.where(word_starts, order, NEVER), axis=1)
    is_word = ranked != NEVER
    starts = tf.where(is_word, tf.bitwise.bitwise_and(ranked, LAST_POSITION), 0)
    words = tf.gather(word_of_token, starts, batch_dims=1)
    lengths = tf.where(is_word, tf.gather(lengths, words, batch_dims=1), size)

    def goes_on(rank, total, taken):
        del taken
        return tf.reduce_any(is_word[:, rank] & (total < wanted))

    def take(rank, total, taken):
        after = total + lengths[:, rank]
        takes = is_word[:, rank] & (after <= wanted)
        own = tf.range(size, dtype=tf.int64) == words[:, rank, None]
        return (
            rank + 1,
            tf.where(takes, after, total),
            taken | (own & takes[:, None]),
        )

    *_, taken = tf.while_loop(
        goes_on,
        take,
        (0, tf.zeros_like(wanted), tf.zeros_like(is_text)),
        maximum_iterations=size,
    )
    return tf.gather(taken, word_of_token, batch_dims=1) & is_text


def _mix(value):
    """SplitMix64's finalizer on uint64."""
    import tensorflow as tf

    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        value = tf.bitwise.bitwise_xor(value, _shifted(value, shift))
        value = value * tf.constant(multiplier, tf.uint64)
    return tf.bitwise.bitwise_xor(value, _shifted(value, SHIFTS[-1]))


def _shifted(value, shift: int):
    import tensorflow as tf

    return tf.bitwise.right_shift(value, tf.constant(shift, tf.uint64))


def _bits(keys, counters):
    """The numbers at `counters`, int64, of the streams of `keys`, uint64."""
    import tensorflow as tf

    steps = tf.bitcast(counters + 1, tf.uint64)
    return _mix(keys + steps * tf.constant(GAMMA, tf.uint64))


def _keys(seed: int, epoch, index):
    """A random stream for each example, uint64 [B]."""
    import tensorflow as tf

    index = tf.cast(index, tf.int64)
    epoch = tf.broadcast_to(tf.cast(epoch, tf.int64), tf.shape(index))
    gamma = tf.constant(GAMMA, tf.uint64)
    key = tf.fill(tf.shape(index), tf.constant(stream_key(seed), tf.uint64))
    for part in (epoch, index):
        own = _mix(tf.bitcast(part, tf.uint64) + gamma)
        key = _mix(tf.bitwise.bitwise_xor(_mix(key + gamma), own))
    return key
