"""Files of a run in the making."""

import os

import numpy as np
import pytest

from bert_tf.pretraining_corpus import CorpusBuilder
from bert_tf.pretraining_workspace import Workspace


def test_prepare_keeps_own_work_only(tmp_path, caplog):
    workspace = Workspace(str(tmp_path / "work"))
    assert workspace.prepare({"seed": 1}) is False
    workspace.save("part-00000", {"sizes": [1]})
    assert workspace.prepare({"seed": 1}) is True
    assert workspace.load("part-00000") == {"sizes": [1]}
    assert workspace.prepare({"seed": 2}) is False
    assert workspace.load("part-00000") is None
    assert "starting afresh" in caplog.text
    workspace.remove()
    assert not (tmp_path / "work").exists()


def test_prepare_never_deletes_files_of_others(tmp_path):
    (tmp_path / "thesis.txt").write_text("x")
    with pytest.raises(ValueError, match="holds other files"):
        Workspace(str(tmp_path)).prepare({})
    assert (tmp_path / "thesis.txt").exists()


@pytest.mark.parametrize("words", [False, True])
@pytest.mark.parametrize("vocab_size", [100, 100_000])
def test_a_part_comes_back_as_written(tmp_path, words, vocab_size):
    workspace = Workspace(str(tmp_path / "work"))
    workspace.prepare({})
    builder = CorpusBuilder(vocab_size, words)
    for size in (3, 1, 5):
        builder.add_sentence(range(size), [1] * size)
        builder.end_document()
    expected = [array.copy() for array in builder.corpus()[: 3 + words]]
    paths = workspace.part_files(0, words)
    streams = [open(workspace.temporary(path), "wb") for path in paths]  # noqa: SIM115
    builder.flush(streams)
    for stream in streams:
        stream.close()
    workspace.finish_part(paths)
    corpus = workspace.open_part(0, [9, 3, 3], expected[0].dtype, words)
    for found, array in zip(corpus, expected, strict=False):
        np.testing.assert_array_equal(found, array)
    assert (corpus.word_starts is not None) == words
    scattered = workspace.open_part(
        0, [9, 3, 3], expected[0].dtype, words, is_scattered=True
    )
    for found, array in zip(scattered, expected, strict=False):
        assert len(found) == len(array)
        np.testing.assert_array_equal(found[1:3], array[1:3])
        np.testing.assert_array_equal(found[2:100], array[2:])
        assert found[1:3].dtype == array.dtype
    workspace.release()
    assert corpus.tokens[4:].tolist() == [0, 1, 2, 3, 4]
    left = set(os.listdir(workspace.path)) - {"plan.json"}
    assert left == {os.path.basename(path) for path in (paths[0], *paths[3:])}


def test_runs_are_sorted_and_read_by_rank(tmp_path):
    workspace = Workspace(str(tmp_path / "work"))
    workspace.prepare({})
    rng = np.random.default_rng(0)
    rows = np.zeros(10_000, [("key", "<u8"), ("a", "<u2"), ("b", "u1", 3)])
    rows["key"] = rng.integers(0, 1 << 63, 10_000, np.uint64) * np.uint64(2)
    rows["a"] = np.arange(10_000)
    workspace.save_run("unit-000000-0", rows)
    run = workspace.run("unit-000000-0", rows.dtype)
    assert run.count == 10_000
    ordered = rows[np.argsort(rows["key"])]
    edges = np.array([0, *ordered["key"][[200, 300]]], np.uint64)
    assert run.below(edges).tolist() == [0, 200, 300]
    assert (run.read(200, 301) == ordered[200:301]).all()
    assert set(os.listdir(workspace.path)) == {"plan.json", "unit-000000-0"}


def test_bounds_there_and_back(tmp_path):
    workspace = Workspace(str(tmp_path / "work"))
    workspace.prepare({})
    bounds = np.arange(12).reshape(4, 3)
    workspace.save_bounds(bounds)
    assert (workspace.load_bounds() == bounds).all()
    assert set(os.listdir(workspace.path)) == {"plan.json", "bounds.npy"}
