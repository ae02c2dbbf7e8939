"""Tasks of streaming mode."""

import os

import numpy as np
import pytest
from pretraining_text import make_settings, make_text, write_vocab

from bert_tf import records
from bert_tf.pretraining_corpus import TextRange, file_size
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_workers import Segment, Shard, Unit, Worker
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
