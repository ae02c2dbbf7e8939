"""Which characters of the untouched text each WordPiece stands for."""

import unicodedata
from typing import NamedTuple

from bert_tf.tokenization.characters import is_removed


class Tokenization(NamedTuple):
    """A text cut into pieces, and where they come from.

    Attributes:
      tokens: the pieces, as `tokenize` gives them.
      ids: their ids.
      offsets: (start, end) of each piece in code points of the untouched
        text. Characters that the tokenizer deletes lie inside the span when
        they stand inside a word; a stripped accent belongs to the character
        before it. `[UNK]` spans its whole word. Pieces share a span where
        one character falls apart into several pieces (Hangul under
        lower-casing); otherwise spans do not overlap.
      word_ids: for each piece, the index of its word: what `BasicTokenizer`
        gives, so punctuation counts as a word.
    """

    tokens: list[str]
    ids: list[int]
    offsets: list[tuple[int, int]]
    word_ids: list[int]

    def char_to_token(self, index: int) -> int | None:
        """Index of the piece that holds the character at `index`.

        The first one where a character makes several pieces; None for blanks
        and for characters that belong to no piece.
        """
        spans = enumerate(self.offsets)
        return next(
            (i for i, (start, end) in spans if start <= index < end), None
        )


class WordTokenization(NamedTuple):
    """Given words cut into pieces.

    Attributes:
      tokens: the pieces of all words, one list.
      ids: their ids.
      word_ids: for each piece, the index of its word in the given list.
      first_pieces: for each word, the index of its first piece; None where a
        word has no piece (blank, or all of its characters are deleted).
    """

    tokens: list[str]
    ids: list[int]
    word_ids: list[int]
    first_pieces: list[int | None]


def fold_with_spans(
    word: str, do_lower_case: bool, strip_accents: bool
) -> tuple[str, list[tuple[int, int]]]:
    """Cleans and folds one blank-separated word, and says what became what.

    Args:
      word: a word as it stands in the text, deleted characters included.
      do_lower_case: lower-case it.
      strip_accents: decompose it and drop its accents.

    Returns:
      The folded word, equal to `fold(clean(word))`, and for each of its
      characters the (start, end) in `word` that it comes from.
    """
    sources = [i for i, char in enumerate(word) if not is_removed(char)]
    chars = [word[i] for i in sources]
    if do_lower_case:
        # Only a sigma depends on its neighbours, and it stays one character.
        lengths = [len(char.lower()) for char in chars]
        chars = list("".join(chars).lower())
        sources = [
            i for i, n in zip(sources, lengths, strict=True) for _ in range(n)
        ]
    if not strip_accents:
        return "".join(chars), [(i, i + 1) for i in sources]
    kept = [
        (char, i)
        for char, i in _decompose(chars, sources)
        if unicodedata.category(char) != "Mn"
    ]
    ends = _ends_with_accents(sources, {i for _, i in kept})
    return "".join(c for c, _ in kept), [(i, ends[i]) for _, i in kept]


def _decompose(chars: list[str], sources: list[int]) -> list[tuple[str, int]]:
    """NFD that keeps each character's source.

    NFD decomposes character by character, then sorts each run of combining
    characters by class, keeping the order within a class (Unicode Standard,
    section 3.11).
    """
    result: list[tuple[str, int]] = []
    run: list[tuple[str, int]] = []
    for char, source in zip(chars, sources, strict=True):
        for part in unicodedata.normalize("NFD", char):
            if unicodedata.combining(part):
                run.append((part, source))
            else:
                run.sort(key=lambda item: unicodedata.combining(item[0]))
                result += run
                run = []
                result.append((part, source))
    run.sort(key=lambda item: unicodedata.combining(item[0]))
    return result + run


def _ends_with_accents(sources: list[int], kept: set[int]) -> dict[int, int]:
    """End of each kept character, the dropped accents after it included."""
    ends: dict[int, int] = {}
    last = None
    for i in sources:
        if i in kept:
            last = i
        if last is not None:
            ends[last] = i + 1
    return ends
