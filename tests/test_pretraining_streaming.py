"""Streaming mode as a whole: the same records whatever happens."""

import os
import pathlib
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from pretraining_text import make_settings, make_text, read_all, write_vocab

from bert_tf import pretraining_corpus, pretraining_streaming, records
from bert_tf.pretraining_data import create_pretraining_data
from bert_tf.pretraining_workers import Worker


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Text of several parts, units and segments."""
    write_vocab(tmp_path)
    for number in range(4):
        text = make_text(25 + 10 * number, seed=number)
        (tmp_path / f"text{number}.txt").write_text(text)
    monkeypatch.setattr(pretraining_corpus, "_SMALLEST_PART", 6000)
    monkeypatch.setattr(pretraining_streaming, "_SMALLEST_RUN", 6000)
    monkeypatch.setattr(pretraining_streaming, "_SMALLEST_SEGMENT", 5000)
    return tmp_path


def streaming(folder, **changes):
    return make_settings(folder, mode="streaming", **changes)


def left_over(folder):
    return [
        path.name
        for path in folder.iterdir()
        if path.name.startswith(".") or path.name.endswith(".tmp")
    ]


@pytest.fixture
def expected(folder):
    """What an undisturbed start with one process gives."""
    settings = streaming(folder, output_file=str(folder / "expected"))
    statistics = create_pretraining_data(settings)
    found = read_all(settings)
    assert statistics.counts["instances"] == len(found) > 500
    assert not left_over(folder)
    return found


@pytest.mark.parametrize("num_workers", [1, 2, 3])
@pytest.mark.parametrize("shards", ["", "@2", "@5"])
def test_the_same_records_for_any_number_of_workers_and_files(
    folder, expected, num_workers, shards
):
    settings = streaming(
        folder,
        num_workers=num_workers,
        output_file=str(folder / "records") + shards,
    )
    create_pretraining_data(settings)
    assert read_all(settings) == expected
    sizes = [
        sum(1 for _ in records.read_records(path))
        for path in settings.output_paths()
    ]
    assert max(sizes) - min(sizes) <= 1
    assert not left_over(folder)


@pytest.mark.parametrize("num_workers", [1, 2])
def test_gzip(folder, expected, num_workers):
    settings = streaming(folder, compression="GZIP", num_workers=num_workers)
    create_pretraining_data(settings)
    assert records.compression_of(settings.output_file) == "GZIP"
    assert read_all(settings) == expected


def test_instances_of_a_document_are_far_apart(folder):
    settings = streaming(folder, masking="dynamic", short_seq_prob=0.0)
    create_pretraining_data(settings)
    found = read_all(settings)
    # A text occurs once in each of two passes; places of the two are as far
    # apart as those of any two records.
    texts = [tuple(records.decode_example(r)["input_ids"][1:8]) for r in found]
    places = {}
    for place, text in enumerate(texts):
        places.setdefault(text, []).append(place)
    gaps = [abs(p[0] - p[1]) for p in places.values() if len(p) == 2]
    mean = np.mean(gaps) / len(found)
    assert len(gaps) > 50
    assert abs(mean - 1 / 3) < 5 * np.sqrt(1 / 18 / len(gaps))


class Killed(BaseException):
    """Ends a run where it stands."""


@pytest.mark.parametrize(
    "method", ["tokenize_part", "build_unit", "write_shard"]
)
@pytest.mark.parametrize("is_after", [False, True])
def test_a_killed_start_goes_on(
    folder, expected, monkeypatch, caplog, method, is_after
):
    settings = streaming(folder, output_file=str(folder / "records@4"))
    done = []
    original = getattr(Worker, method)

    def third_one_dies(self, *arguments):
        done.append(arguments)
        if len(done) == 3 and not is_after:
            raise Killed
        result = original(self, *arguments)
        if len(done) == 3:
            raise Killed
        return result

    with monkeypatch.context() as patch:
        patch.setattr(Worker, method, third_one_dies)
        with pytest.raises(Killed):
            create_pretraining_data(settings)
    finished = {
        path: os.stat(path).st_mtime_ns
        for path in settings.output_paths()
        if os.path.exists(path)
    }
    assert len(finished) == (2 + is_after if method == "write_shard" else 0)
    torn = f"{settings.output_paths()[0]}.0123abcd.tmp"
    pathlib.Path(torn).write_bytes(b"half a record")

    again = []

    def counted(self, *arguments):
        again.append(arguments)
        return original(self, *arguments)

    monkeypatch.setattr(Worker, method, counted)
    caplog.set_level("INFO")
    statistics = create_pretraining_data(settings)
    assert "going on with the work found" in caplog.text
    assert read_all(settings) == expected
    # What was finished is neither done nor written again.
    both = set(map(str, done[: 2 + is_after])) & set(map(str, again))
    assert not both
    for path, changed in finished.items():
        assert os.stat(path).st_mtime_ns == changed
    assert not left_over(folder)
    assert statistics.counts["instances"] == len(expected)
    assert statistics.counts["masked"] > len(expected)


def test_other_settings_or_input_start_afresh(
    folder, expected, monkeypatch, caplog
):
    def dies(self, *arguments):
        raise Killed

    for change in ("seed", "input"):
        settings = streaming(folder)
        with monkeypatch.context() as patch:
            patch.setattr(Worker, "write_shard", dies)
            with pytest.raises(Killed):
                create_pretraining_data(
                    streaming(folder, random_seed=3)
                    if change == "seed"
                    else settings
                )
        if change == "input":
            text = folder / "text0.txt"
            os.utime(text, ns=(0, text.stat().st_mtime_ns + 10**9))
        caplog.clear()
        create_pretraining_data(settings)
        assert "starting afresh" in caplog.text
        assert read_all(settings) == expected


def test_the_end_of_a_file_ends_a_document(folder):
    for number in range(4):
        text = folder / f"text{number}.txt"
        text.write_text(text.read_text().rstrip("\n"))
    documents = sum(
        (folder / f"text{number}.txt").read_text().count("\n\n") + 1
        for number in range(4)
    )
    statistics = create_pretraining_data(streaming(folder))
    assert statistics.counts["documents"] == documents
    # As the original does, exact mode joins what no blank line parts.
    exact = make_settings(folder, mode="exact")
    assert create_pretraining_data(exact).counts["documents"] == documents - 3


def test_a_work_dir_of_ones_own(folder, expected):
    work_dir = folder / "elsewhere"
    settings = streaming(folder, work_dir=str(work_dir))
    create_pretraining_data(settings)
    assert read_all(settings) == expected and not work_dir.exists()
    work_dir.mkdir()
    (work_dir / "mine").write_text("x")
    with pytest.raises(ValueError, match="--work_dir"):
        create_pretraining_data(settings)
    assert (work_dir / "mine").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_kill_9(tmp_path, repo_dir):
    """The script, killed with its processes in each of its steps."""
    write_vocab(tmp_path)
    for number in range(3):
        text = make_text(700, seed=number)
        (tmp_path / f"text{number}.txt").write_text(text)

    def start(output):
        return subprocess.Popen(
            [
                sys.executable,
                str(repo_dir / "create_pretraining_data.py"),
                f"--input_file={tmp_path}/text*.txt",
                f"--vocab_file={tmp_path}/vocab.txt",
                f"--output_file={tmp_path}/{output}@8",
                "--mode=streaming",
                "--num_workers=2",
                "--max_seq_length=64",
                "--dupe_factor=8",
            ],
            cwd=tmp_path,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )

    whole = start("whole")
    _, errors = whole.communicate(timeout=120)
    assert whole.returncode == 0, errors
    expected = [path.read_bytes() for path in sorted(tmp_path.glob("whole-*"))]
    assert len(expected) == 8
    kills, finished = 0, {}
    for sign in (".out-*.work/part-*.json", ".out-*.work/unit-*.json", "out-*"):
        process = start("out")
        while process.poll() is None and not list(tmp_path.glob(sign)):
            time.sleep(0.002)
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            kills += 1
        process.communicate()
    for path in tmp_path.glob(".out-*.work/shard-*.json"):
        number = int(path.name[6:11])
        shard = tmp_path / f"out-{number:05d}-of-00008"
        finished[shard] = shard.stat().st_mtime_ns
    last = start("out")
    _, errors = last.communicate(timeout=120)
    assert last.returncode == 0, errors
    found = [path.read_bytes() for path in sorted(tmp_path.glob("out-*"))]
    assert found == expected
    assert kills >= 2
    for shard, changed in finished.items():
        assert shard.stat().st_mtime_ns == changed
    assert not left_over(tmp_path)
