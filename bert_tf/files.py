"""Paths, local or remote, and writing that is all or nothing.

Local paths go through the standard library, so that the tokenizer and the
data tools never import TensorFlow. A path with a scheme, such as
`gs://bucket/file`, goes through `tf.io.gfile`.
"""

import contextlib
import glob as _glob
import logging
import os
import re
import shutil
import uuid
from collections.abc import Iterable, Iterator
from typing import IO

_log = logging.getLogger("bert_tf")

_UNFINISHED = re.compile(r"\.[0-9a-f]{8}\.tmp\Z")


def is_remote(path: str | os.PathLike) -> bool:
    """Tells whether `path` carries a scheme, as in `gs://bucket/file`."""
    return "://" in os.fspath(path)


def _gfile():
    import tensorflow as tf

    return tf.io.gfile


def open_file(path: str | os.PathLike, mode: str = "r") -> IO:
    """Opens a file; text is always UTF-8 with line ends left as they are."""
    if is_remote(path):
        return _gfile().GFile(os.fspath(path), mode)
    if "b" in mode:
        return open(path, mode)
    return open(path, mode, encoding="utf-8", newline="")


def read_bytes(path: str | os.PathLike) -> bytes:
    """Reads a whole file."""
    with open_file(path, "rb") as stream:
        return stream.read()


def exists(path: str | os.PathLike) -> bool:
    """Tells whether a file or folder of that name is there."""
    return _gfile().exists(path) if is_remote(path) else os.path.exists(path)


def size(path: str | os.PathLike) -> int:
    """Size of a file in bytes."""
    if is_remote(path):
        return _gfile().stat(path).length
    return os.path.getsize(path)


def is_dir(path: str | os.PathLike) -> bool:
    """Tells whether `path` is a folder."""
    return _gfile().isdir(path) if is_remote(path) else os.path.isdir(path)


def make_dirs(path: str | os.PathLike) -> None:
    """Makes a folder and its parents; an existing one is left alone."""
    if is_remote(path):
        _gfile().makedirs(path)
    else:
        os.makedirs(path, exist_ok=True)


def list_dir(path: str | os.PathLike) -> list[str]:
    """Names inside a folder, sorted."""
    names = _gfile().listdir(path) if is_remote(path) else os.listdir(path)
    return sorted(name.rstrip("/") for name in names)


def remove(path: str | os.PathLike) -> None:
    """Removes one file."""
    _gfile().remove(path) if is_remote(path) else os.remove(path)


def remove_tree(path: str | os.PathLike) -> None:
    """Removes a folder and all that is in it."""
    _gfile().rmtree(path) if is_remote(path) else shutil.rmtree(path)


def replace(source: str | os.PathLike, target: str | os.PathLike) -> None:
    """Renames `source` to `target`, which may exist."""
    if is_remote(target):
        _gfile().rename(source, target, overwrite=True)
    else:
        os.replace(source, target)


def glob(pattern: str) -> list[str]:
    """Paths that match a pattern, sorted; a plain existing path matches."""
    if is_remote(pattern):
        return sorted(_gfile().glob(pattern))
    if os.path.exists(pattern):
        return [pattern]
    return sorted(_glob.glob(pattern))


def expand_patterns(patterns: str, flag: str) -> list[str]:
    """Expands a comma-separated list of glob patterns.

    What a killed process was writing is passed over, with a warning.

    Args:
      patterns: for example `"a.txt,shards/*.tf_record"`.
      flag: the flag's name, for the error.

    Returns:
      The matching paths, each pattern's matches sorted, patterns in order.

    Raises:
      ValueError: one of the patterns matches nothing that is finished.
    """
    paths, torn = [], []
    for pattern in patterns.split(","):
        pattern = pattern.strip()
        if not pattern:
            continue
        found = glob(pattern)
        finished = [path for path in found if not is_unfinished(path)]
        torn += [path for path in found if is_unfinished(path)]
        if not finished:
            but = f" but {len(found)} unfinished ones" if found else ""
            raise ValueError(f"--{flag}: no file matches {pattern!r}{but}")
        paths += finished
    if torn:
        _log.warning(
            "--%s: %d unfinished files passed over, the first: %s",
            flag,
            len(torn),
            torn[0],
        )
    if not paths:
        raise ValueError(f"--{flag}: no file named, found {patterns!r}")
    return paths


def unfinished_name(path: str | os.PathLike) -> str:
    """A name of one's own to write `path` under until it is complete."""
    return f"{os.fspath(path)}.{uuid.uuid4().hex[:8]}.tmp"


def is_unfinished(path: str) -> bool:
    """Tells a name that `unfinished_name` gives."""
    return _UNFINISHED.search(path) is not None


def remove_unfinished(paths: Iterable[str]) -> int:
    """Deletes what killed processes were writing `paths` under.

    Remote folders are left as they are: to list one takes long.

    Returns:
      The number of files deleted.
    """
    torn = [
        found
        for path in paths
        if not is_remote(path)
        for found in _glob.glob(f"{_glob.escape(path)}.????????.tmp")
        if is_unfinished(found)
    ]
    for path in torn:
        os.remove(path)
    if torn:
        _log.warning(
            "%d unfinished files of an earlier start deleted, the first: %s",
            len(torn),
            torn[0],
        )
    return len(torn)


@contextlib.contextmanager
def atomic_write(path: str | os.PathLike, mode: str = "w") -> Iterator[IO]:
    """Opens a temporary file that becomes `path` only when all went well."""
    temporary = unfinished_name(path)
    try:
        with open_file(temporary, mode) as stream:
            yield stream
        replace(temporary, path)
    except BaseException:
        with contextlib.suppress(Exception):
            remove(temporary)
        raise
