"""`FullTokenizer`: the original's tokens, fast, with ids and offsets."""

import itertools
import os
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from bert_tf import packing
from bert_tf.tokenization import characters
from bert_tf.tokenization.offsets import (
    Tokenization,
    WordTokenization,
    fold_with_spans,
)
from bert_tf.tokenization.vocab import (
    CLS,
    MASK,
    SEP,
    UNK,
    check_special_tokens,
    load_vocab,
)
from bert_tf.tokenization.wordpiece import (
    MAX_CHARS_PER_WORD,
    BasicTokenizer,
    WordpieceTokenizer,
)

# What the caches may hold, counted in characters of their words and this many
# more for each word: some 60 MB each for English, below 200 MB for any text.
# Books of 9 MB hold about 100,000 different words, punctuation attached.
_ID_CACHE_CHARACTERS = 1 << 22
_SPAN_CACHE_CHARACTERS = 1 << 21
_CHARACTERS_A_WORD = 8
_CACHED_WORD_LENGTH = 64

# No ideograph has a smaller code than the first of this range, and one range
# is far quicker to test than their eight blocks.
_NO_IDEOGRAPH = re.compile("[\0-\u33ff]*")
# Characters that are a word each, wherever they stand: ideographs and
# punctuation of Chinese. Punctuation that lower-casing looks through when it
# searches the end of a Greek word, such as U+FF0E, must not be among them.
_STANDALONE = re.compile(
    f"([{characters.CJK_CLASS}"
    "\u3001\u3002\u3008-\u3011\uff01\uff08\uff09\uff0c\uff1b\uff1f]+)"
)
# The words as they stand in the untouched text, deleted characters included.
_WORD = re.compile(
    f"[{characters.CJK_CLASS}]"
    f"|[^{characters.CJK_CLASS}{characters.BLANK_CLASS}]+"
)


class _WordCache(dict):
    """Word -> what `compute` makes of it; starts afresh when full."""

    def __init__(self, compute: Callable[[str], Any], characters: int):
        super().__init__()
        self._compute = compute
        self._characters = characters
        self._room = characters

    def __missing__(self, word: str) -> Any:
        value = self._compute(word)
        if len(word) <= _CACHED_WORD_LENGTH:
            cost = len(word) + _CHARACTERS_A_WORD
            if cost > self._room:
                self.clear()
                self._room = self._characters
            self._room -= cost
            self[word] = value
        return value


class FullTokenizer:
    """Text -> WordPieces -> ids.

    Args:
      vocab_file: the vocabulary, one piece a line.
      do_lower_case: True for uncased models. It also drops accents, as in
        the original: wrong for Japanese and Korean and most Indic scripts,
        for which cased models are meant.
      never_split: strings that are recognised verbatim in the text and kept
        as one piece, such as `[MASK]`. None by default, so that text can
        never bring in a special token.
      strip_accents: drop accents; None follows `do_lower_case`.
      require: pieces the vocabulary must hold besides `[UNK]`, `[CLS]` and
        `[SEP]`.

    Raises:
      ValueError: the file is no usable vocabulary, or lacks a piece of
        `never_split` or `require`.
    """

    def __init__(
        self,
        vocab_file: str | os.PathLike,
        do_lower_case: bool = True,
        never_split: Sequence[str] = (),
        strip_accents: bool | None = None,
        require: Iterable[str] = (),
    ):
        self.vocab_file = os.fspath(vocab_file)
        self.do_lower_case = do_lower_case
        self.vocab = load_vocab(vocab_file)
        check_special_tokens(self.vocab, require)
        self.inv_vocab = {i: piece for piece, i in self.vocab.items()}
        self.basic_tokenizer = BasicTokenizer(do_lower_case, strip_accents)
        self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab)
        self.strip_accents = self.basic_tokenizer.strip_accents
        self.unk_id = self.vocab[UNK]
        self.cls_id = self.vocab[CLS]
        self.sep_id = self.vocab[SEP]
        self._never_split = self._pattern_of(never_split)
        self.never_split = tuple(never_split)
        self._inner = {
            piece[2:]: i
            for piece, i in self.vocab.items()
            if piece.startswith("##")
        }
        self._longest = max(map(len, self.vocab))
        self._ids_of_word = _WordCache(self._cut_word, _ID_CACHE_CHARACTERS)
        # Alone a character makes one piece, or [UNK].
        self._id_of_standalone = _WordCache(
            lambda char: self._cut_word(char)[0], _ID_CACHE_CHARACTERS
        )
        self._spans_of_word = _WordCache(
            self._cut_word_with_spans, _SPAN_CACHE_CHARACTERS
        )

    def __reduce__(self):
        # A worker process reads the file again; caches do not travel.
        arguments = self.do_lower_case, self.never_split, self.strip_accents
        return type(self), (self.vocab_file, *arguments)

    @property
    def vocab_size(self) -> int:
        """Physical lines of the file: the rows an embedding table needs."""
        return self.vocab.line_count

    @property
    def mask_id(self) -> int:
        """Id of `[MASK]`; ValueError where the vocabulary lacks it."""
        if MASK not in self.vocab:
            check_special_tokens(self.vocab, (MASK,))
        return self.vocab[MASK]

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the pieces of `text`, without special tokens."""
        return list(map(self.inv_vocab.__getitem__, self.tokenize_to_ids(text)))

    def tokenize_to_ids(self, text: str | bytes) -> list[int]:
        """Returns the ids of the pieces of `text`."""
        text = characters.convert_to_unicode(text)
        if self._never_split is None:
            return self._ids_of_text(text)
        ids = []
        for i, part in enumerate(self._never_split.split(text)):
            if i % 2:
                ids.append(self.vocab[part])
            else:
                ids += self._ids_of_text(part)
        return ids

    def tokenize_with_offsets(self, text: str | bytes) -> Tokenization:
        """Returns pieces, ids, and where in `text` each piece comes from.

        Offsets count code points of `text` as given (of the decoded text for
        bytes), never of a lower-cased or cleaned copy.
        """
        text = characters.convert_to_unicode(text)
        ids: list[int] = []
        offsets: list[tuple[int, int]] = []
        word_ids: list[int] = []
        words = 0
        for start, end, kept in self._parts(text):
            if kept:
                ids.append(self.vocab[text[start:end]])
                offsets.append((start, end))
                word_ids.append(words)
                words += 1
                continue
            for match in _WORD.finditer(text, start, end):
                at = match.start()
                for i, begin, stop, word in self._spans_of_word[match[0]]:
                    ids.append(i)
                    offsets.append((at + begin, at + stop))
                    word_ids.append(words + word)
                words = word_ids[-1] + 1 if word_ids else 0
        return Tokenization(
            self.convert_ids_to_tokens(ids), ids, offsets, word_ids
        )

    def tokenize_words(self, words: Sequence[str]) -> WordTokenization:
        """Cuts given words, as of a tagged sentence, and keeps the map."""
        ids: list[int] = []
        word_ids: list[int] = []
        first_pieces: list[int | None] = []
        for index, word in enumerate(words):
            ids_of_word = self.tokenize_to_ids(word)
            first_pieces.append(len(ids) if ids_of_word else None)
            ids += ids_of_word
            word_ids += [index] * len(ids_of_word)
        return WordTokenization(
            self.convert_ids_to_tokens(ids), ids, word_ids, first_pieces
        )

    def encode(
        self,
        text_a: str | bytes,
        text_b: str | bytes | None = None,
        max_seq_length: int = 128,
    ) -> dict[str, list[int]]:
        """Makes the three model inputs of one text or pair.

        Returns:
          `input_ids`, `input_mask`, `segment_ids`, padded to max_seq_length.
        """
        ids_b = None if text_b is None else self.tokenize_to_ids(text_b)
        return packing.pack(
            self.tokenize_to_ids(text_a),
            ids_b,
            max_seq_length,
            self.cls_id,
            self.sep_id,
        )._asdict()

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Looks up ids; KeyError names a token that has none."""
        return self._look_up(self.vocab, tokens, "token")

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Looks up tokens; KeyError names an id that has none."""
        return self._look_up(self.inv_vocab, ids, "id")

    def _look_up(self, table: dict, keys: Iterable, kind: str) -> list[Any]:
        try:
            return list(map(table.__getitem__, keys))
        except KeyError as error:
            raise KeyError(
                f"{kind} {error.args[0]!r} is not in the vocabulary file "
                f"{self.vocab_file!r}"
            ) from None

    def _pattern_of(self, strings: Sequence[str]) -> re.Pattern | None:
        if isinstance(strings, str):
            raise ValueError(
                f"never_split is the string {strings!r}, expected a list"
            )
        for string in strings:
            if string not in self.vocab or not string:
                raise ValueError(
                    f"never_split: {string!r} is not in the vocabulary file "
                    f"{self.vocab_file!r}"
                )
        if not strings:
            return None
        longest_first = sorted(strings, key=len, reverse=True)
        return re.compile(f"({'|'.join(map(re.escape, longest_first))})")

    def _parts(self, text: str) -> Iterable[tuple[int, int, bool]]:
        """(start, end, is it a never-split string?), covering the text."""
        start = 0
        if self._never_split is not None:
            for match in self._never_split.finditer(text):
                yield start, match.start(), False
                yield *match.span(), True
                start = match.end()
        yield start, len(text), False

    def _ids_of_text(self, text: str) -> list[int]:
        text = characters.remove_controls(text)
        if _NO_IDEOGRAPH.fullmatch(text):
            return self._ids_of_words(text.split())
        ids: list[int] = []
        for i, part in enumerate(_STANDALONE.split(text)):
            if i % 2:
                ids += map(self._id_of_standalone.__getitem__, part)
            elif part:
                ids += self._ids_of_words(part.split())
        return ids

    def _ids_of_words(self, words: list[str]) -> list[int]:
        ids = map(self._ids_of_word.__getitem__, words)
        return list(itertools.chain.from_iterable(ids))

    def _cut_word(self, word: str) -> tuple[int, ...]:
        """Ids of one cleaned, blank-separated word."""
        folded = characters.fold(word, self.do_lower_case, self.strip_accents)
        ids: list[int] = []
        for part in characters.split_at_punctuation(folded):
            ids += self._longest_match(part)[0]
        return tuple(ids)

    def _cut_word_with_spans(
        self, word: str
    ) -> tuple[tuple[int, int, int, int], ...]:
        """(id, start, end, index of the word in it) of each piece.

        `word` is as it stands in the text; start and end count from its
        first character.
        """
        folded, spans = fold_with_spans(
            word, self.do_lower_case, self.strip_accents
        )
        pieces: list[tuple[int, int, int, int]] = []
        position = 0
        parts = characters.split_at_punctuation(folded)
        for index, part in enumerate(parts):
            ids, ends = self._longest_match(part)
            begin = 0
            for i, stop in zip(ids, ends, strict=True):
                own = spans[position + begin : position + stop]
                start = min(span[0] for span in own)
                end = max(span[1] for span in own)
                # Deleted characters between two pieces of a word go to the
                # first of them.
                gap = word[pieces[-1][2] : start] if begin else ""
                if gap and all(map(characters.is_removed, gap)):
                    pieces[-1] = (*pieces[-1][:2], start, index)
                pieces.append((i, start, end, index))
                begin = stop
            position += len(part)
        return tuple(pieces)

    def _longest_match(self, word: str) -> tuple[list[int], list[int]]:
        """Ids of the pieces of one word, and where in it each one ends."""
        size = len(word)
        if size > MAX_CHARS_PER_WORD:
            return [self.unk_id], [size]
        ids: list[int] = []
        ends: list[int] = []
        table: dict[str, int] = self.vocab
        start = 0
        while start < size:
            # No piece is longer than the longest of the vocabulary.
            end = min(size, start + self._longest)
            while start < end:
                found = table.get(word[start:end])
                if found is not None:
                    break
                end -= 1
            else:
                return [self.unk_id], [size]
            ids.append(found)
            ends.append(end)
            start = end
            table = self._inner
        return ids, ends
