"""Truncation, `[CLS] a [SEP] b [SEP]` and padding: the one copy.

Shape letters: S sequence length.
"""

from collections.abc import Sequence
from typing import NamedTuple


class PackedInputs(NamedTuple):
    """The three model inputs of one example, lists of S ints."""

    input_ids: list[int]
    input_mask: list[int]
    segment_ids: list[int]


def truncate_pair(a: list, b: list, max_tokens: int) -> None:
    """Shortens a pair in place until both fit into `max_tokens`.

    One item at a time leaves the end of the longer list; `b` gives way when
    both are equally long (google-research/bert, `run_classifier.py`).
    """
    excess = len(a) + len(b) - max_tokens
    if excess <= 0:
        return
    # What is longer shrinks to the other's length first; from there on both
    # shrink in turn, b first.
    from_a = min(excess, max(0, len(a) - len(b)))
    from_b = min(excess, max(0, len(b) - len(a)))
    rest = excess - from_a - from_b
    from_b += (rest + 1) // 2
    from_a += rest // 2
    if from_a > len(a) or from_b > len(b):
        raise ValueError(f"a pair cannot be cut to {max_tokens} tokens")
    del a[len(a) - from_a :]
    del b[len(b) - from_b :]


def pack(
    ids_a: Sequence[int],
    ids_b: Sequence[int] | None,
    max_seq_length: int,
    cls_id: int,
    sep_id: int,
) -> PackedInputs:
    """Makes `[CLS] a [SEP]` or `[CLS] a [SEP] b [SEP]`, cut and padded.

    Args:
      ids_a: piece ids of the first text.
      ids_b: piece ids of the second text; None or empty makes a single.
      max_seq_length: S, the length of all three results.
      cls_id: id of `[CLS]`.
      sep_id: id of `[SEP]`.

    Returns:
      `input_ids` padded with the literal 0, `input_mask` 1 on real tokens,
      `segment_ids` 1 on b and its `[SEP]`.

    Raises:
      ValueError: S leaves no room for the special tokens.
    """
    ids_a = list(ids_a)
    ids_b = list(ids_b or ())
    specials = 3 if ids_b else 2
    if max_seq_length < specials:
        raise ValueError(
            f"max_seq_length is {max_seq_length}; {specials} special tokens "
            "must fit"
        )
    if ids_b:
        truncate_pair(ids_a, ids_b, max_seq_length - 3)
    else:
        del ids_a[max_seq_length - 2 :]
    input_ids = [cls_id, *ids_a, sep_id]
    segment_ids = [0] * len(input_ids)
    if specials == 3:
        input_ids += [*ids_b, sep_id]
        segment_ids += [1] * (len(ids_b) + 1)
    return pad_inputs(input_ids, segment_ids, max_seq_length)


def pad_inputs(
    input_ids: list[int], segment_ids: list[int], max_seq_length: int
) -> PackedInputs:
    """Pads ids and segments with 0 to S and derives the mask."""
    padding = max_seq_length - len(input_ids)
    if padding < 0:
        raise ValueError(
            f"{len(input_ids)} tokens do not fit max_seq_length "
            f"{max_seq_length}"
        )
    return PackedInputs(
        input_ids + [0] * padding,
        [1] * len(input_ids) + [0] * padding,
        segment_ids + [0] * padding,
    )
