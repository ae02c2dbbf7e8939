"""The safetensors format: round trips, and refusal of damaged files."""

import json
import struct

import ml_dtypes
import numpy as np
import pytest

from bert_tf.checkpoint import safetensors
from bert_tf.checkpoint.report import CheckpointError
from bert_tf.checkpoint.sources import StoredTensor

VALUES = {
    "matrix": np.arange(6, dtype="f4").reshape(2, 3),
    "transposed": np.arange(6, dtype="f4").reshape(2, 3).T,
    "scalar": np.asarray(2.5, "f8"),
    "empty": np.zeros((0, 3), "f4"),
    "half": np.asarray([1.5, -2], "f2"),
    "brain": np.asarray([1.5, -2], ml_dtypes.bfloat16),
    "ids": np.asarray([[1, 2]], "i8"),
    "flags": np.asarray([True, False]),
    "名": np.asarray([7], "i4"),
}


def stored(values):
    return {
        name: StoredTensor(name, x.dtype, x.shape, lambda x=x: x)
        for name, x in values.items()
    }


def raw(path, header, data=b""):
    if not isinstance(header, bytes):
        header = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    return path


def entry(dtype="F32", shape=(1,), offsets=(0, 4)):
    return {"dtype": dtype, "shape": shape, "data_offsets": offsets}


def test_round_trip(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.write(path, stored(VALUES), {"format": "pt"})
    found = safetensors.SafetensorsFile(path)
    assert found.entries.keys() == VALUES.keys()
    for name, value in VALUES.items():
        read = found.read(name)
        assert read.dtype == value.dtype and read.shape == value.shape
        assert read.tobytes() == value.tobytes()
    assert [x.name for x in tmp_path.iterdir()] == [path.name]


def test_data_is_aligned_for_others(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.write(path, stored({"a": np.zeros(1, "f4")}))
    (length,) = struct.unpack("<Q", path.read_bytes()[:8])
    assert length % 8 == 0


def test_the_format_of_others(tmp_path):
    package = pytest.importorskip("safetensors.numpy")
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    values = {k: v for k, v in VALUES.items() if k not in ("brain",)}
    values["transposed"] = np.ascontiguousarray(values["transposed"])
    package.save_file(values, theirs)
    safetensors.write(ours, stored(values))
    assert safetensors.SafetensorsFile(theirs).read("ids").tolist() == [[1, 2]]
    for name, value in package.load_file(ours).items():
        assert value.tobytes() == values[name].tobytes()


def test_one_tensor_in_memory_at_a_time(tmp_path):
    alive = []

    class Tensor:
        dtype, shape = np.dtype("f4"), (4,)

        def read(self):
            alive.append(1)
            assert len(alive) == 1
            return np.zeros(4, "f4")

    class Watching(dict):
        def items(self):
            for item in super().items():
                yield item
                alive.clear()

    safetensors.write(tmp_path / "x", Watching(a=Tensor(), b=Tensor()))


@pytest.mark.parametrize(
    ("header", "data", "message"),
    [
        (b"", b"", "not JSON"),
        (b"{", b"", "not JSON"),
        (b"[" * 100_000, b"", "not JSON"),
        (b"\xff\xfe", b"", "not JSON"),
        ([], b"", "no JSON object"),
        ({"a": 3}, b"", "expected dtype"),
        ({"a": {"dtype": "F32"}}, b"", "expected dtype"),
        ({"a": entry("F128")}, bytes(4), "F128"),
        ({"a": entry(shape=[-1])}, bytes(4), "no whole number"),
        ({"a": entry(shape=[1.5])}, bytes(4), "no whole number"),
        ({"a": entry(shape=[True])}, bytes(4), "no whole number"),
        ({"a": entry(shape="1")}, bytes(4), "no whole number"),
        ({"a": entry(shape=[2])}, bytes(4), "needs 8 bytes"),
        ({"a": entry(offsets=[4, 0])}, bytes(4), "needs 4 bytes"),
        ({"a": entry(offsets=[0, 4, 8])}, bytes(4), "expected dtype"),
        ({"a": entry()}, bytes(3), "the file has"),
        ({"a": entry()}, bytes(5), "the file has"),
        ({"a": entry(offsets=[4, 8])}, bytes(8), "expected"),
        ({"a": entry(), "b": entry()}, bytes(4), "expected"),
        (
            b'{"a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},'
            b' "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}',
            bytes(4),
            "twice",
        ),
    ],
)
def test_damaged_headers(tmp_path, header, data, message):
    path = raw(tmp_path / "bad.safetensors", header, data)
    with pytest.raises(CheckpointError, match=message) as error:
        safetensors.SafetensorsFile(path)
    assert str(path) in str(error.value)


def test_claims_of_length_are_not_believed(tmp_path):
    path = tmp_path / "bad.safetensors"
    for length in (9, 10**8, 2**63):
        path.write_bytes(struct.pack("<Q", length) + b"{}")
        with pytest.raises(CheckpointError, match="claims"):
            safetensors.SafetensorsFile(path)
    path.write_bytes(b"abc")
    with pytest.raises(CheckpointError, match="not even a header"):
        safetensors.SafetensorsFile(path)


def test_every_truncation_is_noticed(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.write(path, stored({"a": VALUES["matrix"]}))
    whole = path.read_bytes()
    for length in range(len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"x\.safetensors"):
            safetensors.SafetensorsFile(path)


def test_a_file_that_shrinks_meanwhile(tmp_path):
    path = tmp_path / "x.safetensors"
    safetensors.write(path, stored({"a": VALUES["matrix"]}))
    found = safetensors.SafetensorsFile(path)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(CheckpointError, match="values of a are cut short"):
        found.read("a")
