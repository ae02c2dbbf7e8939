"""Pre-training data from a corpus of any size, in bounded memory.

Three steps, each cut into tasks that any process can do:

1. Text is tokenized once, into parts: memory-mapped arrays of tokens with
   the places of sentences and documents.
2. Documents become instances, document by document, a stream of random
   numbers for each document and pass. Instances go to disk in runs sorted by
   a random key.
3. Runs are merged range by range of that key, which is a shuffle of all
   instances; masks are drawn, records written.

The records depend on settings and input only. A start that finds the work of
a killed one goes on from there.
"""

import bisect
import dataclasses
import hashlib
import logging
import os
import tempfile
from typing import Any, NamedTuple

import numpy as np

from bert_tf import files, records
from bert_tf.pretraining_corpus import (
    check_encoding,
    file_size,
    part_bytes,
    plan_parts,
)
from bert_tf.pretraining_pool import TaskPool, default_workers
from bert_tf.pretraining_settings import PretrainingDataSettings
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_workers import Segment, Shard, Unit, Worker
from bert_tf.pretraining_workspace import Workspace

_log = logging.getLogger("bert_tf")

_MIB = 1 << 20
# A process holds a run in memory; very many runs would be slow to merge.
_MOST_RUNS, _SMALLEST_RUN, _LARGEST_RUN = 2048, _MIB, 256 * _MIB
# So it does a segment, and its records, which are three times as large.
_MOST_SEGMENTS, _SMALLEST_SEGMENT, _LARGEST_SEGMENT = 4096, _MIB // 2, 32 * _MIB
# Truncation and texts put back make more instances than tokens / S.
_INSTANCES_PER_TOKENS = 1.4
_KEYS = 1 << 64
_COPIED = 1 << 16

# What the records do not depend on.
_FREE = ("num_workers", "work_dir", "dry_run", "mode", "auto_threshold_mb")


class StreamingResult(NamedTuple):
    """What was made.

    Attributes:
      statistics: all counts.
      shards: number of records by output file.
      input_hashes: SHA-256 by input file.
      work_dir: folder of temporary files, to be deleted when all is done.
    """

    statistics: Statistics
    shards: dict[str, int]
    input_hashes: dict[str, str]
    work_dir: str


def create_streaming(
    settings: PretrainingDataSettings, paths: list[str], vocab_sha256: str
) -> StreamingResult:
    """Makes pre-training data in bounded memory.

    Args:
      settings: what is asked for; `encoding_errors` resolved.
      paths: text files.
      vocab_sha256: hash of the vocabulary file.

    Raises:
      ValueError: the text is no UTF-8.
    """
    if settings.dry_run:
        with tempfile.TemporaryDirectory() as folder:
            work_dir = os.path.join(folder, "work")
            return _Streaming(settings, paths, vocab_sha256, work_dir).create()
    work_dir = settings.work_dir or _default_work_dir(settings)
    streaming = _Streaming(settings, paths, vocab_sha256, work_dir)
    try:
        return streaming.create()
    except ValueError:
        # The input or a flag must change, and then nothing here is of use.
        streaming.discard()
        raise


def _default_work_dir(settings: PretrainingDataSettings) -> str:
    """Hidden, so that a pattern for the records does not find it."""
    folder, name = os.path.split(settings.output_paths()[0])
    if files.is_remote(folder):
        digest = hashlib.sha256(settings.output_file.encode()).hexdigest()
        return os.path.join(tempfile.gettempdir(), f"bert_tf-{digest[:16]}")
    return os.path.join(folder, f".{name}.work")


def _clamp(value: float, low: int, high: int) -> int:
    return int(max(low, min(value, high)))


def _changed(path: str) -> int:
    """When a local file was changed last."""
    return 0 if files.is_remote(path) else os.stat(path).st_mtime_ns


class _Streaming:
    def __init__(
        self,
        settings: PretrainingDataSettings,
        paths: list[str],
        vocab_sha256: str,
        work_dir: str,
    ):
        self._settings = settings
        self._paths = paths
        self._workspace = Workspace(work_dir)
        self._sizes = [(path, file_size(path)) for path in paths]
        self._fingerprint = {
            "settings": {
                key: value
                for key, value in dataclasses.asdict(settings).items()
                if key not in _FREE
            },
            "vocab_sha256": vocab_sha256,
            "inputs": [[*size, _changed(size[0])] for size in self._sizes],
        }

    def discard(self) -> None:
        """Deletes the temporary files, if they are ours."""
        if self._workspace.load("plan") is not None:
            self._workspace.remove()

    def create(self) -> StreamingResult:
        """Does all three steps."""
        settings, workspace = self._settings, self._workspace
        if workspace.prepare(self._fingerprint):
            _log.info("going on with the work found in %s", workspace.path)
        text_bytes = sum(size for _, size in self._sizes)
        parts = plan_parts(self._sizes, part_bytes(text_bytes))
        arguments = (settings, workspace.path, parts)
        worker = Worker(*arguments)
        num_workers = settings.num_workers or default_workers()
        with TaskPool(num_workers, worker, arguments) as pool:
            # One process reads a large file while the others tokenize.
            hashes = pool.run(
                "hash_file", ((p,) for p in self._paths), "hashes"
            )
            statistics = self._do(
                pool,
                "tokenize_part",
                {f"part-{part:05d}": (part,) for part in range(len(parts))},
                "reading text",
            )
            check_encoding(statistics)
            shards: dict[str, int] = {}
            if statistics.counts["documents"]:
                units, capacity = self._plan_units(worker, statistics)
                tasks = {
                    f"unit-{unit.number:06d}": (unit, capacity)
                    for unit in units
                }
                statistics.merge(
                    self._do(pool, "build_unit", tasks, "cutting documents")
                )
                if not settings.dry_run and statistics.counts["instances"]:
                    planned = self._plan_shards(worker, len(units))
                    shards = self._write(pool, worker, planned, statistics)
            input_hashes = dict(zip(self._paths, hashes, strict=True))
        return StreamingResult(
            statistics,
            shards,
            input_hashes,
            workspace.path,
        )

    def _do(
        self, pool: TaskPool, method: str, tasks: dict[str, tuple], what: str
    ) -> Statistics:
        """Does those tasks that are not done; the statistics of all.

        Args:
          pool: does them.
          method: of `Worker`.
          tasks: arguments by the name under which a result is saved.
          what: the tasks, for the log.
        """
        results = {name: self._workspace.load(name) for name in tasks}
        missing = [name for name in tasks if results[name] is None]
        _log.info(
            "%s: %d tasks, %d done", what, len(tasks), len(tasks) - len(missing)
        )
        done = pool.run(method, (tasks[name] for name in missing), what)
        results.update(zip(missing, done, strict=True))
        return Statistics.total(
            Statistics.from_json(result["statistics"])
            for result in results.values()
        )

    def _plan_units(
        self, worker: Worker, statistics: Statistics
    ) -> tuple[list[Unit], int]:
        """Cuts the documents into tasks; also the rows held by a process."""
        settings, corpus = self._settings, worker.corpus()
        row_bytes = worker.row_dtype.itemsize
        per_token = (
            _INSTANCES_PER_TOKENS
            * settings.dupe_factor
            / settings.max_num_tokens
        )
        expected = statistics.counts["tokens"] * per_token
        run_bytes = _clamp(
            expected * row_bytes / _MOST_RUNS, _SMALLEST_RUN, _LARGEST_RUN
        )
        capacity = max(1, run_bytes // row_bytes)
        _log.info(
            "about %d instances, %.1f MB of temporary files",
            expected,
            expected * (row_bytes + 8) / 1e6,
        )
        cuts = corpus.cut(max(1, int(capacity / per_token)))
        corpus.release()
        return [Unit(number, *cut) for number, cut in enumerate(cuts)], capacity

    def _plan_shards(self, worker: Worker, num_units: int) -> list[Shard]:
        """Ranges of keys for each output file, of the same size but one."""
        names: list[str] = []
        for number in range(num_units):
            names += self._workspace.load(f"unit-{number:06d}")["runs"]
        self._workspace.save("runs", names)
        runs = worker.runs()
        counts = [run.count for run in runs]
        total = sum(counts)
        size = total * worker.row_dtype.itemsize
        segment_bytes = _clamp(
            size / _MOST_SEGMENTS, _SMALLEST_SEGMENT, _LARGEST_SEGMENT
        )
        num_segments = -(-size // segment_bytes)
        edges = np.array(
            [i * _KEYS // num_segments for i in range(num_segments)], np.uint64
        )
        bounds = np.empty((num_segments + 1, len(runs)), np.int64)
        for column, run in enumerate(runs):
            bounds[:-1, column] = run.below(edges)
        bounds[-1] = counts
        self._workspace.save_bounds(bounds)
        ranks = bounds.sum(1).tolist()
        paths = self._settings.output_paths()
        shards = []
        for number, path in enumerate(paths):
            begin = number * total // len(paths)
            end = (number + 1) * total // len(paths)
            segments = []
            at = bisect.bisect_right(ranks, begin) - 1
            while begin < end:
                stop = min(end, ranks[at + 1])
                if stop > begin:
                    segments.append(
                        Segment(at, begin - ranks[at], stop - ranks[at])
                    )
                begin, at = stop, at + 1
            shards.append(Shard(number, path, segments))
        return shards

    def _write(
        self,
        pool: TaskPool,
        worker: Worker,
        shards: list[Shard],
        statistics: Statistics,
    ) -> dict[str, int]:
        """Step 3; returns the number of records by file."""
        finished: dict[int, dict[str, Any]] = {}
        for shard in shards:
            done = self._workspace.load(f"shard-{shard.number:05d}")
            if done is not None and files.exists(shard.path):
                finished[shard.number] = done
        missing = [s for s in shards if s.number not in finished]
        _log.info("writing %d files, %d done", len(shards), len(finished))
        if len(missing) >= pool.num_workers:
            done = pool.run("write_shard", ((s,) for s in missing), "files")
        else:
            done = (
                self._write_together(pool, worker, shard) for shard in missing
            )
        finished.update(zip((s.number for s in missing), done, strict=True))
        for number in sorted(finished):
            statistics.merge(
                Statistics.from_json(finished[number]["statistics"])
            )
        return {
            shard.path: finished[shard.number]["records"] for shard in shards
        }

    def _write_together(
        self, pool: TaskPool, worker: Worker, shard: Shard
    ) -> dict[str, Any]:
        """All processes encode records of one file, which is written here."""
        statistics = Statistics()
        with records.RecordWriter(
            shard.path, self._settings.compression or None
        ) as writer:
            paths = [
                self._workspace.segment_file(number)
                for number in range(len(shard.segments))
            ]
            tasks = list(zip(shard.segments, paths, strict=True))
            done = pool.run("encode_segment", tasks, shard.path)
            for path, result in zip(paths, done, strict=True):
                writer.write_framed(files.read_bytes(path), result["records"])
                os.remove(path)
                statistics.merge(Statistics.from_json(result["statistics"]))
        return worker.finish_shard(shard, writer.count, statistics)
