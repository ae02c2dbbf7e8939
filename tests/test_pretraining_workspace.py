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


def test_runs_are_sorted_and_read_by_key(tmp_path):
    workspace = Workspace(str(tmp_path / "work"))
    workspace.prepare({})
    rng = np.random.default_rng(0)
    keys = rng.integers(0, 1 << 63, 10_000, np.uint64) * np.uint64(2)
    dtype = np.dtype([("a", "<u2"), ("b", "u1", 3)])
    rows = np.zeros(10_000, dtype)
    rows["a"] = np.arange(10_000)
    run = workspace.run(workspace.save_run("unit-000000-0", keys, rows))
    assert run.count == 10_000
    order = np.argsort(keys)
    low, high = int(keys[order[200]]), int(keys[order[300]])
    assert run.between(low, high) == (200, 301)
    assert run.between(0, (1 << 64) - 1) == (0, 10_000)
    assert run.below(np.array([0, low, high], np.uint64)).tolist() == [
        0,
        200,
        300,
    ]
    found_keys, found = run.read(200, 301, dtype)
    assert (found_keys == keys[order[200:301]]).all()
    assert (found["a"] == order[200:301]).all()


def test_an_empty_run(tmp_path):
    workspace = Workspace(str(tmp_path / "work"))
    workspace.prepare({})
    run = workspace.run(
        workspace.save_run("u", np.zeros(0, np.uint64), np.zeros(0, "<u2"))
    )
    assert run.count == 0 and run.between(0, 5) == (0, 0)
    assert run.below(np.zeros(2, np.uint64)).tolist() == [0, 0]
