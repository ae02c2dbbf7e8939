"""The place in the training data that a checkpoint remembers."""

import logging
import pathlib

import pytest

from bert_tf.data_position import DataPosition


@pytest.fixture
def paths(tmp_path):
    found = []
    for i in range(2):
        path = tmp_path / f"part-{i}"
        path.write_bytes(bytes(10 + i))
        found.append(str(path))
    return found


def test_the_same_data_are_gone_on_with(paths):
    position = DataPosition(paths, 1, None, batch_size=4)
    assert position.resume(0, None) == 0
    saved = position.sidecar(10)
    again = DataPosition(paths, 1, None, batch_size=8)
    assert again.resume(10, saved) == 40
    assert DataPosition(paths, 1, None, 4).resume(13, again.sidecar(13)) == 64


def test_a_moved_folder_holds_the_same_data(paths, tmp_path):
    saved = DataPosition(paths, 1, None, 4).sidecar(10)
    moved = []
    (tmp_path / "moved").mkdir()
    for path in paths:
        name = path.rsplit("/")[-1]
        copy = tmp_path / "moved" / name
        copy.write_bytes(pathlib.Path(path).read_bytes())
        moved.append(str(copy))
    assert DataPosition(moved, 1, None, 4).resume(10, saved) == 40


@pytest.mark.parametrize("change", ["seed", "buffer", "files", "size", "none"])
def test_other_data_or_another_order_start_at_the_beginning(
    paths, change, caplog
):
    saved = DataPosition(paths, 1, 100, 4).sidecar(10)
    if change == "size":
        with open(paths[0], "ab") as stream:
            stream.write(b"more")
    position = DataPosition(
        paths[:1] if change == "files" else paths,
        2 if change == "seed" else 1,
        200 if change == "buffer" else 100,
        4,
    )
    caplog.set_level(logging.INFO, "bert_tf")
    assert position.resume(10, None if change == "none" else saved) == 0
    assert "step 10" in caplog.text
    assert position.resume(12, position.sidecar(12)) == 8
