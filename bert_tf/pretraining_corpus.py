"""Text files -> documents of sentences of token ids, as flat arrays.

A document ends at a blank line. `Corpus` holds three arrays and no lists of
strings: tokens, where sentences begin among them, and where documents begin
among the sentences.
"""

import hashlib
import os
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import IO, NamedTuple

import numpy as np

from bert_tf import files
from bert_tf.pretraining_statistics import Statistics

# A longer line of a file is cut in streaming mode, so that no input can fill
# the memory; in tokens it is far above any sequence length.
LONGEST_LINE = 1 << 20

_COUNTED = 1 << 20
_MANY_UNDECODABLE = 0.5
_MOST_PARTS, _SMALLEST_PART = 96, 1 << 17

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")

# Text -> token ids, and for whole words of another kind than WordPiece's,
# for each token whether a word begins there.
Tokenize = Callable[[str], tuple[Sequence[int], Sequence[int] | None]]
Opener = Callable[[str, str], IO]


class TextRange(NamedTuple):
    """Bytes `start` to `end` of a file, whole lines."""

    path: str
    start: int
    end: int


class Corpus(NamedTuple):
    """Documents of tokenized sentences.

    Attributes:
      tokens: ids of all sentences one after the other.
      sentences: first token of each sentence, and the number of tokens last.
      documents: first sentence of each document, and the number of sentences
        last.
      word_starts: 1 for a token that begins a word, uint8, as long as
        `tokens`; None where the pieces themselves tell.
    """

    tokens: np.ndarray
    sentences: np.ndarray
    documents: np.ndarray
    word_starts: np.ndarray | None = None

    @property
    def num_documents(self) -> int:
        """Number of documents."""
        return len(self.documents) - 1


def token_dtype(vocab_size: int) -> np.dtype:
    """The smallest unsigned type that holds every id."""
    return np.dtype("<u2" if vocab_size <= 1 << 16 else "<u4")


class CorpusBuilder:
    """Collects sentences and documents.

    Args:
      vocab_size: number of ids.
      with_word_starts: whether sentences come with `word_starts`.

    Attributes:
      num_tokens: tokens so far.
      num_sentences: sentences so far.
      num_documents: documents ended so far.
    """

    def __init__(self, vocab_size: int, with_word_starts: bool = False):
        self._dtype = token_dtype(vocab_size)
        self._tokens = array("H" if self._dtype.itemsize == 2 else "I")
        self._sentences = array("q", [0])
        self._documents = array("q", [0])
        self._word_starts = array("B") if with_word_starts else None
        self.num_tokens = 0
        self.num_sentences = 0
        self.num_documents = 0
        self._ended_sentences = 0

    @property
    def is_open(self) -> bool:
        """Whether sentences were added since the last end of a document."""
        return self.num_sentences > self._ended_sentences

    def add_sentence(
        self, ids: Sequence[int], word_starts: Sequence[int] | None
    ) -> None:
        """Appends a sentence of at least one token."""
        self._tokens.extend(ids)
        if self._word_starts is not None:
            self._word_starts.extend(word_starts)
        self.num_tokens += len(ids)
        self.num_sentences += 1
        self._sentences.append(self.num_tokens)

    def end_document(self) -> None:
        """Closes the document; one without a sentence is none."""
        if self.is_open:
            self._ended_sentences = self.num_sentences
            self.num_documents += 1
            self._documents.append(self.num_sentences)

    def sizes(self) -> list[int]:
        """Tokens, sentences and documents so far."""
        return [self.num_tokens, self.num_sentences, self.num_documents]

    def flush(self, streams: Sequence[IO]) -> None:
        """Moves what is held to files.

        Args:
          streams: for tokens, sentences, documents and, where there are any,
            word starts.
        """
        arrays = [self._tokens, self._sentences, self._documents]
        if self._word_starts is not None:
            arrays.append(self._word_starts)
        for values, stream in zip(arrays, streams, strict=True):
            values.tofile(stream)
            del values[:]

    def corpus(self) -> Corpus:
        """The finished arrays; views, not copies."""
        starts = self._word_starts
        return Corpus(
            np.frombuffer(self._tokens, self._dtype),
            np.frombuffer(self._sentences, np.int64),
            np.frombuffer(self._documents, np.int64),
            None if starts is None else np.frombuffer(starts, np.uint8),
        )


class TextReader:
    """Reads ranges of text files line by line into a builder.

    Args:
      tokenize: see `Tokenize`.
      statistics: gets counts of lines, and the first place of each problem.
      ignore_errors: drop bytes that are not UTF-8, and count the lines;
        otherwise stop at the first.
      longest_line: cut longer lines, in bytes; None for no limit.
      opener: opens a file, `open_file(path, mode)`.
    """

    def __init__(
        self,
        tokenize: Tokenize,
        statistics: Statistics,
        ignore_errors: bool,
        longest_line: int | None = LONGEST_LINE,
        opener: Opener = files.open_file,
    ):
        self._tokenize = tokenize
        self._statistics = statistics
        self._ignore_errors = ignore_errors
        self._longest_line = longest_line
        self._opener = opener

    def read(self, text: TextRange, builder: CorpusBuilder) -> Iterator[int]:
        """Adds the sentences of a range; yields bytes read now and then.

        The last document is left open: whether a file's end ends it is for
        the caller to say.

        Raises:
          ValueError: bytes are not UTF-8 and errors are not ignored; names
            file and line.
        """
        counts = self._statistics.counts
        tokenize = self._tokenize
        line_number = position = 0
        for raw, is_piece in self._lines(text):
            position += len(raw)
            if not is_piece:
                line_number += 1
            try:
                line = raw.decode("utf-8").strip()
            except UnicodeDecodeError as error:
                line = self._undecodable(raw, error, text, line_number)
            counts["lines"] += 1
            if not line:
                counts["blank_lines"] += 1
                builder.end_document()
                if position > 1 << 20:
                    yield position
                    position = 0
                continue
            ids, word_starts = tokenize(line)
            if ids:
                builder.add_sentence(ids, word_starts)
            else:
                counts["lines_without_tokens"] += 1
        yield position

    def _lines(self, text: TextRange) -> Iterator[tuple[bytes, bool]]:
        """Lines, and whether it is a further piece of a line cut up."""
        limit = -1 if self._longest_line is None else self._longest_line
        with self._opener(text.path, "rb") as stream:
            stream.seek(text.start)
            position = text.start
            carry = b""
            while position < text.end:
                raw = stream.readline(limit)
                if not raw:
                    break
                position += len(raw)
                is_piece = bool(carry)
                raw = carry + raw
                carry = b""
                if len(raw) >= limit > 0 and not raw.endswith(b"\n"):
                    if not is_piece:
                        self._statistics.note(
                            "overlong_lines",
                            f"{text.path}, byte {position - len(raw)}",
                        )
                    cut = _place_to_cut(raw)
                    raw, carry = raw[:cut], raw[cut:]
                yield raw, is_piece
            if carry:
                yield carry, True

    def _undecodable(
        self,
        raw: bytes,
        error: UnicodeDecodeError,
        text: TextRange,
        line_number: int,
    ) -> str:
        first = "undecodable_lines" not in self._statistics.places
        place = ""
        if first or not self._ignore_errors:
            before = _count_lines(self._opener, text.path, text.start)
            place = f"{text.path}, line {before + line_number}"
            if before + line_number == 1 and raw[:2] in _UTF16_MARKS:
                raise ValueError(f"{place}: the file is UTF-16, expected UTF-8")
        if not self._ignore_errors:
            raise ValueError(
                f"{place}: byte 0x{raw[error.start]:02x} is not UTF-8; convert "
                "the file, or drop such bytes with --encoding_errors=ignore"
            )
        self._statistics.note("undecodable_lines", place)
        return raw.decode("utf-8", "ignore").strip()


def _place_to_cut(raw: bytes) -> int:
    """Where to cut an overlong line: at a blank, else between characters."""
    cut = raw.rfind(b" ", len(raw) // 2)
    if cut > 0:
        return cut
    cut = len(raw)
    while cut > len(raw) - 4 and raw[cut - 1] & 0xC0 == 0x80:
        cut -= 1
    return cut - 1


def _count_lines(opener: Opener, path: str, end: int) -> int:
    """Number of line ends before a byte of a file."""
    lines = 0
    with opener(path, "rb") as stream:
        while end > 0:
            block = stream.read(min(end, 1 << 20))
            if not block:
                break
            lines += block.count(b"\n")
            end -= len(block)
    return lines


def _next_document(stream: IO, position: int) -> int | None:
    """First byte after the next blank line; None where there is none."""
    stream.seek(position)
    # What stands at `position` is most likely the middle of a line.
    is_partial = True
    while raw := stream.readline(LONGEST_LINE):
        position += len(raw)
        whole = raw.endswith(b"\n")
        if (
            not is_partial
            and whole
            and not raw.decode("utf-8", "ignore").strip()
        ):
            return position
        is_partial = not whole
    return None


def part_bytes(text_bytes: int) -> int:
    """Size of a part of a corpus of that size.

    Every process maps all parts, so there are not many; but enough that no
    process waits long for another one.
    """
    return max(_SMALLEST_PART, text_bytes // _MOST_PARTS)


def plan_parts(
    sizes: Sequence[tuple[str, int]],
    wanted_bytes: int,
    opener: Opener = files.open_file,
) -> list[list[TextRange]]:
    """Cuts files between documents into parts of about equal size.

    Args:
      sizes: path and bytes of each file.
      wanted_bytes: size a part should have; a longer document makes a longer
        part.
      opener: opens a file.

    Returns:
      For each part its ranges; small files share a part, an empty file has
      no range. Depends on the files only, not on the number of workers.
    """
    parts: list[list[TextRange]] = []
    ranges: list[TextRange] = []
    room = wanted_bytes
    for path, size in sizes:
        start = 0
        while start < size:
            end = size
            if size - start > room:
                with opener(path, "rb") as stream:
                    end = _next_document(stream, start + room) or size
            ranges.append(TextRange(path, start, end))
            room -= end - start
            start = end
            if room <= 0:
                parts.append(ranges)
                ranges, room = [], wanted_bytes
    return [*parts, ranges] if ranges else parts


def file_size(path: str) -> int:
    """Bytes of a file, local or remote."""
    if not files.is_remote(path):
        return os.path.getsize(path)
    with files.open_file(path, "rb") as stream:
        return stream.size()


def sha256_of(path: str) -> str:
    """SHA-256 of a file, read piecewise."""
    digest = hashlib.sha256()
    with files.open_file(path, "rb") as stream:
        while block := stream.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def check_encoding(statistics: Statistics) -> None:
    """Stops where most lines of the text are not UTF-8.

    Raises:
      ValueError: names the first file and line.
    """
    bad, lines = (
        statistics.counts[name] for name in ("undecodable_lines", "lines")
    )
    if bad > _MANY_UNDECODABLE * lines:
        raise ValueError(
            f"{bad} of {lines} lines are not UTF-8, the first: "
            f"{statistics.places['undecodable_lines']}"
        )


def count_text(corpus: Corpus, unk_id: int, statistics: Statistics) -> None:
    """Adds documents, sentences, tokens and unknown tokens to the counts."""
    counts = statistics.counts
    counts["documents"] += corpus.num_documents
    counts["sentences"] += len(corpus.sentences) - 1
    counts["tokens"] += int(corpus.sentences[-1])
    # Piecewise: a part may be larger than the memory.
    for at in range(0, corpus.num_documents, _COUNTED):
        sizes = np.diff(corpus.documents[at : at + _COUNTED + 1])
        counts["one_sentence_documents"] += int((sizes == 1).sum())
    for at in range(0, len(corpus.tokens), _COUNTED):
        tokens = corpus.tokens[at : at + _COUNTED]
        counts["unknown_tokens"] += int((tokens == unk_id).sum())
