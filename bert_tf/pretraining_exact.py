"""Pre-training instances with the original's random numbers.

The same seed, files and vocabulary give the records that
google-research/bert, `create_pretraining_data.py`, gives: every call of one
`random.Random` is made in its order. Speed comes from what surrounds those
calls: text is one array of ids, a sentence, a chunk and a truncated pair are
ranges of it, and records are encoded many at a time.
"""

import itertools
import random
from array import array
from bisect import bisect_left
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from bert_tf.pretraining_corpus import Corpus
from bert_tf.pretraining_encoding import (
    BATCH,
    RecordEncoder,
    apply_masks,
    lay_out,
)
from bert_tf.pretraining_settings import (
    PretrainingDataSettings,
    prediction_counts,
)
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_vocabulary import Vocabulary

# A prediction is held as position << 32 | new id.
_ID = (1 << 32) - 1
_KEPT = _ID


def _coin_bits(count: int, every: int = 1) -> int:
    """Mask of the bits that decide `count` draws of `random() < 0.5`.

    `random()` takes two 32-bit words and the first one's highest bit decides;
    `getrandbits(64 * count)` hands out the same words, the first lowest.

    Args:
      count: number of draws.
      every: 2 for the draws 0, 2, 4 and so on.
    """
    draw = b"\0\0\0\x80\0\0\0\0" + bytes(8 * (every - 1))
    return int.from_bytes(draw * count, "little")


class _Truncation(NamedTuple):
    """Tokens to drop: from the front and from the end, of each text."""

    front_a: int
    end_a: int
    front_b: int
    end_b: int


def _truncate(
    rng: random.Random, length_a: int, length_b: int, room: int
) -> _Truncation:
    """Drops single tokens from the longer text, b when both are as long.

    Each time a coin says whether the first or the last token goes.
    """
    excess = length_a + length_b - room
    difference = length_a - length_b
    from_longer = min(excess, abs(difference))
    # Both are equally long now and give way in turn, b first.
    rest = excess - from_longer
    bits = rng.getrandbits(64 * excess) & _coin_bits(excess)
    in_turn = bits >> 64 * from_longer
    ends_longer = (bits & _coin_bits(from_longer)).bit_count()
    ends_b = (in_turn & _coin_bits((rest + 1) // 2, every=2)).bit_count()
    ends_a = in_turn.bit_count() - ends_b
    cut_a, cut_b = rest // 2, (rest + 1) // 2
    if difference > 0:
        cut_a, ends_a = cut_a + from_longer, ends_a + ends_longer
    else:
        cut_b, ends_b = cut_b + from_longer, ends_b + ends_longer
    return _Truncation(cut_a - ends_a, ends_a, cut_b - ends_b, ends_b)


class ExactInstances:
    """All instances of a corpus, as flat integer arrays.

    Args:
      corpus: the text, documents in file order.
      vocabulary: its ids.
      settings: flags of the original.
      statistics: gets the counts.
    """

    def __init__(
        self,
        corpus: Corpus,
        vocabulary: Vocabulary,
        settings: PretrainingDataSettings,
        statistics: Statistics,
    ):
        self._corpus = corpus
        self._vocabulary = vocabulary
        self._settings = settings
        self._statistics = statistics
        self._rng = random.Random(settings.random_seed)
        self._wanted = prediction_counts(
            settings.max_seq_length,
            settings.max_predictions_per_seq,
            settings.masked_lm_prob,
        )
        self._positions = list(range(settings.max_seq_length))
        # Of each instance: first token and number of tokens of both texts,
        # label, where its predictions end.
        self._pairs = array("q")
        self._predictions = array("q")
        self._sentences = corpus.sentences.tolist()
        # Ids as Python numbers are wanted one by one only by whole words.
        self._joins = None
        if settings.do_whole_word_mask:
            self._joins = self._joining_tokens()
        self._create()

    def __len__(self) -> int:
        return len(self._pairs) // 6

    def _joining_tokens(self) -> bytes:
        """1 for each token that belongs to the word of the one before."""
        corpus = self._corpus
        joins = self._vocabulary.is_continuation[corpus.tokens]
        if corpus.word_starts is not None:
            joins = 1 - corpus.word_starts
        return joins.astype(np.uint8).tobytes()

    def _create(self) -> None:
        corpus, rng = self._corpus, self._rng
        bounds = corpus.documents.tolist()
        documents = list(itertools.pairwise(bounds))
        rng.shuffle(documents)
        for _ in range(self._settings.dupe_factor):
            for index in range(len(documents)):
                self._add_document(documents, index)
        self.order = list(range(len(self)))
        rng.shuffle(self.order)

    def _add_document(
        self, documents: list[tuple[int, int]], index: int
    ) -> None:
        """Instances of one document in one pass."""
        rng, at, settings = self._rng, self._sentences, self._settings
        room = target = settings.max_num_tokens
        if rng.random() < settings.short_seq_prob:
            target = rng.randint(2, room)
        sentence, end = documents[index]
        while sentence < end:
            stop = bisect_left(at, at[sentence] + target, sentence + 1, end)
            split = sentence + 1
            if stop - sentence >= 2:
                split = sentence + rng.randint(1, stop - sentence - 1)
            start_a, stop_a = at[sentence], at[split]
            is_random = stop - sentence == 1 or rng.random() < 0.5
            if is_random:
                start_b, stop_b = self._random_text(
                    documents, index, target - (stop_a - start_a)
                )
                # What the first text does not use is put back.
                sentence = split
            else:
                start_b, stop_b = stop_a, at[stop]
                sentence = stop
            self._add_instance(start_a, stop_a, start_b, stop_b, is_random)

    def _random_text(
        self, documents: list[tuple[int, int]], index: int, wanted: int
    ) -> tuple[int, int]:
        """Range of tokens of sentences from another document."""
        rng, at = self._rng, self._sentences
        for _ in range(10):
            other = rng.randint(0, len(documents) - 1)
            if other != index:
                break
        first, end = documents[other]
        start = first + rng.randint(0, end - first - 1)
        stop = bisect_left(at, at[start] + wanted, start + 1, end)
        return at[start], at[stop]

    def _add_instance(
        self,
        start_a: int,
        stop_a: int,
        start_b: int,
        stop_b: int,
        is_random: bool,
    ) -> None:
        """Truncates a pair, draws its masks and keeps both."""
        room = self._settings.max_num_tokens
        excess = stop_a - start_a + stop_b - start_b - room
        if excess > 0:
            cut = _truncate(self._rng, stop_a - start_a, stop_b - start_b, room)
            start_a, stop_a = start_a + cut.front_a, stop_a - cut.end_a
            start_b, stop_b = start_b + cut.front_b, stop_b - cut.end_b
            self._statistics.counts["truncated_instances"] += 1
            self._statistics.counts["truncated_tokens"] += excess
        length_a, length_b = stop_a - start_a, stop_b - start_b
        wanted = self._wanted[length_a + length_b + 3]
        if self._joins is None:
            chosen = self._positions[1 : length_a + 1]
            chosen += self._positions[length_a + 2 : length_a + length_b + 2]
            self._shuffle(chosen)
            del chosen[wanted:]
        else:
            words = self._words(start_a, length_a, start_b, length_b)
            self._shuffle(words)
            chosen = _take_words(words, wanted)
        self._predictions.extend(self._replace(chosen))
        self._pairs.extend(
            (
                start_a,
                length_a,
                start_b,
                length_b,
                is_random,
                len(self._predictions),
            )
        )

    def _words(
        self, start_a: int, length_a: int, start_b: int, length_b: int
    ) -> list[list[int]]:
        """Positions of the pieces of each word, both texts.

        The original looks through `[SEP]`: a second text that begins inside
        a word adds it to the last word of the first.
        """
        joins = self._joins
        words: list[list[int]] = []
        for position, join in enumerate(joins[start_a : start_a + length_a], 1):
            if join and words:
                words[-1].append(position)
            else:
                words.append([position])
        for position, join in enumerate(
            joins[start_b : start_b + length_b], length_a + 2
        ):
            if join:
                words[-1].append(position)
            else:
                words.append([position])
        return words

    def _shuffle(self, items: list) -> None:
        """`random.shuffle` with its numbers, without its calls."""
        bits = self._rng.getrandbits
        top = len(items) - 1
        while top > 0:
            width = (top + 1).bit_length()
            # Down to here the same number of bits is drawn.
            low = max((1 << width - 1) - 2, 0)
            for i in range(top, low, -1):
                j = bits(width)
                while j > i:
                    j = bits(width)
                items[i], items[j] = items[j], items[i]
            top = low

    def _replace(self, chosen: list[int]) -> list[int]:
        """Draws what stands at each chosen position; sorted predictions."""
        random_float, bits = self._rng.random, self._rng.getrandbits
        replacements = self._vocabulary.replacements
        mask_id = self._vocabulary.mask_id
        size = len(replacements)
        width = size.bit_length()
        predictions = []
        for position in chosen:
            if random_float() < 0.8:
                new = mask_id
            elif random_float() < 0.5:
                new = _KEPT
            else:
                drawn = bits(width)
                while drawn >= size:
                    drawn = bits(width)
                new = replacements[drawn]
            predictions.append(position << 32 | new)
        predictions.sort()
        return predictions

    def records(self) -> Iterator[list[bytes]]:
        """Encoded records in their final order, some hundred at a time."""
        settings, vocabulary = self._settings, self._vocabulary
        encoder = RecordEncoder(
            settings.max_seq_length, settings.max_predictions_per_seq
        )
        pairs = np.frombuffer(self._pairs, np.int64).reshape(-1, 6)
        for at in range(0, len(self), BATCH):
            numbers = np.array(self.order[at : at + BATCH])
            start_a, length_a, start_b, length_b, labels, ends = pairs[
                numbers
            ].T
            begins = np.where(numbers > 0, pairs[numbers - 1, 5], 0)
            input_ids, _ = lay_out(
                self._corpus.tokens,
                start_a,
                length_a,
                start_b,
                length_b,
                settings.max_seq_length,
                vocabulary.cls_id,
                vocabulary.sep_id,
            )
            counts = ends - begins
            positions, replacements = self._padded_predictions(begins, counts)
            is_kept = replacements == _KEPT
            originals = np.take_along_axis(input_ids, positions, 1)
            replacements = np.where(is_kept, originals, replacements)
            originals = apply_masks(input_ids, positions, replacements, counts)
            lengths = length_a + length_b + 3
            self._statistics.add_instances(
                lengths, labels, settings.max_seq_length
            )
            self._statistics.add_masks(
                counts, originals, replacements, vocabulary.mask_id
            )
            yield encoder.static(
                input_ids,
                length_a,
                lengths,
                labels,
                positions,
                originals,
                counts,
            )

    def _padded_predictions(
        self, begins: np.ndarray, counts: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Positions and new ids, [n, P], padded with 0."""
        slots = np.arange(self._settings.max_predictions_per_seq)
        predictions = np.frombuffer(self._predictions, np.int64)
        packed = predictions.take(begins[:, None] + slots, mode="clip")
        packed *= slots < counts[:, None]
        return packed >> 32, packed & _ID


def _take_words(words: list[list[int]], wanted: int) -> list[int]:
    """Positions of words in order, those that would overshoot passed over."""
    chosen: list[int] = []
    for word in words:
        if len(chosen) >= wanted:
            break
        if len(chosen) + len(word) <= wanted:
            chosen += word
    return chosen
