"""Tasks of streaming mode, here and in processes."""

import os
import signal

import numpy as np
import pytest
from pretraining_text import make_settings, make_text, write_vocab

from bert_tf import records
from bert_tf.pretraining_corpus import TextRange, file_size, sha256_of
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_workers import (
    Segment,
    Shard,
    TaskPool,
    Unit,
    Worker,
    default_workers,
)
from bert_tf.pretraining_workspace import Workspace


@pytest.fixture
def worker(tmp_path):
    write_vocab(tmp_path)
    parts = []
    for number in range(3):
        path = tmp_path / f"text{number}"
        path.write_text(make_text(6, seed=number))
        parts.append([TextRange(str(path), 0, file_size(str(path)))])
    work_dir = str(tmp_path / "work")
    Workspace(work_dir).prepare({})
    arguments = (make_settings(tmp_path), work_dir, parts)
    return Worker(*arguments), arguments


def test_three_steps(worker, tmp_path):
    worker, (_, work_dir, _) = worker
    workspace = Workspace(work_dir)
    for part in range(3):
        done = worker.tokenize_part(part)
        assert done == workspace.load(f"part-0000{part}")
        assert done["statistics"]["counts"]["documents"] == 6
    assert worker.corpus().num_documents == 18
    counts = [
        worker.build_unit(Unit(number, *bounds), 50)["statistics"]["counts"]
        for number, bounds in enumerate([(0, 5), (5, 18)])
    ]
    total = sum(each["instances"] for each in counts)
    names = [
        name
        for number in range(2)
        for name in workspace.load(f"unit-00000{number}")["runs"]
    ]
    workspace.save("runs", names)
    sizes = [run.count for run in worker.runs()]
    assert sum(sizes) == total
    # A run is handed over when 50 rows are full.
    assert max(sizes) == 50 and len(sizes) >= total / 50

    # Two ranges of keys, cut at their middle.
    middle = [
        run.below(np.array([1 << 63], np.uint64)) for run in worker.runs()
    ]
    workspace.save_bounds(
        np.stack([np.zeros(len(sizes), int), np.ravel(middle), sizes])
    )
    half = int(np.sum(middle))
    halves = [Segment(0, 0, half), Segment(1, 0, total - half)]
    shard = Shard(0, str(tmp_path / "out"), halves)
    done = worker.write_shard(shard)
    assert done["records"] == total
    assert done == workspace.load("shard-00000")
    counts = Statistics.from_json(done["statistics"]).counts
    assert counts["masked"] > total
    written = list(records.read_records(shard.path))
    assert len(written) == total
    # Pieces of the same ranges, as several processes write them.
    parts = []
    for segment in (Segment(0, 0, 10), Segment(0, 10, half), halves[1]):
        path = workspace.segment_file(0)
        size = segment.end - segment.begin
        assert worker.encode_segment(segment, path)["records"] == size
        parts += records.read_records(path)
    assert parts == written
    assert not [name for name in os.listdir(work_dir) if name.endswith(".tmp")]


@pytest.mark.parametrize("num_workers", [1, 2])
def test_results_come_in_order(worker, num_workers, tmp_path):
    worker, arguments = worker
    paths = []
    for number in range(9):
        path = tmp_path / f"file{number}"
        path.write_text("x" * (9 - number) * 10_000)
        paths.append(str(path))
    with TaskPool(num_workers, worker, arguments) as pool:
        found = list(pool.run("hash_file", ((p,) for p in paths), "files"))
    assert found == [sha256_of(path) for path in paths]


def test_an_error_of_a_task_is_that_of_the_run(worker):
    worker, arguments = worker
    with (
        TaskPool(2, worker, arguments) as pool,
        pytest.raises(FileNotFoundError, match="nowhere"),
    ):
        list(pool.run("hash_file", [("nowhere",)], "files"))


def test_a_killed_process_is_an_error_not_a_hang(worker, tmp_path):
    worker, arguments = worker
    with TaskPool(2, worker, arguments) as pool:
        task = (str(tmp_path / "text0"),)
        assert len(list(pool.run("hash_file", [task], "files"))) == 1
        for process in list(pool._executor._processes.values()):
            os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="fewer --num_workers"):
            list(pool.run("hash_file", [task] * 20, "files"))


def test_default_workers_are_the_cores():
    assert 1 <= default_workers() <= (os.cpu_count() or 1)
