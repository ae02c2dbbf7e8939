"""Batches of like lengths, so that short texts do not pay for long ones.

Shape letters: S sequence length (of one batch), P masked positions.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf import packing

# From each limit on, padded lengths are multiples of the step: a text pays at
# most a few pieces, and a compiled program serves all texts of a length.
_STEPS = ((0, 4), (32, 8), (64, 16), (128, 32), (256, 64))
# Pieces in a batch: more of them no longer make a CPU faster, fewer than the
# lower number leave its matrix products half idle.
BATCH_TOKENS = 4096
_FEW_TOKENS = 256

# What is padded to S; other features, such as positions, have own lengths.
_ALONG_TOKENS = ("input_ids", "segment_ids")

# A row of features without padding: name -> ints. `input_ids` is there.
Row = Mapping[str, Sequence[int]]


def padded_lengths(max_seq_length: int) -> tuple[int, ...]:
    """The lengths that batches are padded to, ascending; S at most.

    Multiples of 4 up to 32, of 8 up to 64, of 16 up to 128, of 32 up to 256,
    of 64 beyond; the last one is `max_seq_length` itself.
    """
    lengths = []
    length = 0
    while length < max_seq_length:
        length += max(step for limit, step in _STEPS if length >= limit)
        lengths.append(min(length, max_seq_length))
    return tuple(lengths)


def pack_unpadded(
    ids_a: Sequence[int],
    ids_b: Sequence[int] | None,
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
) -> dict[str, list[int]]:
    """`packing.pack` without the padding.

    Returns:
      `input_ids` and `segment_ids`, of one length, at most `max_seq_length`.

    Raises:
      ValueError: `max_seq_length` leaves no room for the special tokens.
    """
    specials = 3 if ids_b else 2
    needed = len(ids_a) + len(ids_b or ()) + specials
    packed = packing.pack(
        ids_a, ids_b, min(needed, max_seq_length), cls_id, sep_id
    )
    return {"input_ids": packed.input_ids, "segment_ids": packed.segment_ids}


class LengthBatch(NamedTuple):
    """Rows that are computed together.

    Attributes:
      indices: which rows.
      length: S, what they are padded to.
    """

    indices: list[int]
    length: int


def length_batches(
    row_lengths: Sequence[int],
    lengths: Sequence[int],
    max_rows: int | None = None,
    batch_tokens: int = BATCH_TOKENS,
) -> Iterator[LengthBatch]:
    """Sorts rows by length and cuts them into batches, longest first.

    Args:
      row_lengths: length of each row.
      lengths: allowed padded lengths, ascending.
      max_rows: most rows in a batch; None leaves it to `batch_tokens`.
      batch_tokens: most pieces in a batch, padding counted; one row is
        always allowed.

    Yields:
      Batches that hold each row once. Rows of equal length keep their order.

    Raises:
      ValueError: a row is longer than the longest allowed length.
    """
    lengths = np.asarray(lengths)
    places = np.searchsorted(lengths, row_lengths)
    if len(places) and places.max() == len(lengths):
        raise ValueError(
            f"a row of {max(row_lengths)} pieces does not fit a batch of "
            f"{lengths[-1]}"
        )
    order = sorted(range(len(row_lengths)), key=lambda i: -row_lengths[i])
    batch: list[int] = []
    length = room = 0
    for index in order:
        own = int(lengths[places[index]])
        is_full = len(batch) == room
        # Texts of the next length start a batch of their own, unless this
        # one is too small to be worth it.
        if batch and (
            is_full or (own < length and len(batch) * length >= _FEW_TOKENS)
        ):
            yield LengthBatch(batch, length)
            batch = []
        if not batch:
            length = own
            room = max(1, batch_tokens // length)
            room = min(room, max_rows or room)
        batch.append(index)
    if batch:
        yield LengthBatch(batch, length)


def pad_rows(rows: Sequence[Row], length: int) -> dict[str, np.ndarray]:
    """Makes the arrays of one batch.

    Args:
      rows: features of each row, all with the same names.
      length: S, for `input_ids` and `segment_ids`.

    Returns:
      int32 arrays [rows, S] of those two and of `input_mask`; other features
      are padded with 0 to the next power of two of the longest, [rows, P].
    """
    arrays = {}
    for name in rows[0]:
        width = length
        if name not in _ALONG_TOKENS:
            longest = max(len(row[name]) for row in rows)
            width = 1 << max(0, longest - 1).bit_length()
        array = np.zeros((len(rows), width), np.int32)
        for i, row in enumerate(rows):
            array[i, : len(row[name])] = row[name]
        arrays[name] = array
    ends = [len(row["input_ids"]) for row in rows]
    is_real = np.arange(length) < np.asarray(ends)[:, np.newaxis]
    arrays["input_mask"] = is_real.astype(np.int32)
    return arrays
