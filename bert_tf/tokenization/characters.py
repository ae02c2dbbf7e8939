"""Character classes of the original tokenizer, and text made ready to split.

The classes follow google-research/bert, `tokenization.py`, and the Unicode
tables of the running Python (`unicodedata.unidata_version`).
"""

import re
import unicodedata

# The eight blocks that the original spaces out: CJK ideographs up to
# extension E and the compatibility ideographs. Kana, Hangul, CJK punctuation
# and later extensions are not among them.
CJK_CLASS = (
    "\u4e00-\u9fff"
    "\u3400-\u4dbf"
    "\U00020000-\U0002a6df"
    "\U0002a700-\U0002b73f"
    "\U0002b740-\U0002b81f"
    "\U0002b820-\U0002ceaf"
    "\uf900-\ufaff"
    "\U0002f800-\U0002fa1f"
)
# What `str.split` splits at, less the control characters that are deleted
# before it gets to see them (vertical tab, form feed, U+001C, U+0085 ...).
BLANK_CLASS = "\t\n\r \xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"

_CJK = re.compile(f"[{CJK_CLASS}]")
_COMMON_BLANKS = ("\n", "\t", "\r", "\xa0", "\u3000")


def convert_to_unicode(text: str | bytes) -> str:
    """Returns `text` as str; bytes are UTF-8, wrong bytes are dropped.

    Raises:
      ValueError: `text` is neither str nor bytes.
    """
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(f"text must be a string, found {type(text).__name__}")


def is_whitespace(char: str) -> bool:
    """Space, tab, line feed, carriage return, or category Zs."""
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_control(char: str) -> bool:
    """Category Cc or Cf, except tab, line feed and carriage return."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def is_removed(char: str) -> bool:
    """Tells whether cleaning deletes `char`, joining its neighbours."""
    return char in "\0\ufffd" or is_control(char)


def is_punctuation(char: str) -> bool:
    """Category P*, or any printable ASCII that is no letter, digit, space."""
    if char.isascii():
        return char.isprintable() and not char.isalnum() and char != " "
    return unicodedata.category(char).startswith("P")


def is_cjk(char: str) -> bool:
    """Tells whether `char` is one of the ideographs that stand alone."""
    return _CJK.match(char) is not None


def fold(word: str, do_lower_case: bool, strip_accents: bool) -> str:
    """Lower-cases one blank-separated word and drops its accents.

    Lower-casing needs the whole word: a capital sigma becomes another letter
    at its end. Accents are the characters of category Mn after canonical
    decomposition (NFD), so Hangul falls into jamo and kana lose their voicing
    marks.
    """
    if do_lower_case:
        word = word.lower()
    if strip_accents and not word.isascii():
        word = "".join(
            char
            for char in unicodedata.normalize("NFD", word)
            if unicodedata.category(char) != "Mn"
        )
    return word


class _RemovalTable(dict):
    """For `str.translate`: deletes what cleaning deletes, asks only once."""

    def __missing__(self, code: int) -> int | None:
        value = None if is_removed(chr(code)) else code
        self[code] = value
        return value


class _PunctuationTable(dict):
    """For `str.translate`: puts blanks around punctuation, asks only once."""

    def __missing__(self, code: int) -> int | str:
        char = chr(code)
        value = f" {char} " if is_punctuation(char) else code
        self[code] = value
        return value


_REMOVAL_TABLE = _RemovalTable()
_PUNCTUATION_TABLE = _PunctuationTable()


def remove_controls(text: str) -> str:
    """Deletes what cleaning deletes; a blank may come back as a space."""
    # Translating costs a dict lookup a character. What it deletes is not
    # printable, save for U+FFFD, so a few fast scans show for most text that
    # there is nothing to delete.
    if not text.isprintable():
        for blank in _COMMON_BLANKS:
            text = text.replace(blank, " ")
        if not text.isprintable():
            return text.translate(_REMOVAL_TABLE)
    if "\ufffd" in text:
        return text.replace("\ufffd", "")
    return text


def split_at_punctuation(word: str) -> list[str]:
    """Splits so that each punctuation character stands alone."""
    if word.isalnum():
        return [word]
    return word.translate(_PUNCTUATION_TABLE).split()
