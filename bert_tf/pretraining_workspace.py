"""Files that streaming mode keeps while it works, and finds after a kill.

A piece of work is done when its JSON file is there; that file is written
last, under another name first. What belongs to other settings or other input
is thrown away.
"""

import json
import logging
import mmap
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import IO, Any, NamedTuple

import numpy as np

from bert_tf import files
from bert_tf.pretraining_corpus import Corpus

_log = logging.getLogger("bert_tf")

# Raised whenever the meaning of files in the folder changes.
_FORMAT = 1

_ROWS_SORTED = 4096


class FileArray:
    """An array on disk of which slices are read, not mapped.

    Of a page that is touched in a mapped file the neighbours come too and
    count as memory of the process: with short texts from all over a corpus,
    soon the whole of it.

    Args:
      stream: the open file.
      dtype: of the array.
      length: number of items.
      offset: first byte in the file.
    """

    def __init__(
        self, stream: IO[bytes], dtype: np.dtype, length: int, offset: int
    ):
        self._stream = stream
        self._descriptor = stream.fileno()
        self._dtype = dtype
        self._length = length
        self._offset = offset

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, items: slice) -> np.ndarray:
        size = self._dtype.itemsize
        first, end, _ = items.indices(self._length)
        data = os.pread(
            self._descriptor, (end - first) * size, self._offset + first * size
        )
        return np.frombuffer(data, self._dtype)


class Run(NamedTuple):
    """Instances on disk, sorted by key.

    Attributes:
      path: file of rows.
      dtype: see `row_dtype`.
    """

    path: str
    dtype: np.dtype

    @property
    def count(self) -> int:
        """Number of instances."""
        return os.path.getsize(self.path) // self.dtype.itemsize

    def below(self, keys: np.ndarray) -> np.ndarray:
        """Number of instances below each of some ascending keys, int64."""
        rows = np.memmap(self.path, self.dtype, "r")
        return np.searchsorted(rows["key"], keys)

    def read(self, begin: int, end: int) -> np.ndarray:
        """Rows of a range."""
        return np.fromfile(
            self.path,
            self.dtype,
            end - begin,
            offset=self.dtype.itemsize * begin,
        )


class Workspace:
    """The folder of temporary files.

    Args:
      path: a local folder; made where it is missing.
    """

    def __init__(self, path: str):
        self.path = path
        self._maps: list[mmap.mmap] = []

    def _file(self, name: str) -> str:
        return os.path.join(self.path, name)

    def prepare(self, fingerprint: Mapping[str, Any]) -> bool:
        """Makes the folder ready.

        Args:
          fingerprint: settings and input that the work depends on, as `json`
            gives them back.

        Returns:
          True where work of an earlier, killed start is kept.
        """
        wanted = {"format": _FORMAT, **fingerprint}
        found = self.load("plan")
        if found == wanted:
            return True
        if os.path.isdir(self.path):
            if found is None and os.listdir(self.path):
                raise ValueError(
                    f"--work_dir={self.path} holds other files; expected a "
                    "new folder or one that an earlier start left"
                )
            if found is not None:
                _log.warning(
                    "%s was left by a start with other settings or input; "
                    "starting afresh",
                    self.path,
                )
            self.remove()
        os.makedirs(self.path)
        self.save("plan", wanted)
        return False

    def remove(self) -> None:
        """Deletes the folder."""
        self.forget()
        shutil.rmtree(self.path)

    def load(self, name: str) -> Any:
        """What `save` wrote, or None."""
        try:
            with open(self._file(f"{name}.json"), encoding="utf-8") as stream:
                return json.load(stream)
        except FileNotFoundError:
            return None

    def save(self, name: str, value: Any) -> None:
        """Writes a JSON file, all or nothing: this piece of work is done."""
        with files.atomic_write(self._file(f"{name}.json")) as stream:
            json.dump(value, stream)

    def part_files(self, part: int, with_words: bool) -> list[str]:
        """Paths of a part: tokens, sentences, documents, word starts."""
        kinds = ["tokens", "sentences", "documents", "words"]
        return [
            self._file(f"part-{part:05d}.{kind}")
            for kind in kinds[: 4 if with_words else 3]
        ]

    def temporary(self, path: str) -> str:
        """Name to write a file under before `os.replace` makes it `path`.

        A process that outlives its killed parent for a moment writes to
        names of its own.
        """
        return f"{path}.{os.getpid()}.tmp"

    def segment_file(self, number: int) -> str:
        """Path of the records of a part of a shard."""
        return self._file(f"segment-{number:05d}")

    def finish_part(self, paths: Sequence[str]) -> None:
        """Joins the arrays of a part, written under temporary names.

        One file holds tokens, sentences and documents, so that fewer are
        mapped.
        """
        written = [self.temporary(path) for path in paths]
        with open(written[0], "ab") as target:
            target.write(bytes(-target.tell() % 8))
            for path in written[1:3]:
                with open(path, "rb") as source:
                    shutil.copyfileobj(source, target, 1 << 20)
                os.remove(path)
        os.replace(written[0], paths[0])
        if len(paths) > 3:
            os.replace(written[3], paths[3])

    def open_part(
        self,
        part: int,
        sizes: Sequence[int],
        dtype: np.dtype,
        with_words: bool,
        is_scattered: bool = False,
    ) -> Corpus:
        """Opens a part: mapped into memory, or for reading here and there.

        Args:
          part: its number.
          sizes: tokens, sentences and documents in it.
          dtype: of tokens.
          with_words: whether word starts were written.
          is_scattered: see `FileArray`.
        """
        tokens, sentences, documents = sizes[0], sizes[1] + 1, sizes[2] + 1
        paths = self.part_files(part, with_words)
        at = -(-tokens * dtype.itemsize // 8) * 8
        open_arrays = self._map
        if is_scattered and hasattr(os, "pread"):
            open_arrays = self._open
        arrays = open_arrays(
            paths[0],
            (dtype, tokens, 0),
            (np.dtype(np.int64), sentences, at),
            (np.dtype(np.int64), documents, at + 8 * sentences),
        )
        words = None
        if with_words and tokens:
            (words,) = open_arrays(paths[3], (np.dtype(np.uint8), tokens, 0))
        return Corpus(*arrays, words)

    def _map(self, path: str, *arrays: tuple) -> list[np.ndarray]:
        with open(path, "rb") as stream:
            mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
        self._maps.append(mapped)
        return [np.frombuffer(mapped, *array) for array in arrays]

    def _open(self, path: str, *arrays: tuple) -> list["FileArray"]:
        stream = open(path, "rb")  # noqa: SIM115
        return [FileArray(stream, *array) for array in arrays]

    def release(self) -> None:
        """Gives mapped pages back, so that they do not count as memory."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapped in self._maps:
                mapped.madvise(mmap.MADV_DONTNEED)

    def forget(self) -> None:
        """Lets go of all mapped parts; they go with the last array of them."""
        self._maps.clear()

    def save_run(self, name: str, rows: np.ndarray) -> None:
        """Writes instances, at least one, sorted by key."""
        order = np.argsort(rows["key"], kind="stable")
        path = self._file(name)
        with open(self.temporary(path), "wb") as stream:
            # Piecewise, or the rows would be held twice.
            for at in range(0, len(order), _ROWS_SORTED):
                rows[order[at : at + _ROWS_SORTED]].tofile(stream)
        os.replace(self.temporary(path), path)

    def run(self, name: str, dtype: np.dtype) -> Run:
        """A run by its name."""
        return Run(self._file(name), dtype)

    def save_bounds(self, bounds: np.ndarray) -> None:
        """Writes where the segments begin in each run, [segments + 1, runs]."""
        path = self._file("bounds.npy")
        np.save(self.temporary(path) + ".npy", bounds)
        os.replace(self.temporary(path) + ".npy", path)

    def load_bounds(self) -> np.ndarray:
        """What `save_bounds` wrote, mapped into memory."""
        return np.load(self._file("bounds.npy"), mmap_mode="r")
