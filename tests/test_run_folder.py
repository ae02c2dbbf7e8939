"""What a run folder keeps, and what it refuses."""

import json

import pytest

from bert_tf import run_folder
from bert_tf.config import BertConfig


def write(folder, **record):
    vocab = folder.parent / "v.txt"
    vocab.write_bytes(b"[PAD]\r\n[UNK]\n")
    run_folder.write_run(str(folder), record, BertConfig(5), str(vocab))


def test_round_trip(tmp_path):
    folder = tmp_path / "run"
    write(folder, task="classification", labels=["é", "b"], flags={"a": 1})
    assert (folder / "vocab.txt").read_bytes() == b"[PAD]\r\n[UNK]\n"
    assert (folder / "labels.txt").read_text("utf-8") == "é\nb\n"
    assert BertConfig.from_json_file(folder / "bert_config.json") == (
        BertConfig(5)
    )
    record = run_folder.read_run(str(folder))
    assert record["labels"] == ["é", "b"]
    assert set(record["versions"]) >= {"python", "tensorflow", "keras"}


def test_writing_over_itself(tmp_path):
    folder = tmp_path / "run"
    write(folder, task="x")
    run_folder.write_run(
        str(folder), {"task": "x"}, BertConfig(5), str(folder / "vocab.txt")
    )
    assert (folder / "vocab.txt").read_bytes() == b"[PAD]\r\n[UNK]\n"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("task", "squad"),
        ("labels", ["b", "a"]),
        ("do_lower_case", False),
    ],
)
def test_another_model_is_refused(tmp_path, key, value):
    folder = tmp_path / "run"
    same = {"task": "c", "labels": ["a", "b"], "do_lower_case": True}
    write(folder, **same)
    run_folder.check_identity(str(folder), {**same, "max_seq_length": 9})
    with pytest.raises(ValueError, match="holds a model with") as error:
        run_folder.check_identity(str(folder), {**same, key: value})
    assert repr(value) in str(error.value) and str(folder) in str(error.value)


def test_empty_folder_and_broken_record(tmp_path):
    assert run_folder.read_run(str(tmp_path)) == {}
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(ValueError, match=r"run\.json: not JSON"):
        run_folder.read_run(str(tmp_path))
    (tmp_path / "run.json").write_text(json.dumps([1]))
    with pytest.raises(ValueError, match="expected a JSON object"):
        run_folder.read_run(str(tmp_path))


def test_unwritable_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match=r"--output_dir=.*cannot be written"):
        run_folder.check_writable(str(tmp_path / "file" / "x"))
