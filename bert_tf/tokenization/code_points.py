"""What the tokenizer makes of each code point alone, as tables.

Everything comes from the Unicode tables of the running Python, by way of the
Python tokenizer's own functions: what these tables drive agrees with it by
construction, whatever tables TensorFlow was built with.
"""

import functools
import unicodedata
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from bert_tf.tokenization import characters

CODE_POINTS = 0x110000
PAGE = 256
_SURROGATES = range(0xD800, 0xE000)
# Categories that fold to nothing or to a blank, or are dropped accents.
_CHANGED = {"Cc", "Cf", "Mn", "Zs", "Zl", "Zp"}
_SIGMA = "\u03a3"
_FINAL_SIGMA = "\u03c2"
# The planes that hold letters with case and what may stand between letters;
# ideographs, private use and the unassigned planes have neither.
_CASED_PLANES = (range(0x20000), range(0xE0000, 0xE1000))


class FoldingTable(NamedTuple):
    """Code point -> the code points that cleaning and folding make of it.

    Attributes:
      page_of: int32 [CODE_POINTS / PAGE], the page of each block of PAGE.
      pages: int32 [pages, PAGE], a row of `rows` for each code point; row 0
        stands for code points that stay as they are.
      rows: int32 [rows, longest], replacements, filled up with -1.
      reorders: bool [rows], whether the code point may change places with a
        neighbour in canonical order.
    """

    page_of: np.ndarray
    pages: np.ndarray
    rows: np.ndarray
    reorders: np.ndarray

    def row(self, code: int) -> int:
        """The row of `rows` for one code point."""
        return int(self.pages[self.page_of[code // PAGE], code % PAGE])


def fold_code_point(code: int, do_lower_case: bool, strip_accents: bool) -> str:
    """What becomes of a code point that stands alone."""
    char = chr(code)
    # As in the tokenizer, blanks come before controls: a tab is both.
    if characters.is_whitespace(char) or char in "\u2028\u2029":
        return " "
    if characters.is_removed(char):
        return ""
    return characters.fold(char, do_lower_case, strip_accents)


@functools.lru_cache(maxsize=4)
def folding_table(do_lower_case: bool, strip_accents: bool) -> FoldingTable:
    """Builds the table of one casing; about a tenth of a second."""
    numbers = {"": 0}
    rows: list[tuple[int, ...]] = [()]
    reorders = [False]
    pages = [np.zeros(PAGE, np.int32)]
    page_of = np.zeros(CODE_POINTS // PAGE, np.int32)
    for block in range(CODE_POINTS // PAGE):
        codes = range(block * PAGE, (block + 1) * PAGE)
        if codes[0] in _SURROGATES or _is_plain(codes):
            continue
        page = np.zeros(PAGE, np.int32)
        for i, code in enumerate(codes):
            folded = fold_code_point(code, do_lower_case, strip_accents)
            moves = strip_accents and any(map(unicodedata.combining, folded))
            if folded == chr(code) and not moves:
                continue
            # Two code points share a row that differs in its use only.
            key = folded if folded else "\0deleted"
            if key not in numbers:
                numbers[key] = len(rows)
                rows.append(tuple(map(ord, folded)))
                reorders.append(moves)
            page[i] = numbers[key]
        if page.any():
            page_of[block] = len(pages)
            pages.append(page)
    padded = np.full((len(rows), max(map(len, rows))), -1, np.int32)
    for i, row in enumerate(rows):
        padded[i, : len(row)] = row
    return FoldingTable(page_of, np.stack(pages), padded, np.array(reorders))


def _is_plain(codes: range) -> bool:
    """Whether a whole block folds to itself; never wrongly True."""
    text = "".join(map(chr, codes))
    return (
        text.lower() == text
        and unicodedata.normalize("NFD", text) == text
        and not any(map(unicodedata.combining, text))
        and _CHANGED.isdisjoint(map(unicodedata.category, text))
        and "\ufffd" not in text
    )


def unchanged_code_points(table: FoldingTable) -> np.ndarray:
    """Sorted code points, surrogates left out, that fold to themselves."""
    row = table.pages[table.page_of].reshape(-1)
    codes = np.flatnonzero(row == 0)
    return codes[(codes < _SURROGATES[0]) | (codes >= _SURROGATES[-1] + 1)]


@functools.cache
def sigma_context() -> tuple[list[int], list[int]]:
    """Code points that decide whether a capital sigma ends a word.

    Returns:
      Those with case, and those that are looked through (an apostrophe, an
      accent), each sorted; the second ones may have case but do not count as
      such (Unicode Standard, section 3.13, Final_Sigma, by `str.lower`).
    """
    cased, ignored = [], []
    for code in (code for plane in _CASED_PLANES for code in plane):
        char = chr(code)
        if not f"a{char}{_SIGMA}".lower().endswith(_FINAL_SIGMA):
            continue
        if f".{char}{_SIGMA}".lower().endswith(_FINAL_SIGMA):
            cased.append(code)
        else:
            ignored.append(code)
    return cased, ignored


@functools.cache
def splitting_code_points() -> np.ndarray:
    """Sorted code points that are a word each: punctuation, ideographs."""
    return np.array(
        [
            code
            for code in range(CODE_POINTS)
            if characters.is_punctuation(char := chr(code))
            or characters.is_cjk(char)
        ]
    )


def blank_code_points() -> list[int]:
    """Sorted code points that separate words."""
    blanks = [c for c in range(0x3001) if chr(c).isspace()]
    return [c for c in blanks if fold_code_point(c, False, False) == " "]


def ranges(codes: Iterable[int]) -> list[tuple[int, int]]:
    """Sorted code points as (first, last) of each unbroken run."""
    found: list[list[int]] = []
    for code in codes:
        if found and code == found[-1][1] + 1:
            found[-1][1] = code
        else:
            found.append([code, code])
    return [(first, last) for first, last in found]


def re2_class(codes: Iterable[int]) -> str:
    """The inside of a character class in RE2's syntax."""
    return "".join(
        f"\\x{{{first:x}}}"
        if first == last
        else f"\\x{{{first:x}}}-\\x{{{last:x}}}"
        for first, last in ranges(codes)
    )


def unused_characters(vocab: Iterable[str], count: int) -> list[str]:
    """Private-use characters that no piece of a vocabulary holds.

    Raises:
      ValueError: there are not so many.
    """
    used = set("".join(vocab))
    found: list[str] = []
    for code in range(0xF8FF, 0xDFFF, -1):
        if len(found) == count:
            break
        if chr(code) not in used:
            found.append(chr(code))
    if len(found) < count:
        raise ValueError(
            f"the vocabulary leaves fewer than {count} private-use "
            "characters (U+E000 to U+F8FF) unused"
        )
    return found
