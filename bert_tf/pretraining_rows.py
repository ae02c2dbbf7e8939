"""Instances of streaming mode as rows of fixed size, and rows -> records.

A row holds the pieces of both texts and the label; its key, a 64-bit number,
gives its place in the shuffled order and its masks.
"""

from collections.abc import Iterator

import numpy as np

from bert_tf.pretraining_corpus import Corpus
from bert_tf.pretraining_draws import MaskDrawer, Masks, random_bits
from bert_tf.pretraining_encoding import (
    BATCH,
    RecordEncoder,
    apply_masks,
    lay_out,
)
from bert_tf.pretraining_settings import PretrainingDataSettings
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_vocabulary import Vocabulary


def row_dtype(
    max_seq_length: int, token_dtype: np.dtype, with_word_starts: bool
) -> np.dtype:
    """Layout of an instance: key, both texts one after the other, label."""
    room = (max_seq_length - 3,)
    fields = [
        ("key", "<u8"),
        ("length_a", "<u2"),
        ("length_b", "<u2"),
        ("label", "u1"),
        ("ids", token_dtype, room),
    ]
    if with_word_starts:
        fields.append(("word_starts", "u1", room))
    return np.dtype(fields)


class InstanceRows:
    """Room for instances that a document is cut into.

    Args:
      dtype: see `row_dtype`.
      capacity: rows held; `is_full` says when they are used up.
    """

    def __init__(self, dtype: np.dtype, capacity: int):
        self._rows = np.empty(capacity, dtype)
        self._ids = self._rows["ids"]
        self._starts = None
        if "word_starts" in dtype.names:
            self._starts = self._rows["word_starts"]
        self._capacity = capacity
        self._meta: list[tuple[int, int, bool]] = []
        self._streams: list[int] = []
        self._numbers: list[int] = []

    def __len__(self) -> int:
        return len(self._meta)

    @property
    def is_full(self) -> bool:
        """No room for another instance."""
        return len(self._meta) == self._capacity

    def add(
        self,
        stream: int,
        number: int,
        corpus_a: Corpus,
        range_a: tuple[int, int],
        corpus_b: Corpus,
        range_b: tuple[int, int],
        is_random: bool,
    ) -> None:
        """Copies both texts of an instance, which must fit.

        Args:
          stream: key of document and pass.
          number: of the instance, among those of that document and pass.
          corpus_a: where the first text stands.
          range_a: its tokens there, first and end.
          corpus_b: where the second text stands.
          range_b: its tokens there, first and end.
          is_random: the label.
        """
        row = len(self._meta)
        (start_a, stop_a), (start_b, stop_b) = range_a, range_b
        length_a, length = stop_a - start_a, stop_a - start_a + stop_b - start_b
        ids = self._ids[row]
        ids[:length_a] = corpus_a.tokens[start_a:stop_a]
        ids[length_a:length] = corpus_b.tokens[start_b:stop_b]
        if self._starts is not None:
            starts = self._starts[row]
            starts[:length_a] = corpus_a.word_starts[start_a:stop_a]
            starts[length_a:length] = corpus_b.word_starts[start_b:stop_b]
        self._meta.append((length_a, length - length_a, is_random))
        self._streams.append(stream)
        self._numbers.append(number)

    def take(self) -> np.ndarray:
        """The rows, [n]; the room is free afterwards.

        They are a view: use them before the next `add`.
        """
        rows = self._rows[: len(self._meta)]
        meta = np.array(self._meta, np.int64).reshape(-1, 3)
        rows["length_a"], rows["length_b"], rows["label"] = meta.T
        rows["key"] = random_bits(
            np.array(self._streams, np.uint64), np.array(self._numbers)
        )
        self._meta, self._streams, self._numbers = [], [], []
        return rows


class RowEncoder:
    """Rows -> records, masks drawn on the way.

    Args:
      settings: lengths, masking, whole words.
      vocabulary: its ids.
    """

    def __init__(
        self, settings: PretrainingDataSettings, vocabulary: Vocabulary
    ):
        self._settings = settings
        self._vocabulary = vocabulary
        self._is_static = settings.masking == "static"
        self._encoder = RecordEncoder(
            settings.max_seq_length, settings.max_predictions_per_seq
        )
        self._drawer = MaskDrawer(
            settings.max_seq_length,
            settings.max_predictions_per_seq,
            settings.masked_lm_prob,
            vocabulary.mask_id,
            vocabulary.size,
        )

    def _lay_out(self, rows: np.ndarray):
        """Lengths of both texts, ids, text places and word starts."""
        settings, vocabulary = self._settings, self._vocabulary
        room = settings.max_num_tokens
        length_a = rows["length_a"].astype(np.int64)
        length_b = rows["length_b"].astype(np.int64)
        start = np.arange(len(rows)) * room
        where = (
            start,
            length_a,
            start + length_a,
            length_b,
            settings.max_seq_length,
        )
        layout = lay_out(
            np.ascontiguousarray(rows["ids"]).ravel(),
            *where,
            vocabulary.cls_id,
            vocabulary.sep_id,
        )
        starts = None
        if settings.do_whole_word_mask:
            if "word_starts" in rows.dtype.names:
                own = np.ascontiguousarray(rows["word_starts"]).ravel()
                starts = lay_out(own, *where, 0, 0).input_ids.astype(bool)
            else:
                starts = self._vocabulary.is_continuation[layout.input_ids] == 0
                starts &= layout.is_text
            # A text cut inside a word begins one all the same.
            starts[:, 1] = True
            starts[np.arange(len(rows)), length_a + 2] = True
        return length_a, length_b, layout, starts

    def encode(
        self, rows: np.ndarray, statistics: Statistics
    ) -> Iterator[list[bytes]]:
        """Yields records, in order, some hundred at a time.

        Args:
          rows: instances, [n].
          statistics: gets the counts of masks.
        """
        for at in range(0, len(rows), BATCH):
            part = rows[at : at + BATCH]
            length_a, length_b, layout, starts = self._lay_out(part)
            lengths = length_a + length_b + 3
            if not self._is_static:
                yield self._encoder.dynamic(
                    layout.input_ids,
                    length_a,
                    lengths,
                    part["label"],
                    (self._vocabulary.mask_id, self._vocabulary.size),
                    starts,
                )
                continue
            masks, originals = self._draw(
                part["key"], layout, starts, statistics
            )
            yield self._encoder.static(
                layout.input_ids,
                length_a,
                lengths,
                part["label"],
                masks.positions,
                originals,
                masks.counts,
            )

    def count_masks(self, rows: np.ndarray, statistics: Statistics) -> None:
        """Draws masks for their statistics only."""
        for at in range(0, len(rows) if self._is_static else 0, BATCH):
            part = rows[at : at + BATCH]
            *_, layout, starts = self._lay_out(part)
            self._draw(part["key"], layout, starts, statistics)

    def _draw(self, keys, layout, starts, statistics) -> tuple[Masks, ...]:
        masks = self._drawer.draw(
            keys, layout.input_ids, layout.is_text, starts
        )
        originals = apply_masks(
            layout.input_ids, masks.positions, masks.replacements, masks.counts
        )
        statistics.add_masks(
            masks.counts,
            originals,
            masks.replacements,
            self._vocabulary.mask_id,
        )
        return masks, originals
