"""`pytorch_model.bin`: read without running what is in it."""

import collections
import io
import os
import pickle
import sys
import types
import zipfile

import ml_dtypes
import numpy as np
import pytest

from bert_tf.checkpoint import torch_files
from bert_tf.checkpoint.report import CheckpointError

STORAGES = {
    np.dtype("f4"): "FloatStorage",
    np.dtype("f2"): "HalfStorage",
    np.dtype("f8"): "DoubleStorage",
    np.dtype("i8"): "LongStorage",
    np.dtype(ml_dtypes.bfloat16): "BFloat16Storage",
}


class Tensor:
    """Stands for a torch tensor when it is pickled."""

    def __init__(self, key, storage, shape=None, strides=None, offset=0):
        self.key, self.storage = key, storage
        self.shape = storage.shape if shape is None else shape
        if strides is None:
            steps = np.cumprod([1, *self.shape[:0:-1]])[::-1]
            strides = tuple(int(x) for x in steps[: len(self.shape)])
        self.strides, self.offset = strides, offset

    def __reduce__(self):
        function = sys.modules["torch._utils"]._rebuild_tensor_v2
        storage = ("storage", self.key, self.storage)
        return function, (
            storage,
            self.offset,
            self.shape,
            self.strides,
            False,
            collections.OrderedDict(),
        )


class Pickler(pickle.Pickler):
    def persistent_id(self, value):
        if not (isinstance(value, tuple) and value[:1] == ("storage",)):
            return None
        if len(value) != 3:
            return None
        _, key, array = value
        kind = getattr(sys.modules["torch"], STORAGES[array.dtype])
        return ("storage", kind, key, "cpu", array.size)


@pytest.fixture
def fake_torch(monkeypatch):
    """Modules in whose names the pickles refer to torch."""
    torch, utils = types.ModuleType("torch"), types.ModuleType("torch._utils")
    for name in STORAGES.values():
        kind = type(name, (), {"__module__": "torch"})
        setattr(torch, name, kind)
    for name in ("_rebuild_tensor_v2", "_rebuild_parameter"):
        exec(f"def {name}(*args): raise AssertionError", utils.__dict__)
        getattr(utils, name).__module__ = "torch._utils"
    torch._utils = utils
    monkeypatch.setitem(sys.modules, "torch", torch)
    monkeypatch.setitem(sys.modules, "torch._utils", utils)


def save(path, value, storages=(), protocol=2, members=(), **options):
    program = value
    if not isinstance(value, bytes):
        stream = io.BytesIO()
        Pickler(stream, protocol=protocol).dump(value)
        program = stream.getvalue()
    with zipfile.ZipFile(path, "w", **options) as archive:
        archive.writestr("archive/data.pkl", program)
        for key, array in dict(storages).items():
            archive.writestr(f"archive/data/{key}", array.tobytes())
        for name, content in members:
            archive.writestr(name, content)
    return path


@pytest.mark.parametrize("protocol", [2, 3, 4, 5])
def test_tensors_of_every_kind(tmp_path, fake_torch, protocol):
    matrix = np.arange(12, dtype="f4").reshape(3, 4)
    half = np.asarray([1.5], "f2")
    brain = np.asarray([2.5, -1], ml_dtypes.bfloat16)
    ids = np.arange(3)
    storages = {"0": matrix, "1": half, "2": brain, "3": ids}
    state = collections.OrderedDict(
        a=Tensor("0", matrix),
        shared=Tensor("0", matrix),
        transposed=Tensor("0", matrix, (4, 3), (1, 4)),
        row=Tensor("0", matrix, (4,), (1,), 4),
        scalar=Tensor("1", half, (), ()),
        brain=Tensor("2", brain),
        ids=Tensor("3", ids),
    )
    state._metadata = {"version": 1}
    path = save(tmp_path / "m.bin", state, storages, protocol)
    found = torch_files.TorchFile(path)
    assert list(found.entries) == list(state)
    assert found.read("a").tolist() == matrix.tolist()
    assert found.read("shared").tolist() == matrix.tolist()
    assert found.read("transposed").tolist() == matrix.T.tolist()
    assert found.read("row").tolist() == matrix[1].tolist()
    assert found.read("scalar").shape == () and found.read("scalar") == 1.5
    assert found.read("brain").astype("f4").tolist() == [2.5, -1]
    assert found.read("ids").dtype == np.int64


@pytest.mark.parametrize("key", ["state_dict", "model"])
def test_the_weights_of_a_training_checkpoint(tmp_path, fake_torch, key):
    x = np.ones(2, "f4")
    saved = {key: {"w": Tensor("0", x)}, "epoch": 3, "lr": 0.1, "none": None}
    path = save(tmp_path / "m.bin", saved, {"0": x})
    assert list(torch_files.TorchFile(path).entries) == ["w"]


class Evil:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize("protocol", [0, 1, 2, 4])
def test_nothing_is_run(tmp_path, fake_torch, protocol):
    mark = tmp_path / "run"
    for function, argument in (
        (os.system, f"touch {mark}"),
        (os.mkdir, str(mark)),
        (eval, f"open({str(mark)!r}, 'w')"),
    ):
        evil = Evil(function, argument)
        for value in (evil, {"w": evil}, [evil], {"w": (evil, 1)}):
            path = save(tmp_path / "evil.bin", value, protocol=protocol)
            with pytest.raises(CheckpointError, match=r"evil\.bin: refused"):
                torch_files.TorchFile(path)
    assert not mark.exists()


def test_what_would_be_called_is_named(tmp_path, fake_torch):
    path = save(tmp_path / "evil.bin", Evil(os.system, "true"))
    with pytest.raises(CheckpointError, match=r"a call of (posix|nt).system"):
        torch_files.TorchFile(path)


def test_the_machines_other_instructions(tmp_path):
    for program in (
        b"cos\nsystem\n(S'true'\ntR.",  # strings of protocol 0
        b"(S'true'\nios\nsystem\n.",  # INST
        b"(cos\nsystem\nX\x04\x00\x00\x00trueo.",  # OBJ
        b"\x80\x02cos\nsystem\n)\x81.",  # NEWOBJ
        b"\x80\x02\x82\x01.",  # EXT1
        b"\x80\x05\x97.",  # NEXT_BUFFER
        b"P0\n.",  # PERSID
    ):
        path = save(tmp_path / "evil.bin", program)
        with pytest.raises(CheckpointError, match=r"evil\.bin"):
            torch_files.TorchFile(path)


def test_a_program_that_would_take_forever(tmp_path):
    # Thirty times a tuple of twice the last one: 2**30 leaves.
    nested = b"\x80\x02)" + b"q\x00h\x00\x86" * 30
    call = b"ctorch._utils\n_rebuild_tensor_v2\n"
    for program in (
        b"\x80\x02}" + nested[2:] + b"K\x01s.",  # as the key of a dict
        nested + b"Q.",  # as a storage
        b"\x80\x02" + call + b"(" + nested[2:] + b"K\x00))tR.",
    ):
        path = save(tmp_path / "evil.bin", program)
        with pytest.raises(CheckpointError, match="refused"):
            torch_files.TorchFile(path)


def test_broken_programs(tmp_path):
    for program in (
        b"",
        b".",
        b"\x80\x02",
        b"\x80\x02}",
        b"\x80\x02h\x07.",
        b"\x80\x02R.",
        b"\x80\x02t.",
        b"\x80\x02K\x01K\x02s.",
        b"\x80\x02}K\x01s.",
        b"\x80\x02X\xff\xff\xff\x7fabc.",
        b"\x80\x02r\xff\xff\xff\xff.",
        b"garbage",
    ):
        path = save(tmp_path / "bad.bin", program)
        with pytest.raises(CheckpointError, match=r"bad\.bin"):
            torch_files.TorchFile(path)
    path = save(tmp_path / "bad.bin", b"\x80\x02K\x01.")
    with pytest.raises(CheckpointError, match="no tensors by name"):
        torch_files.TorchFile(path)


@pytest.mark.parametrize(
    ("shape", "strides", "offset"),
    [
        ((5,), (1,), 0),
        ((2, 2), (4, 1), 0),
        ((1,), (1,), 4),
        ((2,), (-1,), 1),
        ((-1,), (1,), 0),
        ((2,), (1, 1), 0),
        ((2**40,), (2**40,), 0),
    ],
)
def test_views_beyond_their_storage(
    tmp_path, fake_torch, shape, strides, offset
):
    x = np.ones(4, "f4")
    tensor = Tensor("0", x, shape, strides, offset)
    path = save(tmp_path / "m.bin", {"w": tensor}, {"0": x})
    with pytest.raises(CheckpointError, match="refused"):
        torch_files.TorchFile(path)


def test_members_that_lead_elsewhere(tmp_path, fake_torch):
    x = np.ones(4, "f4")
    path = save(
        tmp_path / "m.bin",
        {"w": Tensor("../../secret", x)},
        members=[("archive/data/../../secret", x.tobytes())],
    )
    # Names are keys of the archive; no file of that name is touched.
    assert torch_files.TorchFile(path).read("w").tolist() == [1, 1, 1, 1]
    assert sorted(x.name for x in tmp_path.iterdir()) == ["m.bin"]
    assert not (tmp_path.parent / "secret").exists()


def test_values_that_are_not_what_they_should_be(tmp_path, fake_torch):
    x = np.ones(4, "f4")
    path = save(tmp_path / "m.bin", {"w": Tensor("0", x)})
    with pytest.raises(CheckpointError, match="data/0 is missing"):
        torch_files.TorchFile(path).read("w")
    path = save(tmp_path / "m.bin", {"w": Tensor("0", x)}, {"0": x[:2]})
    with pytest.raises(CheckpointError, match="8 bytes, expected 16"):
        torch_files.TorchFile(path).read("w")
    options = {"compression": zipfile.ZIP_DEFLATED}
    path = save(tmp_path / "m.bin", {}, **options)
    with pytest.raises(CheckpointError, match="compressed"):
        torch_files.TorchFile(path)
    path = save(tmp_path / "m.bin", {}, members=[("archive/byteorder", "big")])
    with pytest.raises(CheckpointError, match="little endian"):
        torch_files.TorchFile(path)
    path = save(tmp_path / "m.bin", {}, members=[("other/data.pkl", b"")])
    with pytest.raises(CheckpointError, match="2 files"):
        torch_files.TorchFile(path)


def test_a_flipped_bit_is_noticed(tmp_path, fake_torch):
    x = np.full(64, 3.25, "f4")
    path = save(tmp_path / "m.bin", {"w": Tensor("0", x)}, {"0": x})
    content = bytearray(path.read_bytes())
    place = content.index(x.tobytes()) + 100
    content[place] ^= 4
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"m\.bin: damaged"):
        torch_files.TorchFile(path).read("w")


def test_truncations(tmp_path, fake_torch):
    x = np.ones(4, "f4")
    path = save(tmp_path / "m.bin", {"w": Tensor("0", x)}, {"0": x})
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"m\.bin"):
            torch_files.TorchFile(path)


def test_the_old_format_is_named(tmp_path):
    path = tmp_path / "old.bin"
    path.write_bytes(pickle.dumps({"a": 1}, protocol=2))
    with pytest.raises(CheckpointError, match=r"before 1\.6"):
        torch_files.TorchFile(path)
