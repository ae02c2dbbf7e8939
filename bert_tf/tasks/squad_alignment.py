"""Predicted word pieces -> the very characters of the context.

The rules are those of google-research/bert `run_squad.py`: where the pieces
cannot be mapped back with certainty, the whole words are the answer.
"""

import logging

from bert_tf.tasks.squad_data import Paragraph
from bert_tf.tasks.squad_windows import SquadWindow
from bert_tf.tokenization import BasicTokenizer

_LOGGER = logging.getLogger("bert_tf")


class SpanAlignment:
    """Maps text made of pieces back into the text it was cut from.

    Compares the text with its basic-tokenized form, both without spaces; the
    map exists only where both have the same length.

    Args:
      text: words of the context.
      basic_tokenizer: what cut it, casing included.
    """

    def __init__(self, text: str, basic_tokenizer: BasicTokenizer):
        self.text = text
        self._tokenized = " ".join(basic_tokenizer.tokenize(text))
        self._positions = [i for i, char in enumerate(text) if char != " "]
        self._is_aligned = len(self._positions) == len(
            self._tokenized
        ) - self._tokenized.count(" ")

    def locate(self, predicted: str) -> tuple[int, int] | None:
        """Finds predicted text.

        Args:
          predicted: pieces joined to words, joined by single spaces.

        Returns:
          (start, end) in `text`, of the first occurrence; None if it cannot
          be told.
        """
        start = self._tokenized.find(predicted)
        if start < 0 or not self._is_aligned:
            return None
        first = self._position(start)
        last = self._position(start + len(predicted) - 1)
        if first is None or last is None:
            return None
        return first, last + 1

    def _position(self, index: int) -> int | None:
        tokenized = self._tokenized
        if not 0 <= index < len(tokenized) or tokenized[index] == " ":
            return None
        return self._positions[index - tokenized.count(" ", 0, index)]


def final_text(
    predicted: str, text: str, basic_tokenizer: BasicTokenizer
) -> str:
    """The part of `text` that a prediction means; all of it if unclear."""
    found = SpanAlignment(text, basic_tokenizer).locate(predicted)
    return text[slice(*found)] if found else text


class SpanTexts:
    """Piece spans of one context -> text and place; remembers alignments.

    Args:
      paragraph: the context.
      tokenizer: the `FullTokenizer` that made the windows.
      verbose: log every span that cannot be mapped exactly.
    """

    def __init__(self, paragraph: Paragraph, tokenizer, verbose: bool):
        self._paragraph = paragraph
        self._tokenizer = tokenizer
        self._verbose = verbose
        self._alignments: dict[tuple[int, int], SpanAlignment] = {}

    def resolve(
        self, window: SquadWindow, start: int, end: int
    ) -> tuple[str, int, int]:
        """Finds the text of a span.

        Args:
          window: the window.
          start: first piece, a position in the window.
          end: last piece.

        Returns:
          The text as it stands in the context's words, the first of these
          words, and where in the words the text begins. Where the pieces
          cannot be mapped back, all of the words.
        """
        tokens = self._tokenizer.convert_ids_to_tokens(
            window.input_ids[start : end + 1]
        )
        predicted = " ".join(tokens).replace(" ##", "").replace("##", "")
        predicted = " ".join(predicted.split())
        words = (
            window.words[start - window.doc_offset],
            window.words[end - window.doc_offset],
        )
        if words not in self._alignments:
            self._alignments[words] = SpanAlignment(
                self._paragraph.text(*words), self._tokenizer.basic_tokenizer
            )
        text = self._alignments[words].text
        found = self._alignments[words].locate(predicted)
        if found is None:
            if self._verbose:
                _LOGGER.info(
                    "cannot map %r back, answer is %r", predicted, text
                )
            return text, words[0], 0
        return text[slice(*found)], words[0], found[0]

    def characters(
        self, text: str, first_word: int, position: int
    ) -> tuple[int, int]:
        """Start and end (exclusive) in the context of a resolved text."""
        offset = self._paragraph.context_offset
        start = offset(first_word, position)
        return start, offset(first_word, position + len(text) - 1) + 1
