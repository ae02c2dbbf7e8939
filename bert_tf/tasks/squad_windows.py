"""Located SQuAD questions -> windows of word pieces, as a stream.

The windows are those of google-research/bert `run_squad.py`, number for
number, without its quadratic searches. Shape letters: S sequence length.
"""

import dataclasses
import functools
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf import packing
from bert_tf.records import Feature, FeatureSpec
from bert_tf.tasks.squad_data import Paragraph, SquadExample

_LOGGER = logging.getLogger("bert_tf")

FIRST_UNIQUE_ID = 1_000_000_000

# Words up to this length are cut once; longer ones, such as whole passages
# written without blanks, hardly come again.
_REMEMBERED_LENGTH = 64


class DocSpan(NamedTuple):
    """The part of a context that a window shows, in pieces."""

    start: int
    length: int


class ParagraphPieces(NamedTuple):
    """A context in word pieces.

    Attributes:
      ids: id of each piece.
      words: index of the word that each piece comes from.
      first_pieces: for each word the index of its first piece; that of the
        next piece if the word gives none.
    """

    ids: list[int]
    words: list[int]
    first_pieces: list[int]


@dataclasses.dataclass
class SquadWindow:
    """One model input: `[CLS] question [SEP] part of the context [SEP]`.

    Attributes:
      unique_id: number of the window, counted from 1000000000.
      example_index: number of the question.
      doc_span_index: number of the window within the question.
      input_ids: ids without padding.
      doc_offset: position of the first piece of the context.
      words: word index of each piece of the context.
      is_max_context: bool for each piece of the context: no other window
        shows more on both sides of it.
      start_position: first piece of the answer, 0 if it is not in this window
        or there is none; None in prediction.
      end_position: last piece of the answer, likewise.
      is_impossible: whether the question is.
    """

    unique_id: int
    example_index: int
    doc_span_index: int
    input_ids: list[int]
    doc_offset: int
    words: list[int]
    is_max_context: np.ndarray
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False

    def record(self, max_seq_length: int) -> dict[str, Any]:
        """Values of the features of `feature_spec`."""
        segment_ids = [0] * self.doc_offset
        segment_ids += [1] * (len(self.input_ids) - self.doc_offset)
        inputs = packing.pad_inputs(self.input_ids, segment_ids, max_seq_length)
        return {
            "unique_ids": self.unique_id,
            **inputs._asdict(),
            "start_positions": self.start_position,
            "end_positions": self.end_position,
            "is_impossible": int(self.is_impossible),
        }


def feature_spec(max_seq_length: int, is_training: bool) -> FeatureSpec:
    """Features of a SQuAD record, those of the original's files."""
    names = ["input_ids", "input_mask", "segment_ids"]
    scalars = ["start_positions", "end_positions", "is_impossible"]
    return FeatureSpec(
        [Feature("unique_ids")]
        + [Feature(name, (max_seq_length,)) for name in names]
        + [Feature(name) for name in scalars if is_training]
    )


def doc_spans(num_pieces: int, room: int, doc_stride: int) -> list[DocSpan]:
    """Cuts a context into windows.

    Args:
      num_pieces: length of the context.
      room: most pieces of the context in a window.
      doc_stride: distance between the starts of windows; one beyond the
        window's length counts as that length.

    Returns:
      The windows, the last one ending with the context; none if it is empty.
    """
    spans = []
    start = 0
    while start < num_pieces:
        length = min(room, num_pieces - start)
        spans.append(DocSpan(start, length))
        if start + length == num_pieces:
            break
        start += min(length, doc_stride)
    return spans


@functools.lru_cache(maxsize=4096)
def _context_scores(length: int) -> np.ndarray:
    # The smaller of left and right context, and a bonus for long windows.
    # Float64 in this very order: ties between windows depend on rounding.
    left = np.arange(length)
    return np.minimum(left, left[::-1]) + 0.01 * length


def max_context_spans(spans: Sequence[DocSpan], num_pieces: int) -> np.ndarray:
    """For each piece of a context the window that shows most around it.

    Args:
      spans: windows as (start, length).
      num_pieces: length of the context.

    Returns:
      int32 [num_pieces], indices into `spans`; the first wins a tie.
    """
    owners = np.zeros(num_pieces, np.int32)
    if len(spans) < 2:
        return owners
    best = np.full(num_pieces, -np.inf)
    for index, (start, length) in enumerate(spans):
        scores = _context_scores(length)
        here = slice(start, start + length)
        is_better = scores > best[here]
        best[here][is_better] = scores[is_better]
        owners[here][is_better] = index
    return owners


def narrow_answer(
    piece_ids: list[int], start: int, end: int, answer_ids: list[int]
) -> tuple[int, int]:
    """Narrows an answer from whole words to its own pieces.

    The original tries all spans within the words, short of start first, long
    of end first, against the pieces of the answer. As only a span of the
    answer's length can match, one pass over the starts finds the same.

    Args:
      piece_ids: pieces of the context.
      start: first piece of the answer's first word.
      end: last piece of its last word, inclusive.
      answer_ids: pieces of the answer text.

    Returns:
      (start, end) of the first occurrence; those given if there is none.
    """
    length = len(answer_ids)
    if not length:
        return start, end
    first = answer_ids[0]
    stop = end - length + 2
    at = start
    while at < stop:
        try:
            at = piece_ids.index(first, at, stop)
        except ValueError:
            break
        if piece_ids[at : at + length] == answer_ids:
            return at, at + length - 1
        at += 1
    return start, end


def check_lengths(
    max_seq_length: int, doc_stride: int, max_query_length: int
) -> None:
    """Refuses lengths with which no window of the context could be cut.

    Raises:
      ValueError: the longest question leaves no room for the context, or
        windows do not move; names flags and values.
    """
    if max_seq_length <= max_query_length + 3:
        raise ValueError(
            f"--max_seq_length ({max_seq_length}) must be greater than "
            f"--max_query_length ({max_query_length}) + 3"
        )
    if doc_stride < 1 or max_query_length < 0:
        raise ValueError(
            f"--doc_stride is {doc_stride}, expected 1 or more; "
            f"--max_query_length is {max_query_length}, expected 0 or more"
        )


class SquadFeaturizer:
    """Makes the windows of questions.

    Args:
      tokenizer: a `FullTokenizer`.
      max_seq_length: S.
      doc_stride: distance between the starts of windows, in pieces.
      max_query_length: longest question, in pieces; the rest is cut off.
      is_training: whether windows get start and end positions.

    Attributes:
      num_windows: windows streamed so far.
      num_without_answer: of these, in training, those of an answerable
        question that do not hold the answer. They are trained with position
        0, as in the original.
      without_window: ids of questions whose context gives no piece.
      answer_in_no_window: ids of training questions whose answer is cut by
        every window.

    Raises:
      ValueError: the lengths leave no room for the context, or do not move.
    """

    def __init__(
        self,
        tokenizer,
        max_seq_length: int = 384,
        doc_stride: int = 128,
        max_query_length: int = 64,
        is_training: bool = False,
    ):
        check_lengths(max_seq_length, doc_stride, max_query_length)
        if doc_stride >= max_seq_length - 3:
            _LOGGER.warning(
                "doc_stride (%d) is longer than a window of max_seq_length "
                "%d: windows will not overlap",
                doc_stride,
                max_seq_length,
            )
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.doc_stride = doc_stride
        self.max_query_length = max_query_length
        self.is_training = is_training
        self.num_windows = 0
        self.num_without_answer = 0
        self.without_window: list[str] = []
        self.answer_in_no_window: list[str] = []
        self._ids_of_word = functools.lru_cache(maxsize=1 << 16)(
            tokenizer.tokenize_to_ids
        )
        self._pieces: dict[int, tuple[Paragraph, ParagraphPieces]] = {}

    def pieces(self, paragraph: Paragraph) -> ParagraphPieces:
        """The pieces of a context, made once for all its questions."""
        # Keyed by identity; the paragraph is kept, so that no other one can
        # come by its id.
        key = id(paragraph)
        if key not in self._pieces:
            ids: list[int] = []
            words: list[int] = []
            first_pieces = []
            for index, word in enumerate(paragraph.words):
                first_pieces.append(len(ids))
                if len(word) <= _REMEMBERED_LENGTH:
                    word_ids = self._ids_of_word(word)
                else:
                    word_ids = self.tokenizer.tokenize_to_ids(word)
                ids += word_ids
                words += [index] * len(word_ids)
            self._pieces[key] = (
                paragraph,
                ParagraphPieces(ids, words, first_pieces),
            )
        return self._pieces[key][1]

    def stream(self, examples: Iterable[SquadExample]) -> Iterator[SquadWindow]:
        """Yields the windows of all questions and logs the counts."""
        num_examples = 0
        for index, example in enumerate(examples):
            num_examples += 1
            windows = self.windows(
                example, index, FIRST_UNIQUE_ID + self.num_windows
            )
            self._count(example, windows)
            yield from windows
        _LOGGER.info(
            "%d questions make %d windows of max_seq_length %d",
            num_examples,
            self.num_windows,
            self.max_seq_length,
        )
        if self.num_without_answer:
            _LOGGER.info(
                "%d of %d windows do not hold their answer and are trained "
                "to point at [CLS]",
                self.num_without_answer,
                self.num_windows,
            )
        for ids, what in (
            (self.without_window, "have a context without tokens: no window"),
            (self.answer_in_no_window, "have their answer in no window"),
        ):
            if ids:
                _LOGGER.warning(
                    "%d questions %s: %s", len(ids), what, ", ".join(ids)
                )

    def windows(
        self, example: SquadExample, example_index: int, unique_id: int
    ) -> list[SquadWindow]:
        """The windows of one question.

        Args:
          example: the question.
          example_index: its number.
          unique_id: number of its first window.

        Returns:
          The windows in the order of the context; none if it has no piece.
        """
        pieces = self.pieces(example.paragraph)
        tokenizer = self.tokenizer
        query = tokenizer.tokenize_to_ids(example.question_text)
        prefix = [
            tokenizer.cls_id,
            *query[: self.max_query_length],
            tokenizer.sep_id,
        ]
        room = self.max_seq_length - len(prefix) - 1
        spans = doc_spans(len(pieces.ids), room, self.doc_stride)
        owners = max_context_spans(spans, len(pieces.ids))
        answer = self._answer_pieces(example, pieces)
        windows = []
        for index, (start, length) in enumerate(spans):
            stop = start + length
            window = SquadWindow(
                unique_id + index,
                example_index,
                index,
                [*prefix, *pieces.ids[start:stop], tokenizer.sep_id],
                len(prefix),
                pieces.words[start:stop],
                owners[start:stop] == index,
                is_impossible=example.is_impossible,
            )
            if self.is_training:
                window.start_position = window.end_position = 0
                if answer and answer[0] >= start and answer[1] < stop:
                    shift = len(prefix) - start
                    window.start_position = answer[0] + shift
                    window.end_position = answer[1] + shift
            windows.append(window)
        return windows

    def _count(self, example: SquadExample, windows: list[SquadWindow]) -> None:
        self.num_windows += len(windows)
        if not windows:
            self.without_window.append(example.qas_id)
        elif self.is_training and not example.is_impossible:
            missed = sum(not window.start_position for window in windows)
            self.num_without_answer += missed
            if missed == len(windows):
                self.answer_in_no_window.append(example.qas_id)

    def _answer_pieces(
        self, example: SquadExample, pieces: ParagraphPieces
    ) -> tuple[int, int] | None:
        """First and last piece of the answer, inclusive."""
        if not self.is_training or example.is_impossible:
            return None
        start = pieces.first_pieces[example.start_position]
        end = len(pieces.ids) - 1
        if example.end_position < len(pieces.first_pieces) - 1:
            end = pieces.first_pieces[example.end_position + 1] - 1
        answer_ids = self.tokenizer.tokenize_to_ids(example.orig_answer_text)
        return narrow_answer(pieces.ids, start, end, answer_ids)
