"""Text -> words -> WordPieces -> ids, token for token the original's.

`BasicTokenizer` and `WordpieceTokenizer` are the published algorithm written
plainly (google-research/bert, `tokenization.py`; Wu et al. 2016,
arXiv:1609.08144, for WordPiece). `FullTokenizer` gives the same tokens, but
remembers every word it has cut.
"""

from collections.abc import Mapping

from bert_tf.tokenization import characters
from bert_tf.tokenization.vocab import UNK

# Longer words become `[UNK]`; counted after folding.
MAX_CHARS_PER_WORD = 200


class BasicTokenizer:
    """Cuts text into words: blanks, punctuation, ideographs.

    Args:
      do_lower_case: lower-case, and drop accents.
      strip_accents: drop accents; None follows `do_lower_case`, which is the
        original's rule.
    """

    def __init__(
        self, do_lower_case: bool = True, strip_accents: bool | None = None
    ):
        self.do_lower_case = do_lower_case
        self.strip_accents = (
            do_lower_case if strip_accents is None else strip_accents
        )

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the words of `text`."""
        text = characters.convert_to_unicode(text)
        words = []
        for word in self._clean(text).split():
            word = characters.fold(word, self.do_lower_case, self.strip_accents)
            words.extend(self._split_at_punctuation(word))
        return " ".join(words).split()

    def _clean(self, text: str) -> str:
        """Deletes controls, levels blanks, spaces out ideographs."""
        output = []
        for char in text:
            if characters.is_removed(char):
                continue
            if characters.is_whitespace(char):
                output.append(" ")
            elif characters.is_cjk(char):
                output.append(f" {char} ")
            else:
                output.append(char)
        return "".join(output)

    def _split_at_punctuation(self, word: str) -> list[str]:
        parts = [""]
        for char in word:
            if characters.is_punctuation(char):
                parts += [char, ""]
            else:
                parts[-1] += char
        return parts


class WordpieceTokenizer:
    """Cuts words into the longest pieces that the vocabulary knows.

    Args:
      vocab: piece -> id; pieces inside a word start with "##".
      unk_token: what a word becomes that cannot be cut.
      max_input_chars_per_word: longer words become `unk_token`.
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        unk_token: str = UNK,
        max_input_chars_per_word: int = MAX_CHARS_PER_WORD,
    ):
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word

    def tokenize(self, text: str | bytes) -> list[str]:
        """Cuts each blank-separated word of `text`, longest match first."""
        pieces = []
        for word in characters.convert_to_unicode(text).split():
            pieces.extend(self._cut(word) or [self.unk_token])
        return pieces

    def _cut(self, word: str) -> list[str] | None:
        """The pieces of one word, or None if some part matches nothing."""
        if len(word) > self.max_input_chars_per_word:
            return None
        pieces = []
        start = 0
        while start < len(word):
            end = len(word)
            while start < end:
                piece = ("##" if start else "") + word[start:end]
                if piece in self.vocab:
                    break
                end -= 1
            else:
                return None
            pieces.append(piece)
            start = end
        return pieces
