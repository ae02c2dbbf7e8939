"""Unpacks the archives in which models are published, and nothing more.

Only plain files come out, and only into the folder meant for them: names that
lead elsewhere, links and devices are refused, and so is more data than the
archive could honestly hold.
"""

import contextlib
import os
import tarfile
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import IO

from bert_tf import files

_SUFFIXES = (".zip", ".tar", ".tar.gz", ".tgz")
_EXPANSION_LIMIT = 50  # unpacked size over the archive's own
_FREE_SIZE = 64 << 20  # bytes that are allowed in any case
_PIECE = 16 << 20


def is_archive(path: str | os.PathLike) -> bool:
    """Tells an archive by the end of its name."""
    path = os.fspath(path)
    return path.lower().endswith(_SUFFIXES) and not files.is_dir(path)


@contextlib.contextmanager
def unpacked(path: str | os.PathLike) -> Iterator[str]:
    """Gives a temporary folder with an archive's content.

    A folder that is all that another one holds is gone into.

    Raises:
      ValueError: the archive is damaged, or holds what it must not.
    """
    path = os.fspath(path)
    with tempfile.TemporaryDirectory(prefix="bert_tf_") as folder:
        try:
            with files.open_file(path, "rb") as stream:
                limit = _FREE_SIZE + _EXPANSION_LIMIT * files.size(path)
                _unpack(path, stream, folder, limit)
        except (
            zipfile.BadZipFile,
            tarfile.TarError,
            EOFError,
            OSError,
            RuntimeError,
            zlib.error,
        ) as error:
            raise ValueError(f"{path}: damaged or cut short: {error}") from None
        inner = folder
        while len(names := os.listdir(inner)) == 1:
            if not os.path.isdir(os.path.join(inner, names[0])):
                break
            inner = os.path.join(inner, names[0])
        yield inner


def _unpack(path: str, stream: IO[bytes], folder: str, limit: int) -> None:
    if path.lower().endswith(".zip"):
        with zipfile.ZipFile(stream) as archive:
            for item in archive.infolist():
                if item.is_dir():
                    continue
                if (item.external_attr >> 16) & 0o170000 == 0o120000:
                    raise ValueError(f"{path}: {item.filename} is a link")
                with archive.open(item) as content:
                    target = _target(path, folder, item.filename)
                    limit = _copy(path, content, target, limit)
        return
    mode = "r:" if path.lower().endswith(".tar") else "r:gz"
    with tarfile.open(fileobj=stream, mode=mode) as archive:
        for item in archive:
            if item.isdir():
                continue
            if not item.isfile():
                raise ValueError(f"{path}: {item.name} is no plain file")
            content = archive.extractfile(item)
            target = _target(path, folder, item.name)
            limit = _copy(path, content, target, limit)


def _target(path: str, folder: str, name: str) -> str:
    parts = [
        x for x in name.replace("\\", "/").split("/") if x not in ("", ".")
    ]
    if name.startswith(("/", "\\")) or ".." in parts or ":" in name:
        raise ValueError(
            f"{path}: the archive holds {name!r}, which leads out of its folder"
        )
    target = os.path.join(folder, *parts)
    os.makedirs(os.path.dirname(target), exist_ok=True)
    return target


def _copy(path: str, content: IO[bytes], target: str, limit: int) -> int:
    """Copies one file; returns how many bytes may still follow."""
    with open(target, "wb") as stream:
        while piece := content.read(_PIECE):
            limit -= len(piece)
            if limit < 0:
                raise ValueError(
                    f"{path}: unpacks to far more than its own size"
                )
            stream.write(piece)
    return limit
