"""Exact ids of many lines, most of them by tensorflow-text's fast tokenizer.

A line of which every character is on a list goes to `FastBertTokenizer`, any
other to `FullTokenizer`. On the list are the characters that both fold to the
same, whatever stands beside them; it is computed character by character from
the running Python's Unicode tables.
"""

import functools
import itertools
import re
import unicodedata
from collections.abc import Iterable, Iterator

import numpy as np

from bert_tf.tokenization import code_points
from bert_tf.tokenization.tokenizer import FullTokenizer
from bert_tf.tokenization.wordpiece import MAX_CHARS_PER_WORD

_CHUNK = 2048
_BASIC_PLANE = 0x10000
# Conjoining Hangul: what becomes of one depends on the next.
_JAMO = (range(0x1100, 0x1200), range(0xA960, 0xA980), range(0xD7B0, 0xD800))


@functools.cache
def agreed_code_points(do_lower_case: bool) -> tuple[int, ...]:
    """Sorted code points of the first plane that fold to the same in both.

    tensorflow-text folds by NFKC and case folding, the Python tokenizer by
    lower-casing, NFD and the loss of accents. A capital sigma, combining
    characters and Jamo depend on their neighbours and are left out.
    """
    from bert_tf.tokenization.graph import (
        load_tensorflow_text,
        misjudged_code_points,
    )

    codes = [
        code
        for code in range(_BASIC_PLANE)
        if code not in misjudged_code_points() and _stands_alone(code)
    ]
    ours = [
        code_points.fold_code_point(code, do_lower_case, do_lower_case)
        for code in codes
    ]
    normalizer = load_tensorflow_text().FastBertNormalizer(
        lower_case_nfd_strip_accents=do_lower_case
    )
    theirs = normalizer.normalize([f"a{chr(code)}b" for code in codes])
    return tuple(
        code
        for code, own, other in zip(codes, ours, theirs.numpy(), strict=True)
        # A blank may stay what it is: both split at it.
        if own
        and f"a{own}b" in (text := other.decode(), re.sub(r"\s", " ", text))
    )


def _stands_alone(code: int) -> bool:
    char = chr(code)
    return not (
        char in "\u03a3\ufffd"
        or unicodedata.category(char)[0] == "M"
        or unicodedata.category(char) == "Cs"
        or unicodedata.combining(char)
        or any(code in block for block in _JAMO)
    )


class BatchTokenizer:
    """Iterable of texts -> list of arrays of ids, those of `FullTokenizer`.

    Args:
      tokenizer: the tokenizer to agree with.

    Attributes:
      fast_lines: how many lines have gone to the fast tokenizer.
      exact_lines: how many have gone to `tokenizer`.

    Raises:
      ValueError: tensorflow-text is not installed, or accents are treated
        otherwise than `do_lower_case` says, which the fast tokenizer cannot.
    """

    def __init__(self, tokenizer: FullTokenizer):
        import tensorflow as tf

        from bert_tf.tokenization.graph import GraphTokenizer

        if tokenizer.strip_accents != tokenizer.do_lower_case:
            raise ValueError(
                f"strip_accents={tokenizer.strip_accents} with do_lower_case="
                f"{tokenizer.do_lower_case}: the fast tokenizer has no such "
                "mode; use FullTokenizer"
            )
        codes = agreed_code_points(tokenizer.do_lower_case)
        self.tokenizer = tokenizer
        self.fast_lines = 0
        self.exact_lines = 0
        self._is_agreed = re.compile(
            f"[{''.join(_re_range(*r) for r in code_points.ranges(codes))}]*"
        ).fullmatch
        self._fast = GraphTokenizer(tokenizer).create_fast_tokenizer(
            tokenizer.do_lower_case
        )
        self._constant = functools.partial(tf.constant, dtype=tf.string)

    def __call__(self, texts: Iterable[str | bytes]) -> list[np.ndarray]:
        """Returns the ids of each text, int32 [pieces]."""
        return list(self.stream(texts))

    def stream(self, texts: Iterable[str | bytes]) -> Iterator[np.ndarray]:
        """Yields the ids of each text, int32 [pieces], as texts come."""
        texts = iter(texts)
        while chunk := list(itertools.islice(texts, _CHUNK)):
            yield from self._chunk(chunk)

    def _chunk(self, texts: list[str | bytes]) -> list[np.ndarray]:
        # Written out in one place: calls would cost a tenth of the time.
        # Bytes are for the exact tokenizer, and so are its errors.
        is_agreed = self._is_agreed
        is_fast = [
            type(text) is str
            and is_agreed(text) is not None
            and (len(text) <= MAX_CHARS_PER_WORD or _has_short_words(text))
            for text in texts
        ]
        for special in self.tokenizer.never_split:
            for i, text in enumerate(texts):
                is_fast[i] = is_fast[i] and special not in text
        fast = list(itertools.compress(texts, is_fast))
        self.fast_lines += len(fast)
        self.exact_lines += len(texts) - len(fast)
        rows: list[np.ndarray] = []
        if fast:
            ids = self._fast.tokenize(self._constant(fast))
            values = ids.values.numpy()
            splits = ids.row_splits.numpy().tolist()
            rows = [values[a:b] for a, b in itertools.pairwise(splits)]
        if len(fast) == len(texts):
            return rows
        row = iter(rows)
        exact = self.tokenizer.tokenize_to_ids
        return [
            next(row) if quick else np.array(exact(text), np.int32)
            for text, quick in zip(texts, is_fast, strict=True)
        ]


def _has_short_words(text: str) -> bool:
    """Whether no word is longer than MAX_CHARS_PER_WORD."""
    # A longer word fills at least one stretch of half that length, counted
    # from the start of the text; looking for its blank is quick.
    size = MAX_CHARS_PER_WORD // 2 + 1
    find = text.find
    for start in range(0, len(text), size):
        if find(" ", start, start + size) < 0:
            return max(map(len, text.split()), default=0) <= MAX_CHARS_PER_WORD
    return True


def _re_range(first: int, last: int) -> str:
    return f"\\u{first:04x}-\\u{last:04x}"
