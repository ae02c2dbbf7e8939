"""Writes TensorFlow checkpoint files one tensor at a time.

TensorFlow's own op takes all tensors at once, so all of them must be in
memory. The files are simple enough to be written directly: the data file is
the values one after the other, the index a sorted table from name to place.
Source: tensorflow/core/util/tensor_bundle (the values, the protos) and
tensorflow/core/lib/io/table_builder.cc (the table, which is LevelDB's).
"""

import os
import struct
import uuid
from collections.abc import Mapping
from typing import IO

import google_crc32c
import numpy as np

from bert_tf import files
from bert_tf.checkpoint.byte_streams import write_array
from bert_tf.checkpoint.sources import StoredTensor

_MAGIC = 0xDB4775248B80FB57
_BLOCK_SIZE = 256 << 10  # bytes; a block is closed once it is this long
_RESTART_INTERVAL = 16  # keys from one whole key to the next
_MASK_DELTA = 0xA282EAD8


def masked(crc: int) -> int:
    """The form in which TensorFlow stores a CRC-32C."""
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def write_bundle(
    prefix: str | os.PathLike,
    tensors: Mapping[str, StoredTensor],
    strings: Mapping[str, bytes] | None = None,
) -> None:
    """Writes `<prefix>.data-00000-of-00001`, then `<prefix>.index`.

    Both are written under other names first; the index, without which there
    is no checkpoint, is renamed last.

    Args:
      prefix: its folder must exist.
      tensors: by the name that they get in the file.
      strings: scalar strings by name.
    """
    from tensorflow.core.framework import types_pb2
    from tensorflow.core.protobuf import tensor_bundle_pb2

    prefix = os.fspath(prefix)
    entries: dict[str, bytes] = {}
    header = tensor_bundle_pb2.BundleHeaderProto(num_shards=1)
    header.version.producer = 1
    suffix = f"{uuid.uuid4().hex[:8]}.tmp"
    data_path = f"{prefix}.data-00000-of-00001"
    try:
        with files.open_file(f"{data_path}.{suffix}", "wb") as stream:
            position = 0
            for name in sorted({*tensors, *(strings or {})}):
                entry = tensor_bundle_pb2.BundleEntryProto(offset=position)
                if name in tensors:
                    _write_tensor(stream, tensors[name], entry)
                else:
                    entry.dtype = types_pb2.DT_STRING
                    _write_string(stream, strings[name], entry)
                position += entry.size
                entries[name] = entry.SerializeToString()
        with files.open_file(f"{prefix}.index.{suffix}", "wb") as stream:
            entries[""] = header.SerializeToString()
            _write_table(stream, entries)
        if files.exists(f"{prefix}.index"):
            # It must never meet the new data.
            files.remove(f"{prefix}.index")
        files.replace(f"{data_path}.{suffix}", data_path)
        files.replace(f"{prefix}.index.{suffix}", f"{prefix}.index")
    except BaseException:
        for path in (f"{data_path}.{suffix}", f"{prefix}.index.{suffix}"):
            if files.exists(path):
                files.remove(path)
        raise


def _write_tensor(stream: IO[bytes], tensor: StoredTensor, entry) -> None:
    import tensorflow as tf

    value = tensor.read()
    assert value.shape == tuple(tensor.shape), tensor.source_name
    checksum = google_crc32c.Checksum()
    entry.dtype = tf.as_dtype(value.dtype).as_datatype_enum
    for size in value.shape:
        entry.shape.dim.add(size=size)
    entry.shape.SetInParent()
    entry.size = write_array(stream, value, checksum.update)
    entry.crc32c = masked(int.from_bytes(checksum.digest(), "big"))


def _write_string(stream: IO[bytes], value: bytes, entry) -> None:
    """One string: its length, a checksum of the length, its bytes."""
    crc = google_crc32c.value(struct.pack("<I", len(value)))
    check = struct.pack("<I", masked(crc))
    crc = google_crc32c.extend(crc, check)
    content = _varint(len(value)) + check + value
    stream.write(content)
    entry.shape.SetInParent()
    entry.size = len(content)
    entry.crc32c = masked(google_crc32c.extend(crc, value))


def _write_table(stream: IO[bytes], entries: Mapping[str, bytes]) -> None:
    """A LevelDB table without compression and without filter."""
    position = 0

    def write_block(block: bytes) -> bytes:
        nonlocal position
        handle = _varint(position) + _varint(len(block))
        crc = masked(google_crc32c.value(block + b"\0"))
        stream.write(block + b"\0" + struct.pack("<I", crc))
        position += len(block) + 5
        return handle

    places: list[tuple[bytes, bytes]] = []
    batch: list[tuple[bytes, bytes]] = []
    size = 0
    pairs = sorted((name.encode(), value) for name, value in entries.items())
    for i, (key, value) in enumerate(pairs):
        batch.append((key, value))
        size += len(key) + len(value)
        if size >= _BLOCK_SIZE or i + 1 == len(pairs):
            places.append((key, write_block(_block(batch, _RESTART_INTERVAL))))
            batch, size = [], 0
    filters = write_block(_block([], 1))
    index = write_block(_block(places, 1))
    handles = (filters + index).ljust(40, b"\0")
    stream.write(handles + struct.pack("<Q", _MAGIC))


def _block(pairs: list[tuple[bytes, bytes]], interval: int) -> bytes:
    """Keys share their beginning with the one before, save at restarts."""
    content = bytearray()
    restarts = [] if pairs else [0]
    last = b""
    for i, (key, value) in enumerate(pairs):
        shared = 0
        if i % interval == 0:
            restarts.append(len(content))
        else:
            shared = _shared(last, key)
        content += _varint(shared) + _varint(len(key) - shared)
        content += _varint(len(value)) + key[shared:] + value
        last = key
    numbers = [*restarts, len(restarts)]
    return bytes(content) + struct.pack(f"<{len(numbers)}I", *numbers)


def _shared(first: bytes, second: bytes) -> int:
    """Length of the common beginning."""
    pairs = enumerate(zip(first, second, strict=False))
    shorter = min(len(first), len(second))
    return next((i for i, (a, b) in pairs if a != b), shorter)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def scalar(value: int, dtype: str = "int64") -> StoredTensor:
    """A whole number as a tensor without shape."""
    array = np.asarray(value, dtype)
    return StoredTensor("", array.dtype, (), lambda: array)
