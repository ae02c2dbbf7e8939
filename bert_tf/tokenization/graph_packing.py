"""Truncation, `[CLS] a [SEP] b [SEP]` and padding of a batch, in the graph.

Shape letters: B batch, S sequence.
"""

import tensorflow as tf


def pack(
    ids_a: tf.RaggedTensor,
    ids_b: tf.RaggedTensor,
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
    pad: bool = True,
) -> dict[str, tf.Tensor]:
    """`packing.pack` for a batch, in the graph.

    Args:
      ids_a: int32 [B, (pieces)].
      ids_b: int32 [B, (pieces)]; rows without pieces make singles.
      max_seq_length: longest row, special tokens included.
      cls_id: id of `[CLS]`.
      sep_id: id of `[SEP]`.
      pad: pad to max_seq_length; else to the longest row.

    Returns:
      `input_ids`, `input_mask`, `segment_ids`: int32 [B, S].
    """
    length_a, length_b = (
        tf.cast(ids.row_lengths(), tf.int32) for ids in (ids_a, ids_b)
    )
    is_pair = tf.cast(length_b > 0, tf.int32)
    excess = tf.maximum(length_a + length_b + 2 + is_pair - max_seq_length, 0)
    from_a = tf.minimum(excess, tf.maximum(0, length_a - length_b))
    from_b = tf.minimum(excess, tf.maximum(0, length_b - length_a))
    rest = excess - from_a - from_b
    kept_a = length_a - from_a - rest // 2
    kept_b = length_b - from_b - (rest + 1) // 2
    one = tf.ones_like(length_a)
    rows = tf.concat(
        [
            tf.RaggedTensor.from_tensor((one * cls_id)[:, tf.newaxis]),
            _first(ids_a, kept_a),
            tf.RaggedTensor.from_tensor((one * sep_id)[:, tf.newaxis]),
            _first(ids_b, kept_b),
            tf.RaggedTensor.from_row_lengths(
                tf.fill([tf.reduce_sum(is_pair)], sep_id),
                tf.cast(is_pair, tf.int64),
            ),
        ],
        axis=1,
    )
    lengths = tf.cast(rows.row_lengths(), tf.int32)
    width = max_seq_length if pad else None
    input_ids = rows.to_tensor(shape=[None, width])
    positions = tf.range(tf.shape(input_ids)[1])
    mask = positions < lengths[:, tf.newaxis]
    second = mask & (positions > kept_a[:, tf.newaxis] + 1)
    return {
        "input_ids": input_ids,
        "input_mask": tf.cast(mask, tf.int32),
        "segment_ids": tf.cast(second, tf.int32),
    }


def _first(ids: tf.RaggedTensor, lengths: tf.Tensor) -> tf.RaggedTensor:
    """The first so many values of each row."""
    starts = ids.row_starts()
    lengths = tf.cast(lengths, starts.dtype)
    where = tf.ragged.range(starts, starts + lengths)
    return tf.gather(ids.values, where)
