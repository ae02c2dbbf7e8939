"""Tagged sentences -> windows of word pieces.

Shape letters: S sequence, L labels.
"""

import dataclasses
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bert_tf import packing
from bert_tf.records import Feature, FeatureSpec
from bert_tf.tasks.tagging_data import Sentence
from bert_tf.tasks.tagging_entities import EncodingCheck

# Of pieces without a label: the specials, all but the first of each word, and
# first pieces that another window shows with more around them.
NO_LABEL = -1

LONG_SENTENCES = ("window", "cut")

_LOGGER = logging.getLogger("bert_tf")


def feature_spec(max_seq_length: int) -> FeatureSpec:
    """The features of one window.

    Returns:
      `input_ids`, `input_mask`, `segment_ids`, `label_ids` [S]: the label of
      a word on its first piece, -1 on all others.
    """
    inputs = [
        Feature(name, (max_seq_length,))
        for name in ("input_ids", "input_mask", "segment_ids")
    ]
    labels = Feature("label_ids", (max_seq_length,), padding=NO_LABEL)
    return FeatureSpec([*inputs, labels])


class Window(NamedTuple):
    """One model input: `[CLS] part of a sentence [SEP]`.

    Attributes:
      input_ids: ids without padding.
      positions: where in `input_ids` the words to label have their first
        piece.
      words: index in the sentence of each of these words.
    """

    input_ids: list[int]
    positions: list[int]
    words: list[int]

    def record(
        self, max_seq_length: int, label_ids: Sequence[int] | None = None
    ) -> dict[str, Any]:
        """Values of `feature_spec`.

        Args:
          max_seq_length: S.
          label_ids: one for each word of the sentence; None puts 0 in their
            places, where labels are to be predicted.
        """
        inputs = packing.pad_inputs(
            self.input_ids, [0] * len(self.input_ids), max_seq_length
        )
        labels = [NO_LABEL] * max_seq_length
        for position, word in zip(self.positions, self.words, strict=True):
            labels[position] = 0 if label_ids is None else label_ids[word]
        return {**inputs._asdict(), "label_ids": labels}


class SentenceWindows(NamedTuple):
    """A sentence as the model sees it.

    Attributes:
      windows: in the order of the sentence; each word is labelled in one of
        them, and none is empty of such words.
      marks: for each word None, or why no window labels it: `"cut"` or
        `"no_pieces"`.
      num_pieces: pieces of the whole sentence.
    """

    windows: list[Window]
    marks: list[str | None]
    num_pieces: int


def window_spans(
    num_pieces: int, room: int, stride: int
) -> list[tuple[int, int]]:
    """Cuts a sentence into windows.

    Args:
      num_pieces: length of the sentence.
      room: most pieces in a window.
      stride: distance between the starts of two windows.

    Returns:
      (start, end) of each window. The last one is as full as the others.
    """
    last = max(0, num_pieces - room)
    starts = [*range(0, last, stride), last]
    return [(start, min(start + room, num_pieces)) for start in starts]


def best_window(spans: Sequence[tuple[int, int]], piece: int) -> int:
    """The window that shows most on both sides of a piece.

    The smaller of the pieces to its left and to its right counts, as for
    the answers of SQuAD in the original; the first window wins a tie.
    """
    return max(
        (i for i, (start, end) in enumerate(spans) if start <= piece < end),
        key=lambda i: (min(piece - spans[i][0], spans[i][1] - 1 - piece), -i),
    )


@dataclasses.dataclass
class TaggingStats:
    """Counts what was met while sentences were turned into windows.

    Attributes:
      sentences: number of sentences.
      words: number of words.
      windows: number of windows.
      in_several: sentences that need more than one window.
      cut: words that were cut off.
      no_pieces: words that give no piece, such as control characters.
      first_no_pieces: where the first of them stands.
      longest: pieces of the longest sentence, special tokens included.
      longest_where: where it stands.
      encoding: of the labels; None where they do not mark entities.
    """

    sentences: int = 0
    words: int = 0
    windows: int = 0
    in_several: int = 0
    cut: int = 0
    no_pieces: int = 0
    first_no_pieces: str = ""
    longest: int = 0
    longest_where: str = ""
    encoding: EncodingCheck | None = None

    def add(self, sentence: Sentence, found: SentenceWindows) -> None:
        """Counts one sentence."""
        self.sentences += 1
        self.words += len(sentence.words)
        self.windows += len(found.windows)
        self.in_several += len(found.windows) > 1
        self.cut += found.marks.count("cut")
        self.no_pieces += found.marks.count("no_pieces")
        if "no_pieces" in found.marks and not self.first_no_pieces:
            index = found.marks.index("no_pieces")
            self.first_no_pieces = sentence.where(index)
        if found.num_pieces + 2 > self.longest:
            self.longest = found.num_pieces + 2
            self.longest_where = sentence.where()
        if self.encoding is not None and sentence.labels is not None:
            places = [f"line {number}" for number in sentence.lines]
            self.encoding.add(sentence.labels, places)

    def log(self, name: str) -> None:
        """Says what was counted; warns about what does not fit."""
        _LOGGER.info(
            "%s: %d sentences, %d words, %d windows; %d sentences need more "
            "than one window; the longest has %d pieces (%s)",
            name,
            self.sentences,
            self.words,
            self.windows,
            self.in_several,
            self.longest,
            self.longest_where,
        )
        if self.cut:
            _LOGGER.warning(
                "%s: %d word(s) cut off: not trained, predicted as O; "
                "--long_sentences=window shows them to the model",
                name,
                self.cut,
            )
        if self.no_pieces:
            _LOGGER.warning(
                "%s: %d word(s) without pieces, the first in %s: not trained, "
                "predicted as O",
                name,
                self.no_pieces,
                self.first_no_pieces,
            )
        faults, where = (
            self.encoding.inconsistent() if self.encoding else (0, "")
        )
        if faults:
            _LOGGER.warning(
                "%s: %d label(s) that do not fit their neighbours in encoding "
                "%s, the first on %s; they are kept as they are",
                name,
                faults,
                self.encoding.encoding,
                where,
            )


class TaggingFeaturizer:
    """Makes the windows of sentences.

    Args:
      tokenizer: a `FullTokenizer`.
      max_seq_length: S.
      long_sentences: `"window"` shows a sentence of more than S pieces in
        overlapping windows, `"cut"` shows its beginning alone.
      window_stride: pieces between the starts of two windows; by default
        half a window.

    Raises:
      ValueError: no piece fits, or the stride would pass over pieces.
    """

    def __init__(
        self,
        tokenizer,
        max_seq_length: int = 128,
        long_sentences: str = "window",
        window_stride: int | None = None,
    ):
        self.room = max_seq_length - 2
        if self.room < 1:
            raise ValueError(
                f"--max_seq_length is {max_seq_length}; two special tokens "
                "and a piece must fit"
            )
        if long_sentences not in LONG_SENTENCES:
            raise ValueError(
                f"--long_sentences is {long_sentences!r}, expected one of "
                f"{', '.join(LONG_SENTENCES)}"
            )
        stride = window_stride
        if stride is None:
            stride = (self.room + 1) // 2
        if not 1 <= stride <= self.room:
            raise ValueError(
                f"--window_stride is {stride}, expected 1 to "
                f"{self.room}, the pieces of a window"
            )
        self.tokenizer = tokenizer
        self.max_seq_length = max_seq_length
        self.long_sentences = long_sentences
        self.window_stride = window_stride
        self._stride = stride

    def featurize(self, words: Sequence[str]) -> SentenceWindows:
        """Makes the windows of one sentence."""
        pieces = self.tokenizer.tokenize_words(words)
        spans = window_spans(len(pieces.ids), self.room, self._stride)
        if self.long_sentences == "cut":
            spans = spans[:1]
        marks: list[str | None] = [None] * len(words)
        owned: list[list[tuple[int, int]]] = [[] for _ in spans]
        for word, first in enumerate(pieces.first_pieces):
            if first is None:
                marks[word] = "no_pieces"
            elif first >= spans[-1][1]:
                marks[word] = "cut"
            else:
                owner = best_window(spans, first) if len(spans) > 1 else 0
                owned[owner].append((word, first))
        windows = []
        for (start, end), pairs in zip(spans, owned, strict=True):
            # A window within one endless word has nothing to label.
            if pairs:
                ids = pieces.ids[start:end]
                windows.append(
                    Window(
                        [self.tokenizer.cls_id, *ids, self.tokenizer.sep_id],
                        [first - start + 1 for _, first in pairs],
                        [word for word, _ in pairs],
                    )
                )
        return SentenceWindows(windows, marks, len(pieces.ids))

    def records(
        self,
        sentences: Iterable[Sentence],
        labels: Sequence[str],
        stats: TaggingStats,
    ) -> Iterator[dict[str, Any]]:
        """Streams the records of sentences, window after window."""
        label_ids = {label: i for i, label in enumerate(labels)}
        for sentence in sentences:
            found = self.featurize(sentence.words)
            stats.add(sentence, found)
            ids = None
            if sentence.labels is not None:
                ids = [label_ids[label] for label in sentence.labels]
            for window in found.windows:
                yield window.record(self.max_seq_length, ids)
