"""Tasks of streaming mode.

A task's result depends on its arguments and on files of the workspace, never
on what the process did before.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bert_tf import records
from bert_tf.pretraining_corpus import (
    Corpus,
    CorpusBuilder,
    TextRange,
    TextReader,
    count_text,
    sha256_of,
    token_dtype,
)
from bert_tf.pretraining_instances import CorpusParts, InstanceBuilder
from bert_tf.pretraining_rows import InstanceRows, RowEncoder, row_dtype
from bert_tf.pretraining_settings import PretrainingDataSettings
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_vocabulary import (
    Vocabulary,
    load_segmenter,
    load_tokenizer,
    make_tokenize,
)
from bert_tf.pretraining_workspace import Run, Workspace

# Tokens held in memory while text is read.
_TOKENS_HELD = 1 << 19


class Unit(NamedTuple):
    """Documents `first` to `end` of the whole corpus, in all passes."""

    number: int
    first: int
    end: int


class Segment(NamedTuple):
    """Part of a shard, within a range of keys.

    Attributes:
      number: of the range of keys.
      begin: rank, among the instances of that range, of the first.
      end: rank after the last.
    """

    number: int
    begin: int
    end: int


class Shard(NamedTuple):
    """One output file."""

    number: int
    path: str
    segments: list[Segment]


class Worker:
    """Does tasks; every process has one.

    Args:
      settings: what is asked for.
      work_dir: folder of the workspace.
      parts: text of each part.
    """

    def __init__(
        self,
        settings: PretrainingDataSettings,
        work_dir: str,
        parts: list[list[TextRange]],
    ):
        self._settings = settings
        self._workspace = Workspace(work_dir)
        self._parts = parts
        tokenizer = load_tokenizer(settings.vocab_file, settings.do_lower_case)
        self.vocabulary = Vocabulary.of(tokenizer)
        self._with_words = bool(settings.word_segmenter)
        self._token_dtype = token_dtype(self.vocabulary.size)
        self.row_dtype = row_dtype(
            settings.max_seq_length, self._token_dtype, self._with_words
        )
        self._tokenize = make_tokenize(
            tokenizer,
            load_segmenter(settings.word_segmenter),
            settings.word_segmenter,
        )
        self._encoder = RowEncoder(settings, self.vocabulary)
        self._corpus: CorpusParts | None = None
        self._rows: InstanceRows | None = None
        self._merged: tuple[list[Run], np.ndarray] | None = None

    def hash_file(self, path: str) -> str:
        """SHA-256 of an input file."""
        return sha256_of(path)

    def tokenize_part(self, part: int) -> dict[str, Any]:
        """Step 1: text of a part -> arrays on disk."""
        statistics = Statistics()
        reader = TextReader(
            self._tokenize,
            statistics,
            self._settings.encoding_errors == "ignore",
        )
        builder = CorpusBuilder(self.vocabulary.size, self._with_words)
        paths = self._workspace.part_files(part, self._with_words)
        flushed = 0
        with contextlib.ExitStack() as stack:
            streams = [
                stack.enter_context(open(self._workspace.temporary(path), "wb"))
                for path in paths
            ]
            for text in self._parts[part]:
                for _ in reader.read(text, builder):
                    if builder.num_tokens - flushed > _TOKENS_HELD:
                        flushed = builder.num_tokens
                        builder.flush(streams)
                # A document never goes on in another file.
                builder.end_document()
            builder.flush(streams)
        self._workspace.finish_part(paths)
        sizes = builder.sizes()
        count_text(
            self._open_part(part, sizes), self.vocabulary.unk_id, statistics
        )
        self._workspace.forget()
        done = {"sizes": sizes, "statistics": statistics.to_json()}
        self._workspace.save(f"part-{part:05d}", done)
        return done

    def _open_part(
        self, part: int, sizes: list[int], is_scattered: bool = False
    ) -> Corpus:
        return self._workspace.open_part(
            part, sizes, self._token_dtype, self._with_words, is_scattered
        )

    def corpus(self) -> CorpusParts:
        """All parts, mapped into memory."""
        if self._corpus is None:
            sizes = [
                self._workspace.load(f"part-{part:05d}")["sizes"]
                for part in range(len(self._parts))
            ]
            self._corpus = CorpusParts(
                [self._open_part(*part) for part in enumerate(sizes)],
                release=self._workspace.release,
                scattered=[
                    self._open_part(*part, is_scattered=True)
                    for part in enumerate(sizes)
                ],
            )
        return self._corpus

    def build_unit(self, unit: Unit, capacity: int) -> dict[str, Any]:
        """Step 2: documents -> sorted runs of at most `capacity` instances."""
        settings, corpus = self._settings, self.corpus()
        name = f"unit-{unit.number:06d}"
        statistics = Statistics()
        builder = InstanceBuilder(corpus, settings, statistics)
        if self._rows is None:
            self._rows = InstanceRows(self.row_dtype, capacity)
        runs: list[str] = []
        for passing in range(settings.dupe_factor):
            for index in range(unit.first, unit.end):
                for _ in builder.add_document(index, passing, self._rows):
                    self._save_run(f"{name}-{len(runs)}", runs, statistics)
        if len(self._rows):
            self._save_run(f"{name}-{len(runs)}", runs, statistics)
        corpus.release()
        done = {"runs": runs, "statistics": statistics.to_json()}
        self._workspace.save(name, done)
        return done

    def _save_run(
        self, name: str, runs: list[str], statistics: Statistics
    ) -> None:
        rows = self._rows.take()
        lengths = rows["length_a"].astype(np.int64) + rows["length_b"] + 3
        statistics.add_instances(
            lengths, rows["label"], self._settings.max_seq_length
        )
        if self._settings.dry_run:
            self._encoder.count_masks(rows, statistics)
        else:
            self._workspace.save_run(name, rows)
            runs.append(name)

    def runs(self) -> list[Run]:
        """What step 2 left, in order."""
        return [
            self._workspace.run(name, self.row_dtype)
            for name in self._workspace.load("runs")
        ]

    def _records(
        self, segment: Segment, statistics: Statistics
    ) -> Iterator[tuple[bytes, int]]:
        """Framed records of a segment, and how many they are."""
        if self._merged is None:
            self._merged = self.runs(), self._workspace.load_bounds()
        runs, bounds = self._merged
        begins, ends = bounds[segment.number : segment.number + 2].tolist()
        parts = [
            run.read(begin, end)
            for run, begin, end in zip(runs, begins, ends, strict=True)
            if end > begin
        ]
        rows = np.concatenate(parts)
        del parts
        order = np.argsort(rows["key"], kind="stable")
        rows = rows[order[segment.begin : segment.end]]
        for batch in self._encoder.encode(rows, statistics):
            yield b"".join(map(records.frame_record, batch)), len(batch)

    def encode_segment(self, segment: Segment, path: str) -> dict[str, Any]:
        """Step 3, a part of a shard: writes its framed records to a file."""
        statistics = Statistics()
        written = 0
        with open(path, "wb") as stream:
            for data, count in self._records(segment, statistics):
                stream.write(data)
                written += count
        return {"records": written, "statistics": statistics.to_json()}

    def write_shard(self, shard: Shard) -> dict[str, Any]:
        """Step 3, a whole shard: writes the file."""
        statistics = Statistics()
        with records.RecordWriter(
            shard.path, self._settings.compression or None
        ) as writer:
            for segment in shard.segments:
                for data, count in self._records(segment, statistics):
                    writer.write_framed(data, count)
        return self.finish_shard(shard, writer.count, statistics)

    def finish_shard(
        self, shard: Shard, count: int, statistics: Statistics
    ) -> dict[str, Any]:
        """Notes that a shard's file is complete."""
        done = {"records": count, "statistics": statistics.to_json()}
        self._workspace.save(f"shard-{shard.number:05d}", done)
        return done
