"""Values found by an evaluation hold for its checkpoint alone."""

import json

import pytest

from bert_tf.tasks.found_values import read_found, write_found

NAME = "limit.json"


def test_they_come_back_for_their_checkpoint(tmp_path, caplog):
    folder = str(tmp_path)
    assert read_found(folder, NAME, "model.ckpt-3", "0 is used") is None
    path = write_found(folder, NAME, {"limit": 0.5}, "model.ckpt-3")
    record = {"limit": 0.5, "checkpoint": "model.ckpt-3"}
    assert json.loads((tmp_path / NAME).read_text()) == record
    assert read_found(folder, NAME, "model.ckpt-3", "0 is used") == record
    assert not caplog.records
    assert read_found(folder, NAME, "model.ckpt-4", "0 is used") is None
    assert caplog.messages == [
        f"{path} was found for model.ckpt-3 and is not used for "
        "model.ckpt-4: 0 is used"
    ]


@pytest.mark.parametrize("text", ["{", "[]", '"x"', '{"limit": 1}'])
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ValueError, match=rf"{NAME}: expected a JSON object"):
        read_found(str(tmp_path), NAME, "model.ckpt-3", "0 is used")
