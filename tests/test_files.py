"""Paths, globs and atomic writing, local and in TensorFlow's ram://."""

import pytest

from bert_tf import files


def test_patterns_expand_in_order(tmp_path):
    for name in ("b1", "b0", "a"):
        (tmp_path / name).write_text("")
    found = files.expand_patterns(f"{tmp_path}/b*, {tmp_path}/a", "input_file")
    assert [path.rsplit("/", 1)[1] for path in found] == ["b0", "b1", "a"]


def test_pattern_without_match_names_flag_and_pattern(tmp_path):
    with pytest.raises(ValueError, match=r"--input_file.*nothing\*"):
        files.expand_patterns(f"{tmp_path}/nothing*", "input_file")
    with pytest.raises(ValueError, match="no file named"):
        files.expand_patterns(" , ", "input_file")


def test_brackets_in_an_existing_name_are_no_pattern(tmp_path):
    path = tmp_path / "a[1].txt"
    path.write_text("")
    assert files.glob(str(path)) == [str(path)]


def test_what_a_killed_process_was_writing_is_no_match(tmp_path, caplog):
    for name in ("a-0", "a-0.0123abcd.tmp", "a-1", "a-1.tmp", "b.0123abcd.tmp"):
        (tmp_path / name).write_text("")
    found = files.expand_patterns(f"{tmp_path}/a-*", "input_file")
    names = [path.rsplit("/", 1)[1] for path in found]
    assert names == ["a-0", "a-1", "a-1.tmp"]
    assert "--input_file: 1 unfinished files passed over" in caplog.text
    assert f"{tmp_path}/a-0.0123abcd.tmp" in caplog.text
    with pytest.raises(ValueError, match=r"no file matches .*1 unfinished"):
        files.expand_patterns(f"{tmp_path}/b*", "input_file")


def test_unfinished_files_are_told_and_removed(tmp_path):
    path = str(tmp_path / "part[1]")
    for name in (path, f"{path}.old_name.tmp", f"{path}.tmp"):
        open(name, "w").close()
    torn = [files.unfinished_name(path) for _ in range(2)]
    assert torn[0] != torn[1] and all(map(files.is_unfinished, torn))
    for name in torn:
        open(name, "w").close()
    assert files.remove_unfinished([path, "ram://elsewhere/x"]) == 2
    assert files.remove_unfinished([path]) == 0
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == ["part[1]", "part[1].old_name.tmp", "part[1].tmp"]


def test_failed_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "f.txt"
    path.write_text("old")
    with pytest.raises(RuntimeError), files.atomic_write(path) as stream:
        stream.write("new")
        raise RuntimeError
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["f.txt"]
    with files.atomic_write(path) as stream:
        stream.write("a\r\nb\n")
    assert path.read_bytes() == b"a\r\nb\n"


def test_remote_paths():
    folder = "ram://files_test"
    files.make_dirs(folder)
    with files.atomic_write(f"{folder}/x.txt") as stream:
        stream.write("é")
    assert files.is_remote(folder) and not files.is_remote("/tmp/x")
    assert files.read_bytes(f"{folder}/x.txt") == "é".encode()
    assert files.exists(f"{folder}/x.txt")
    assert files.list_dir(folder) == ["x.txt"]
    files.remove(f"{folder}/x.txt")
    assert not files.exists(f"{folder}/x.txt")
