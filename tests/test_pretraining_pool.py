"""Tasks of streaming mode, here and in processes."""

import hashlib
import os
import platform
import signal
import subprocess
import sys
import time

import pytest
from pretraining_text import make_settings, make_text, write_vocab

from bert_tf.pretraining_corpus import sha256_of
from bert_tf.pretraining_pool import TaskPool, default_workers
from bert_tf.pretraining_workers import Worker


@pytest.fixture
def worker(tmp_path):
    write_vocab(tmp_path)
    for number in range(3):
        (tmp_path / f"text{number}").write_text(make_text(6, seed=number))
    arguments = (make_settings(tmp_path), str(tmp_path / "work"), [])
    return Worker(*arguments), arguments


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


def write_when_read(path, data):
    """Writes to a fifo; False if nobody opens its other end."""
    for _ in range(3000):
        try:
            writer = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            time.sleep(0.01)
            continue
        os.write(writer, data)
        os.close(writer)
        return True
    return False


@pytest.mark.skipif(sys.platform == "win32", reason="no fifo")
def test_tasks_of_two_calls_go_side_by_side(worker, tmp_path):
    """A file that one process waits for does not keep the others."""
    worker, arguments = worker
    os.mkfifo(tmp_path / "fifo")
    texts = [(str(tmp_path / f"text{number}"),) for number in range(3)]
    with TaskPool(2, worker, arguments) as pool:
        slow = pool.run("hash_file", [(str(tmp_path / "fifo"),)], "files")
        found = list(pool.run("hash_file", texts, "files"))
        assert found == [sha256_of(path) for (path,) in texts]
        assert write_when_read(tmp_path / "fifo", b"x")
        assert list(slow) == [hashlib.sha256(b"x").hexdigest()]


FAULTS = """
import resource, sys
import numpy as np
from bert_tf.pretraining_pool import TaskPool

class Worker:
    def work(self):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        for _ in range(100):
            arrays = [np.ones(100_000, np.uint8) for _ in range(20)]
            del arrays
        return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

with TaskPool(2, Worker(), ()) as pool:
    print(*pool.run("work", [()], "tasks"))
"""


@pytest.mark.skipif(
    platform.libc_ver()[0] != "glibc", reason="another memory allocator"
)
def test_freed_memory_is_used_again():
    # In a fresh process: this one may have freed a large block before.
    found = subprocess.run(
        [sys.executable, "-c", FAULTS],
        check=True,
        capture_output=True,
        text=True,
    )
    # Each time anew, all arrays would take 100 * 20 * 24 pages.
    assert int(found.stdout) < 5000


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


@pytest.mark.parametrize("is_broken", [True, False])
def test_a_pool_that_breaks_while_a_process_starts_is_told(
    worker, is_broken, monkeypatch
):
    worker, arguments = worker

    def start():
        if is_broken:
            pool._executor._broken = "a process is gone"
        raise OSError("handle is closed")

    with TaskPool(2, worker, arguments) as pool:
        # Also where the processes are forked, and start all at once.
        monkeypatch.setattr(
            pool._executor, "_start_executor_manager_thread", start
        )
        error = RuntimeError if is_broken else OSError
        match = "fewer --num_workers" if is_broken else "handle is closed"
        with pytest.raises(error, match=match):
            list(pool.run("hash_file", [("text0",)], "files"))


def test_default_workers_are_the_cores():
    assert 1 <= default_workers() <= (os.cpu_count() or 1)
