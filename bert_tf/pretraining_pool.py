"""The processes that do the tasks of streaming mode."""

import collections
import concurrent.futures
import contextlib
import gc
import itertools
import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bert_tf.pretraining_workers import Worker

_log = logging.getLogger("bert_tf")

# Seconds between two lines of the log.
_LOG_EVERY = 30.0
# Seconds between two looks whether the parent process is there.
_WATCH_EVERY = 1.0
# Objects made between two collections of garbage in other processes.
_COLLECT_EVERY = 100_000
# Size of a block of memory, above all that a task allocates and frees often.
_LARGE_BLOCK = 16 << 20

# The worker of this process; a forked process has its parent's.
_worker: Worker | None = None


def _start(parent: int, *arguments: Any) -> None:
    """Starts a process: it ends with its parent, and has a worker."""
    global _worker
    # Rows are many small tuples that come and go; no cycles are made.
    gc.freeze()
    gc.set_threshold(_COLLECT_EVERY)
    # glibc keeps up to twice the largest block freed so far; otherwise each
    # task would take the pages of its arrays anew.
    np.empty(_LARGE_BLOCK, np.uint8)
    threading.Thread(target=_watch, args=(parent,), daemon=True).start()
    if arguments:
        _worker = Worker(*arguments)


def _watch(parent: int) -> None:
    """Ends this process when its parent is gone, killed for example."""
    while os.getppid() == parent:
        time.sleep(_WATCH_EVERY)
    os._exit(1)


def _do(method: str, tasks: list[tuple]) -> list:
    return [getattr(_worker, method)(*arguments) for arguments in tasks]


def _chunks(tasks: list[tuple], num_workers: int) -> Iterator[list[tuple]]:
    """Runs of tasks, shorter and shorter, so that all end at about one time.

    What stands together stays together: tokenizers remember words, and those
    of a book are met again in the same book.
    """
    at = 0
    while at < len(tasks):
        size = max(1, (len(tasks) - at) // (2 * num_workers))
        yield tasks[at : at + size]
        at += size


class TaskPool:
    """Does tasks here, with one worker, or in processes.

    Use as a context manager.

    Args:
      num_workers: number of processes.
      worker: does tasks where there is one process only.
      arguments: what the other processes make their workers of.
    """

    def __init__(self, num_workers: int, worker: Worker, arguments: tuple):
        global _worker
        self.num_workers = num_workers
        self._executor = None
        self._is_broken = False
        _worker = worker
        if num_workers == 1:
            return
        # A fork is quick and safe here, unless TensorFlow has its threads.
        is_fork = sys.platform == "linux" and "tensorflow" not in sys.modules
        self._executor = concurrent.futures.ProcessPoolExecutor(
            num_workers,
            multiprocessing.get_context("fork" if is_fork else "spawn"),
            _start,
            (os.getpid(), *(() if is_fork else arguments)),
        )

    def __enter__(self) -> "TaskPool":
        return self

    def __exit__(self, *unused) -> None:
        if self._executor is None:
            return
        if self._is_broken:
            # The executor waits for a process that it started just as it
            # broke, and which nobody will ever tell to end.
            for process in list((self._executor._processes or {}).values()):
                process.kill()
        self._executor.shutdown(cancel_futures=True)

    def run(
        self, method: str, tasks: Iterable[tuple], what: str
    ) -> Iterator[Any]:
        """Starts a method of `Worker`; its results, in order.

        Processes begin at once, so that tasks of two calls can go side by
        side; without processes a task is done when its result is asked for.

        Args:
          method: its name.
          tasks: its arguments.
          what: the tasks, for the log.
        """
        tasks = list(tasks)
        if self._executor is None:
            results = (_do(method, [arguments]) for arguments in tasks)
        else:
            with self._told_if_broken():
                futures = [
                    self._submit(method, chunk)
                    for chunk in _chunks(tasks, self.num_workers)
                ]
            results = self._results(collections.deque(futures))
        return self._logged(results, len(tasks), what)

    def _submit(
        self, method: str, chunk: list[tuple]
    ) -> concurrent.futures.Future:
        try:
            return self._executor.submit(_do, method, chunk)
        except Exception:
            # The executor may start a process for the task while its thread
            # closes the pipes of a broken pool, which fails in many ways;
            # it refuses this task then, with the error that tells it.
            self._executor.submit(int)
            raise

    def _logged(
        self, results: Iterable[list], number: int, what: str
    ) -> Iterator[Any]:
        logged = time.monotonic()
        flat = itertools.chain.from_iterable(results)
        for done, result in enumerate(flat, 1):
            if time.monotonic() - logged > _LOG_EVERY:
                logged = time.monotonic()
                _log.info("%s: %d of %d", what, done, number)
            yield result

    def _results(self, futures: collections.deque) -> Iterator[list]:
        while futures:
            with self._told_if_broken():
                found = futures.popleft().result()
            yield found

    @contextlib.contextmanager
    def _told_if_broken(self) -> Iterator[None]:
        try:
            yield
        except concurrent.futures.process.BrokenProcessPool as error:
            self._is_broken = True
            raise RuntimeError(
                "a worker process was killed, most likely for want of memory: "
                "start again, with fewer --num_workers; finished work is kept"
            ) from error


def default_workers() -> int:
    """One for each core that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
