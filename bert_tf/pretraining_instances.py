"""Documents -> instances in streaming mode: a stream of numbers for each.

What a document becomes in a pass depends on (seed, pass, document) and on
the corpus, never on what was done before, so that any process may do it.
Instances are rows of fixed size; masks come later, by the row's key.
"""

import bisect
import random
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from bert_tf.pretraining_corpus import Corpus
from bert_tf.pretraining_draws import GAMMA, stream_key
from bert_tf.pretraining_rows import InstanceRows
from bert_tf.pretraining_settings import PretrainingDataSettings
from bert_tf.pretraining_statistics import Statistics

# Sentence ends looked at first when a random text is taken.
_WINDOW = 8
# Sentence ends held of a document.
_HELD = 4096
_64 = (1 << 64) - 1


class CorpusParts:
    """A corpus in parts, its documents numbered through.

    Args:
      parts: at least one document together.
      numbers: for each document a number that stays the same however the
        work is divided; part and place in it by default.
      release: called now and then to give memory-mapped pages back.
      scattered: the same parts for reading here and there, if that is done
        by other means than reading on and on.
    """

    def __init__(
        self,
        parts: Sequence[Corpus],
        numbers: Sequence[int] | None = None,
        release: Callable[[], None] = lambda: None,
        scattered: Sequence[Corpus] | None = None,
    ):
        self._parts = parts
        self._scattered = parts if scattered is None else scattered
        self._numbers = numbers
        self.release = release
        self.first_document = [0]
        for part in parts:
            self.first_document.append(
                self.first_document[-1] + part.num_documents
            )
        self.num_documents = self.first_document[-1]

    def cut(self, num_tokens: int) -> list[tuple[int, int]]:
        """Ranges of documents with at least `num_tokens` tokens each.

        A range ends with the document that has the last token wanted; what
        is left over makes the last range.
        """
        ranges: list[tuple[int, int]] = []
        begin = held = 0
        for part, first in zip(self._parts, self.first_document, strict=False):
            ends = part.sentences[part.documents[1:]]
            start = 0
            while len(ends) and start + num_tokens - held <= ends[-1]:
                last = int(np.searchsorted(ends, start + num_tokens - held))
                ranges.append((begin, first + last + 1))
                begin, start, held = first + last + 1, int(ends[last]), 0
            held += int(ends[-1]) - start if len(ends) else 0
            self.release()
        if begin < self.num_documents:
            ranges.append((begin, self.num_documents))
        return ranges

    def locate(
        self, index: int, is_scattered: bool = False
    ) -> tuple[Corpus, int, int]:
        """Part of a document, its first sentence, and where it ends."""
        part = bisect.bisect_right(self.first_document, index) - 1
        corpus = (self._scattered if is_scattered else self._parts)[part]
        local = index - self.first_document[part]
        first, end = corpus.documents[local : local + 2].tolist()
        return corpus, first, end

    def number(self, index: int) -> int:
        """The lasting number of a document."""
        if self._numbers is not None:
            return self._numbers[index]
        part = bisect.bisect_right(self.first_document, index) - 1
        return part << 32 | index - self.first_document[part]


class InstanceBuilder:
    """Cuts documents into instances.

    Args:
      parts: the corpus.
      settings: lengths, chances and seed.
      statistics: gets the counts.
    """

    def __init__(
        self,
        parts: CorpusParts,
        settings: PretrainingDataSettings,
        statistics: Statistics,
    ):
        self._parts = parts
        self._settings = settings
        self._counts = statistics.counts
        self._rng = random.Random()
        # With one document every "random" text would be its own.
        self._is_alone = parts.num_documents == 1

    def add_document(
        self, index: int, passing: int, rows: InstanceRows
    ) -> Iterator[None]:
        """Adds a document's instances; yields whenever `rows` is full.

        Args:
          index: of the document in the corpus.
          passing: number of the pass.
          rows: where instances go.
        """
        parts, settings, rng = self._parts, self._settings, self._rng
        stream = stream_key(settings.random_seed, passing, parts.number(index))
        rng.seed(stream)
        corpus, first, last = parts.locate(index)
        target = self._target_length(passing, parts.number(index))
        # Only a window of the sentences' places: a document may be as large
        # as the corpus. A chunk has S sentences at most.
        at: list[int] = []
        sentence = number = 0
        reach = settings.max_seq_length + 1
        while first + sentence < last:
            if sentence + reach >= len(at) and first + len(at) <= last:
                first, sentence = first + sentence, 0
                end = min(first + reach + _HELD, last + 1)
                at = corpus.sentences[first:end].tolist()
            stop = bisect.bisect_left(
                at, at[sentence] + target, sentence + 1, len(at) - 1
            )
            if self._is_alone and stop == sentence + 1:
                if first + stop == last:
                    self._counts["chunks_without_pair"] += 1
                    break
                stop += 1
            size = stop - sentence
            split = sentence + 1 + int(rng.random() * (size - 1))
            range_a = at[sentence], at[split]
            is_random = size == 1 or (not self._is_alone and rng.random() < 0.5)
            if is_random:
                corpus_b, range_b = self._random_text(
                    index, target - (range_a[1] - range_a[0])
                )
                # What the first text does not use is put back.
                sentence = split
            else:
                corpus_b, range_b = corpus, (at[split], at[stop])
                sentence = stop
            range_a, range_b = self._truncate(range_a, range_b)
            rows.add(
                stream, number, corpus, range_a, corpus_b, range_b, is_random
            )
            number += 1
            if rows.is_full:
                yield

    def _target_length(self, passing: int, number: int) -> int:
        """Length that instances of a document are cut to in a pass.

        Each document and pass has the original's chances, but the draws are
        multiples of the golden ratio from a random start, which spread evenly
        over documents and passes: the share of short instances of a small
        corpus would otherwise vary much from seed to seed.
        """
        settings = self._settings
        step = number * settings.dupe_factor + passing
        bits = stream_key(settings.random_seed) + step * GAMMA & _64
        chance, room = bits / (1 << 64), settings.max_num_tokens
        if chance >= settings.short_seq_prob:
            return room
        part = chance / settings.short_seq_prob
        return min(room, 2 + int(part * (room - 1)))

    def _random_text(
        self, index: int, wanted: int
    ) -> tuple[Corpus, tuple[int, int]]:
        """Tokens of sentences from another document, never from this one."""
        other = int(self._rng.random() * (self._parts.num_documents - 1))
        other += other >= index
        corpus, first, end = self._parts.locate(other, is_scattered=True)
        start = first + int(self._rng.random() * (end - first))
        window = _WINDOW
        while True:
            stop = min(start + window, end)
            at = corpus.sentences[start : stop + 1].tolist()
            if stop == end or at[-1] - at[0] >= wanted:
                break
            window *= 4
        stop = bisect.bisect_left(at, at[0] + wanted, 1, len(at) - 1)
        return corpus, (at[0], at[stop])

    def _truncate(
        self, range_a: tuple[int, int], range_b: tuple[int, int]
    ) -> tuple[tuple[int, int], tuple[int, int]]:
        """Drops tokens of the longer text, b when both are as long.

        Each dropped token is the first or the last with equal chance, so the
        number dropped from the front is binomial: the sum of random bits.
        """
        (start_a, stop_a), (start_b, stop_b) = range_a, range_b
        length_a, length_b = stop_a - start_a, stop_b - start_b
        excess = length_a + length_b - self._settings.max_num_tokens
        if excess <= 0:
            return range_a, range_b
        self._counts["truncated_instances"] += 1
        self._counts["truncated_tokens"] += excess
        from_longer = min(excess, abs(length_a - length_b))
        rest = excess - from_longer
        cut_a, cut_b = rest // 2, (rest + 1) // 2
        if length_a > length_b:
            cut_a += from_longer
        else:
            cut_b += from_longer
        bits = self._rng.getrandbits
        front_a = bits(cut_a).bit_count() if cut_a else 0
        front_b = bits(cut_b).bit_count() if cut_b else 0
        return (
            (start_a + front_a, stop_a - cut_a + front_a),
            (start_b + front_b, stop_b - cut_b + front_b),
        )
