"""`FeatureSpec`: one list that drives writing, parsing and padding.

Records are `tf.train.Example` protocol buffers in TFRecord files. Both are
written and read here in plain Python, so that data tools start without
TensorFlow; `record_dataset` is the `tf.data` reader.

Formats: tensorflow/core/example/feature.proto (Example = 1: Features;
Features = 1: map<string, Feature>; Feature = 2: FloatList, 3: Int64List) and
tensorflow/core/lib/io/record_writer.h.
"""

import dataclasses
import gzip
import os
import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import google_crc32c

from bert_tf import files

_MASK_DELTA = 0xA282EAD8
_WIRE_BYTES = 2  # length-delimited field


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


class _VarintTable(dict):
    """Encoded forms by value, filled as values are met."""

    def __missing__(self, value):
        encoded = _varint(int(value))
        if 0 <= value < 1 << 21:
            self[value] = encoded
        return encoded


_encode_varint = _VarintTable().__getitem__


def _field(number: int, payload: bytes) -> bytes:
    tag = number << 3 | _WIRE_BYTES
    return bytes((tag,)) + _encode_varint(len(payload)) + payload


@dataclasses.dataclass(frozen=True)
class Feature:
    """One named feature of fixed shape.

    Attributes:
      name: key in the record.
      shape: shape of one example, `()` for a scalar.
      dtype: `"int64"` (int32 once parsed) or `"float32"`.
      padding: value of the feature in a row that only fills a batch.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: str = "int64"
    padding: float = 0

    def __post_init__(self):
        if self.dtype not in ("int64", "float32"):
            raise ValueError(f"feature {self.name}: dtype {self.dtype!r}")

    @property
    def size(self) -> int:
        """Number of values in one example."""
        size = 1
        for length in self.shape:
            size *= length
        return size


class FeatureSpec:
    """An ordered list of features: writes, parses and pads records."""

    def __init__(self, features: Sequence[Feature]):
        self.features = tuple(features)
        self._prefixes = [
            (f, _field(1, f.name.encode("utf-8"))) for f in self.features
        ]

    def __iter__(self) -> Iterator[Feature]:
        return iter(self.features)

    def names(self) -> list[str]:
        """Feature names in order."""
        return [feature.name for feature in self.features]

    def serialize(self, values: Mapping[str, Any]) -> bytes:
        """Encodes one example as `tf.train.Example`.

        Args:
          values: for each feature a flat sequence of numbers, or one number.

        Returns:
          The encoded protocol buffer.

        Raises:
          ValueError: a feature has another length than the spec says.
        """
        entries = []
        for feature, key in self._prefixes:
            value = values[feature.name]
            if not hasattr(value, "__len__"):
                value = (value,)
            elif hasattr(value, "tolist"):
                value = value.tolist()
            if len(value) != feature.size:
                raise ValueError(
                    f"feature {feature.name} has {len(value)} values, "
                    f"expected {feature.size}"
                )
            if feature.dtype == "int64":
                packed = b"".join(map(_encode_varint, value))
                body = _field(3, _field(1, packed))
            else:
                packed = struct.pack(f"<{len(value)}f", *value)
                body = _field(2, _field(1, packed))
            entries.append(_field(1, key + _field(2, body)))
        return _field(1, b"".join(entries))

    def parse(self, serialized):
        """Parses a batch of records inside `tf.data`.

        Args:
          serialized: string tensor [B].

        Returns:
          Dict of name to tensor [B, *shape]; int64 features come as int32.
        """
        import tensorflow as tf

        parsed = tf.io.parse_example(
            serialized,
            {
                f.name: tf.io.FixedLenFeature(
                    f.shape, tf.int64 if f.dtype == "int64" else tf.float32
                )
                for f in self.features
            },
        )
        return {
            name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value
            for name, value in parsed.items()
        }

    def padding_record(self) -> bytes:
        """A record that fills a batch; every feature holds its padding."""
        return self.serialize(
            {f.name: [f.padding] * f.size for f in self.features}
        )

    def check_record(self, record: bytes, path: str, hints: str = "") -> None:
        """Compares one record of a file with this spec.

        Args:
          record: an encoded example.
          path: file it came from, for the error.
          hints: what the user can do, appended to the error.

        Raises:
          ValueError: a feature is missing or has another length.
        """
        found = decode_example(record)
        for feature in self.features:
            if feature.name not in found:
                raise ValueError(
                    f"{path}: records have no feature {feature.name}; "
                    f"found {', '.join(sorted(found))}{hints}"
                )
            length = len(found[feature.name])
            if length != feature.size:
                raise ValueError(
                    f"{path}: feature {feature.name} has {length} values, "
                    f"expected {feature.size}{hints}"
                )


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        if tag & 7 == _WIRE_BYTES:
            size, at = _read_varint(data, at)
            yield tag >> 3, data[at : at + size]
            at += size
        elif tag & 7 == 0:
            value, at = _read_varint(data, at)
            yield tag >> 3, value
        elif tag & 7 == 5:
            yield tag >> 3, data[at : at + 4]
            at += 4
        else:
            raise ValueError("not a tf.train.Example")


def _decode_values(kind: int, body: bytes) -> list:
    out: list = []
    for _, payload in _fields(body):
        if kind == 1:
            out.append(payload)
        elif kind == 2:
            out += struct.unpack(f"<{len(payload) // 4}f", payload)
        elif isinstance(payload, int):
            out.append(payload - (1 << 64) if payload >> 63 else payload)
        else:
            at = 0
            while at < len(payload):
                value, at = _read_varint(payload, at)
                out.append(value - (1 << 64) if value >> 63 else value)
    return out


def decode_example(record: bytes) -> dict[str, list]:
    """Decodes a `tf.train.Example` into lists of numbers or bytes.

    Raises:
      ValueError: the bytes are no such protocol buffer.
    """
    out = {}
    try:
        for _, features in _fields(record):
            for _, entry in _fields(features):
                parts = dict(_fields(entry))
                name = parts[1].decode("utf-8")
                out[name] = []
                for kind, body in _fields(parts.get(2, b"")):
                    out[name] = _decode_values(kind, body)
    except (IndexError, KeyError, struct.error, TypeError) as error:
        raise ValueError(f"not a tf.train.Example: {error!r}") from None
    return out


def _masked_crc(data: bytes) -> int:
    crc = google_crc32c.value(data)
    return ((crc >> 15 | crc << 17) + _MASK_DELTA) & 0xFFFFFFFF


def frame_record(record: bytes) -> bytes:
    """A record as it stands in a TFRecord file: length and checksums added."""
    length = struct.pack("<Q", len(record))
    head = length + struct.pack("<I", _masked_crc(length))
    return head + record + struct.pack("<I", _masked_crc(record))


class RecordWriter:
    """Writes a TFRecord file that appears only when closed without error.

    Use as a context manager.

    Args:
      path: file to write, local or remote.
      compression: None or `"GZIP"`.
    """

    def __init__(self, path: str, compression: str | None = None):
        if compression not in (None, "GZIP"):
            raise ValueError(f"compression {compression!r}, expected 'GZIP'")
        self.path = os.fspath(path)
        self._temporary = files.unfinished_name(self.path)
        self._raw = files.open_file(self._temporary, "wb")
        self._stream = self._raw
        if compression:
            # No name and no time in the header: same data, same bytes.
            self._stream = gzip.GzipFile(
                filename="", mode="wb", fileobj=self._raw, mtime=0
            )
        self.count = 0

    def write(self, record: bytes) -> None:
        """Appends one record."""
        self.write_framed(frame_record(record), 1)

    def write_framed(self, data: bytes, count: int) -> None:
        """Appends `count` records that `frame_record` framed."""
        self._stream.write(data)
        self.count += count

    def _close_streams(self) -> None:
        if self._stream is not self._raw:
            self._stream.close()
        self._raw.close()

    def close(self) -> None:
        """Finishes the file and gives it its name."""
        self._close_streams()
        files.replace(self._temporary, self.path)

    def discard(self) -> None:
        """Drops what was written."""
        self._close_streams()
        files.remove(self._temporary)

    def __enter__(self) -> "RecordWriter":
        return self

    def __exit__(self, kind, *unused) -> None:
        self.close() if kind is None else self.discard()


def write_records(
    path: str,
    spec: FeatureSpec,
    rows: Iterator[Mapping[str, Any]],
) -> int:
    """Serializes and writes all rows; returns their number."""
    with RecordWriter(path) as writer:
        for row in rows:
            writer.write(spec.serialize(row))
    return writer.count


def shard_paths(path: str) -> list[str]:
    """Expands `name@N` to `name-00000-of-0000N` and so on.

    Raises:
      ValueError: N is not a positive number of at most five digits.
    """
    match = re.fullmatch(r"(.+)@(\d+)", path)
    if not match:
        return [path]
    count = int(match[2])
    if not 0 < count <= 99_999:
        raise ValueError(f"{path}: {count} shards, expected 1 to 99999")
    return [f"{match[1]}-{i:05d}-of-{count:05d}" for i in range(count)]


def read_records(path: str) -> Iterator[bytes]:
    """Reads the records of one TFRecord file, GZIP recognised, CRC checked.

    Raises:
      ValueError: the file is cut off or damaged; names file and record.
    """
    with files.open_file(path, "rb") as raw:
        magic = raw.read(2)
        raw.seek(0)
        is_gzip = magic == b"\x1f\x8b"
        stream = gzip.GzipFile(fileobj=raw) if is_gzip else raw
        number = 0
        while True:
            header = stream.read(12)
            if not header:
                return
            where = f"{path}: record {number}"
            if len(header) < 12:
                raise ValueError(f"{where} is cut off")
            length, crc = struct.unpack("<QI", header)
            if crc != _masked_crc(header[:8]):
                raise ValueError(f"{where} is damaged, or no TFRecord file")
            body = stream.read(length + 4)
            if len(body) < length + 4:
                raise ValueError(f"{where} is cut off")
            (crc,) = struct.unpack("<I", body[length:])
            record = body[:length]
            if crc != _masked_crc(record):
                raise ValueError(f"{where} is damaged (checksum differs)")
            yield record
            number += 1


def compression_of(path: str) -> str:
    """`"GZIP"` or `""`, told by the first two bytes of the file."""
    with files.open_file(path, "rb") as stream:
        return "GZIP" if stream.read(2) == b"\x1f\x8b" else ""


def record_dataset(paths: Sequence[str]):
    """A `tf.data.Dataset` of serialized records, files in order."""
    import tensorflow as tf

    kinds = {compression_of(path) for path in paths}
    if len(kinds) > 1:
        raise ValueError("some of the record files are GZIP, some are not")
    return tf.data.TFRecordDataset(
        list(paths), compression_type=kinds.pop(), buffer_size=1 << 20
    )
