"""Instances -> `tf.train.Example` bytes, many at a time.

`records.FeatureSpec` says what a record holds; here the same bytes are made
from arrays, several times faster. Shape letters: n instances, S sequence
length, P masked predictions.
"""

import functools
from typing import NamedTuple

import numpy as np

# Instances encoded in one go: their arrays fit into a core's cache.
BATCH = 512

_INT64_LIST, _FLOAT_LIST = 3, 2
_ONE = np.float32(1).tobytes()
_ZERO = np.float32(0).tobytes()


class Layout(NamedTuple):
    """`[CLS] a [SEP] b [SEP]`, padded.

    Attributes:
      input_ids: int32 [n, S], nothing masked.
      is_text: bool [n, S], False on special tokens and padding.
    """

    input_ids: np.ndarray
    is_text: np.ndarray


def lay_out(
    tokens: np.ndarray,
    starts_a: np.ndarray,
    lengths_a: np.ndarray,
    starts_b: np.ndarray,
    lengths_b: np.ndarray,
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
) -> Layout:
    """Gathers both texts of each instance from one array of tokens.

    Args:
      tokens: ids, [T].
      starts_a: first token of text a, int64 [n].
      lengths_a: its number of tokens, int64 [n].
      starts_b: first token of text b, int64 [n].
      lengths_b: its number of tokens, int64 [n].
      max_seq_length: S.
      cls_id: id of `[CLS]`.
      sep_id: id of `[SEP]`.
    """
    column = np.arange(max_seq_length)
    first_sep = lengths_a[:, None] + 1
    last_sep = first_sep + lengths_b[:, None] + 1
    in_b = column > first_sep
    index = column + np.where(
        in_b, starts_b[:, None] - first_sep - 1, starts_a[:, None] - 1
    )
    is_text = column < last_sep
    is_text[:, 0] = False
    rows = np.arange(len(lengths_a))
    is_text[rows, first_sep[:, 0]] = False
    input_ids = tokens.take(index, mode="clip").astype(np.int32)
    input_ids *= is_text
    input_ids[:, 0] = cls_id
    input_ids[rows, first_sep[:, 0]] = sep_id
    input_ids[rows, last_sep[:, 0]] = sep_id
    return Layout(input_ids, is_text)


def apply_masks(
    input_ids: np.ndarray,
    positions: np.ndarray,
    replacements: np.ndarray,
    counts: np.ndarray,
) -> np.ndarray:
    """Puts the replacements into `input_ids`, in place.

    Args:
      input_ids: int32 [n, S].
      positions: ascending, padded with 0, [n, P].
      replacements: ids, [n, P].
      counts: real predictions of each instance, [n].

    Returns:
      The original ids at the positions, padded with 0, int32 [n, P].
    """
    real = np.arange(positions.shape[1]) < counts[:, None]
    originals = np.take_along_axis(input_ids, positions, 1) * real
    rows, slots = np.nonzero(real)
    input_ids[rows, positions[rows, slots]] = replacements[rows, slots]
    return originals


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _varint_rows(values: np.ndarray) -> tuple[bytes, list[int]]:
    """Protocol buffer varints of a matrix of numbers below 2**21.

    Returns:
      The bytes of all rows, and where each row begins, the end last.
    """
    largest = int(values.max(initial=0))
    planes = 1 + (largest > 127) + (largest > 16383)
    data = np.empty((*values.shape, planes), np.uint8)
    used = np.empty(data.shape, bool)
    used[..., 0] = True
    for plane in range(planes):
        data[..., plane] = (values >> (7 * plane)) & 127
        if plane:
            np.greater(values, (1 << 7 * plane) - 1, out=used[..., plane])
            data[..., plane - 1] |= used[..., plane].view(np.uint8) << 7
    ends = np.count_nonzero(used.reshape(len(values), -1), axis=1).cumsum()
    return data[used].tobytes(), [0, *ends.tolist()]


class RecordEncoder:
    """Encodes batches of instances.

    Args:
      max_seq_length: S.
      max_predictions_per_seq: P; unused for records without masks.
    """

    def __init__(self, max_seq_length: int, max_predictions_per_seq: int = 0):
        self._s = max_seq_length
        self._p = max_predictions_per_seq
        self._zeros = bytes(max_seq_length)
        self._ones = b"\x01" * max_seq_length
        # Bounded: keys are small numbers, never text.
        self._head = functools.cache(self._head)
        self._static_middle = functools.cache(self._static_middle)
        self._dynamic_middle = functools.cache(self._dynamic_middle)
        self._segment_head = self._head("segment_ids", self._s)

    def _head(self, name: str, size: int, kind: int = _INT64_LIST) -> bytes:
        """All of a map entry that comes before `size` bytes of values."""
        head = b"\x0a" + _varint(size)
        for tag in (kind << 3 | 2, 0x12):
            head = bytes((tag,)) + _varint(len(head) + size) + head
        key = name.encode()
        head = b"\x0a" + _varint(len(key)) + key + head
        return b"\x0a" + _varint(len(head) + size) + head

    def _entry(self, name: str, values: bytes, kind: int = _INT64_LIST):
        return self._head(name, len(values), kind) + values

    def _mask_entry(self, length: int) -> bytes:
        mask = self._ones[:length] + self._zeros[length:]
        return self._entry("input_mask", mask)

    def _label_entry(self, label: int) -> bytes:
        return self._entry("next_sentence_labels", _varint(label))

    def _static_middle(self, label: int, length: int, count: int) -> bytes:
        weights = _ONE * count + _ZERO * (self._p - count)
        return (
            self._label_entry(label)
            + self._mask_entry(length)
            + self._entry("masked_lm_weights", weights, _FLOAT_LIST)
        )

    def _dynamic_middle(self, label: int, length: int) -> bytes:
        return self._label_entry(label) + self._mask_entry(length)

    def _segments(self, length_a: int, length: int) -> tuple[bytes, ...]:
        """Entry of segment_ids, in pieces."""
        zeros = length_a + 2
        return (
            self._segment_head,
            self._zeros[:zeros],
            self._ones[zeros:length],
            self._zeros[length:],
        )

    def static(
        self,
        input_ids: np.ndarray,
        lengths_a: np.ndarray,
        lengths: np.ndarray,
        labels: np.ndarray,
        positions: np.ndarray,
        masked_lm_ids: np.ndarray,
        counts: np.ndarray,
    ) -> list[bytes]:
        """Records with masks, features in the order the original stores.

        Args:
          input_ids: masked, padded with 0, [n, S].
          lengths_a: pieces of the first text, [n].
          lengths: all tokens of an instance, specials included, [n].
          labels: 1 for a random next sentence, [n].
          positions: of predictions, padded with 0, [n, P].
          masked_lm_ids: ids to predict, padded with 0, [n, P].
          counts: number of real predictions, [n].
        """
        ids, ids_at = _varint_rows(input_ids)
        mlm, mlm_at = _varint_rows(masked_lm_ids)
        pos, pos_at = _varint_rows(positions)
        head, middle, segments = self._head, self._static_middle, self._segments
        out = []
        for i, (length_a, length, label, count) in enumerate(
            zip(
                lengths_a.tolist(),
                lengths.tolist(),
                labels.tolist(),
                counts.tolist(),
                strict=True,
            )
        ):
            mlm_from, mlm_to = mlm_at[i : i + 2]
            ids_from, ids_to = ids_at[i : i + 2]
            pos_from, pos_to = pos_at[i : i + 2]
            body = b"".join(
                (
                    head("masked_lm_ids", mlm_to - mlm_from),
                    mlm[mlm_from:mlm_to],
                    head("input_ids", ids_to - ids_from),
                    ids[ids_from:ids_to],
                    head("masked_lm_positions", pos_to - pos_from),
                    pos[pos_from:pos_to],
                    middle(label, length, count),
                    *segments(length_a, length),
                )
            )
            out.append(b"\x0a" + _varint(len(body)) + body)
        return out

    def dynamic(
        self,
        input_ids: np.ndarray,
        lengths_a: np.ndarray,
        lengths: np.ndarray,
        labels: np.ndarray,
        masking_vocabulary: tuple[int, int],
        word_starts: np.ndarray | None = None,
    ) -> list[bytes]:
        """Records without masks.

        Args:
          input_ids: unmasked, padded with 0, [n, S].
          lengths_a: pieces of the first text, [n].
          lengths: all tokens of an instance, specials included, [n].
          labels: 1 for a random next sentence, [n].
          masking_vocabulary: id of `[MASK]`, number of ids.
          word_starts: 0 or 1, uint8 [n, S]; None leaves the feature out.
        """
        ids, ids_at = _varint_rows(input_ids)
        vocabulary = self._entry(
            "masking_vocabulary", b"".join(map(_varint, masking_vocabulary))
        )
        starts = b"" if word_starts is None else word_starts.tobytes()
        starts_head = b""
        if word_starts is not None:
            starts_head = self._head("word_starts", self._s)
        out = []
        for i, (length_a, length, label) in enumerate(
            zip(
                lengths_a.tolist(),
                lengths.tolist(),
                labels.tolist(),
                strict=True,
            )
        ):
            ids_from, ids_to = ids_at[i : i + 2]
            body = b"".join(
                (
                    self._head("input_ids", ids_to - ids_from),
                    ids[ids_from:ids_to],
                    self._dynamic_middle(label, length),
                    *self._segments(length_a, length),
                    vocabulary,
                    starts_head,
                    starts[i * self._s : (i + 1) * self._s],
                )
            )
            out.append(b"\x0a" + _varint(len(body)) + body)
        return out
