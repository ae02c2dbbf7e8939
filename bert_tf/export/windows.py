"""Windows over texts that are longer than the model, in the graph.

Shape letters: B texts, W windows of all texts, S sequence.
"""

from typing import NamedTuple

import tensorflow as tf


class Windows(NamedTuple):
    """Windows over ragged rows of pieces.

    Attributes:
      row: int64 [W], the row of each window.
      number: int64 [W], counted from 0 in each row.
      start: int64 [W], first piece of the window in its row.
      length: int64 [W], pieces in it.
    """

    row: tf.Tensor
    number: tf.Tensor
    start: tf.Tensor
    length: tf.Tensor


def window_starts(
    lengths: tf.Tensor, room: tf.Tensor, stride: tf.Tensor, full: bool
) -> Windows:
    """Places windows as `squad_windows` and `tagging_features` do.

    Args:
      lengths: int64 [B], pieces of each row; a row without any has a window.
      room: int64 [B], most pieces of a window.
      stride: int64 [B], distance between the starts of two windows.
      full: the last window starts earlier, to be as long as the others.
    """
    last = tf.maximum(lengths - room, 0)
    count = 1 + (last + stride - 1) // stride
    number = tf.ragged.range(count)
    row = number.value_rowids()
    number = number.values
    start = number * tf.gather(stride, row)
    if full:
        start = tf.minimum(start, tf.gather(last, row))
    left = tf.gather(lengths, row) - start
    return Windows(row, number, start, tf.minimum(left, tf.gather(room, row)))


def cut_windows(ids: tf.RaggedTensor, windows: Windows) -> tf.RaggedTensor:
    """The pieces of each window, ragged [W, (pieces)]."""
    begin = tf.gather(ids.row_starts(), windows.row) + windows.start
    return tf.gather(ids.values, tf.ragged.range(begin, begin + windows.length))


def is_best_window(
    ids: tf.RaggedTensor, windows: Windows, length_counts: bool
) -> tf.RaggedTensor:
    """Whether a window shows a piece with more around it than any other.

    The smaller of the pieces to its left and to its right counts; the first
    window wins a tie.

    Args:
      ids: the rows that were cut.
      windows: where.
      length_counts: a hundredth of the window's length counts too, as for
        the answers of SQuAD in the original.

    Returns:
      bool ragged [W, (pieces)].
    """
    place = tf.ragged.range(windows.length)
    window = place.value_rowids()
    place_in = place.values
    length = tf.gather(windows.length, window)
    score = 100 * tf.minimum(place_in, length - 1 - place_in)
    if length_counts:
        score += length
    number = tf.gather(windows.number, window)
    most = tf.reduce_max(tf.concat([windows.number, [0]], 0)) + 1
    score = score * most - number
    begin = tf.gather(ids.row_starts(), windows.row) + windows.start
    piece = tf.gather(begin, window) + place_in
    best = tf.math.unsorted_segment_max(
        score, piece, tf.size(ids.values, tf.int64)
    )
    return place.with_values(score == tf.gather(best, piece))
