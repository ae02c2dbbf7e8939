"""The safetensors file format: one tensor at a time, in and out.

A file is eight bytes with the length of a JSON header, the header (name ->
dtype, shape, first and last byte), and the values one after the other, little
endian, in row order. Source: the format's description, huggingface/safetensors
README.md, whose reader sets the same limit on the header.
"""

import dataclasses
import json
import math
import os
import struct
from collections.abc import Iterable, Mapping
from typing import Any

import ml_dtypes
import numpy as np

from bert_tf import files
from bert_tf.checkpoint.byte_streams import write_array
from bert_tf.checkpoint.report import CheckpointError

_HEADER_LIMIT = 100_000_000  # bytes
_ALIGNMENT = 8
_METADATA = "__metadata__"
_DTYPES = {
    "F64": np.dtype("<f8"),
    "F32": np.dtype("<f4"),
    "F16": np.dtype("<f2"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "I64": np.dtype("<i8"),
    "I32": np.dtype("<i4"),
    "I16": np.dtype("<i2"),
    "I8": np.dtype("i1"),
    "U8": np.dtype("u1"),
    "BOOL": np.dtype("?"),
}
_NAMES = {dtype: name for name, dtype in _DTYPES.items()}


@dataclasses.dataclass(frozen=True)
class Entry:
    """Where a tensor lies: dtype, shape and bytes of the file."""

    dtype: np.dtype
    shape: tuple[int, ...]
    begin: int
    size: int


class SafetensorsFile:
    """A file whose header has been read and checked.

    Attributes:
      path: the file.
      entries: name -> `Entry`, in the order of the header.

    Raises:
      CheckpointError: (a ValueError) the file is cut short, is no safetensors
        file, or its header contradicts itself; names the file.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        size = files.size(self.path)
        with files.open_file(self.path, "rb") as stream:
            start = stream.read(8)
            if len(start) < 8:
                raise self._damaged(f"it has {size} bytes, not even a header")
            (length,) = struct.unpack("<Q", start)
            if length > _HEADER_LIMIT or length > size - 8:
                raise self._damaged(
                    f"its header claims {length} bytes, the file has {size}, "
                    f"at most {_HEADER_LIMIT} are allowed"
                )
            text = stream.read(length)
        header = self._parse(text)
        header.pop(_METADATA, None)
        self.entries = {
            name: self._entry(name, value, 8 + length)
            for name, value in header.items()
        }
        self._check_layout(8 + length, size)

    def read(self, name: str) -> np.ndarray:
        """Reads one tensor.

        Raises:
          CheckpointError: (a ValueError) the file became shorter meanwhile.
        """
        entry = self.entries[name]
        with files.open_file(self.path, "rb") as stream:
            stream.seek(entry.begin)
            data = stream.read(entry.size)
        if len(data) != entry.size:
            raise self._damaged(f"the values of {name} are cut short")
        return np.frombuffer(data, entry.dtype).reshape(entry.shape)

    def _damaged(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path}: damaged, cut short, or no safetensors file: {what}"
        )

    def _parse(self, text: bytes) -> dict[str, Any]:
        try:
            header = json.loads(text, object_pairs_hook=_unique)
        except (ValueError, RecursionError) as error:
            raise self._damaged(f"its header is not JSON: {error}") from None
        if not isinstance(header, dict):
            raise self._damaged("its header is no JSON object")
        return header

    def _entry(self, name: str, value: Any, base: int) -> Entry:
        try:
            dtype, shape = value["dtype"], value["shape"]
            begin, end = value["data_offsets"]
        except (TypeError, KeyError, ValueError):
            raise self._damaged(
                f"its header says of {name!r} {str(value)[:80]}, expected "
                "dtype, shape and data_offsets"
            ) from None
        if dtype not in _DTYPES:
            raise CheckpointError(
                f"{self.path}: {name} has dtype {str(dtype)[:40]!r}, expected "
                f"one of {', '.join(_DTYPES)}"
            )
        whole = isinstance(shape, list) and all(
            type(x) is int and x >= 0 for x in (*shape, begin, end)
        )
        if not whole:
            raise self._damaged(
                f"shape or place of {name!r} is no whole number"
            )
        size = math.prod(shape) * _DTYPES[dtype].itemsize
        if end - begin != size:
            raise self._damaged(
                f"{name} of shape {shape} and dtype {dtype} needs {size} "
                f"bytes, its place has {end - begin}"
            )
        return Entry(_DTYPES[dtype], tuple(shape), base + begin, size)

    def _check_layout(self, base: int, size: int) -> None:
        """Values must fill the file, without holes and without overlap."""
        position = base
        for name, entry in sorted(
            self.entries.items(), key=lambda item: item[1].begin
        ):
            if entry.begin != position:
                raise self._damaged(
                    f"{name} begins at byte {entry.begin}, expected {position}"
                )
            position += entry.size
        if position != size:
            raise self._damaged(
                f"its header describes {position} bytes, the file has {size}"
            )


def _unique(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for key, value in pairs:
        if key in values:
            raise ValueError(f"the key {key!r} is there twice")
        values[key] = value
    return values


def write(
    path: str | os.PathLike,
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Writes a file, holding one tensor at a time.

    Args:
      path: written under another name first, then renamed.
      tensors: name -> object with `dtype`, `shape` and `read()`.
      metadata: strings for the header; transformers wants `format`.
    """
    header: dict[str, Any] = {_METADATA: dict(metadata)} if metadata else {}
    position = 0
    for name, tensor in tensors.items():
        dtype = np.dtype(tensor.dtype)
        size = math.prod(tensor.shape) * dtype.itemsize
        header[name] = {
            "dtype": _NAMES[dtype],
            "shape": list(tensor.shape),
            "data_offsets": [position, position + size],
        }
        position += size
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
    encoded = text.encode()
    encoded += b" " * (-len(encoded) % _ALIGNMENT)
    with files.atomic_write(path, "wb") as stream:
        stream.write(struct.pack("<Q", len(encoded)) + encoded)
        for name, tensor in tensors.items():
            value = tensor.read()
            stated = (np.dtype(tensor.dtype), tuple(tensor.shape))
            assert (value.dtype, value.shape) == stated, name
            write_array(stream, value)
