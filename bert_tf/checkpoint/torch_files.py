"""Reads `pytorch_model.bin` without running anything that it contains.

Such a file is a zip archive: `data.pkl` says which tensors there are, as a
program for Python's pickle machine, and `data/<key>` holds their values. That
program may call any function. Here it is never run: its few instructions that
build dicts and tensors are followed, and at any other one the file is refused.
Nothing is unpacked to disk. Source: PyTorch, `torch/serialization.py` and
`torch/_utils.py`; the instructions, Python's `pickletools`.
"""

import dataclasses
import io
import os
import pickletools
import zipfile
from typing import Any

import ml_dtypes
import numpy as np

from bert_tf import files
from bert_tf.checkpoint.report import CheckpointError

_PROGRAM_LIMIT = 64 << 20  # bytes
_STORAGES = {
    "FloatStorage": np.dtype("<f4"),
    "DoubleStorage": np.dtype("<f8"),
    "HalfStorage": np.dtype("<f2"),
    "BFloat16Storage": np.dtype(ml_dtypes.bfloat16),
    "LongStorage": np.dtype("<i8"),
    "IntStorage": np.dtype("<i4"),
    "ShortStorage": np.dtype("<i2"),
    "CharStorage": np.dtype("i1"),
    "ByteStorage": np.dtype("u1"),
    "BoolStorage": np.dtype("?"),
}
_MARK = object()


@dataclasses.dataclass(frozen=True)
class _Global:
    """A function or class that the program names; never looked up."""

    name: str


@dataclasses.dataclass(frozen=True)
class Storage:
    """Values of one archive member."""

    key: str
    dtype: np.dtype
    count: int


@dataclasses.dataclass(frozen=True)
class View:
    """A tensor: a storage seen with offset, shape and strides, in values."""

    storage: Storage
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]

    @property
    def dtype(self) -> np.dtype:
        """The dtype of the values."""
        return self.storage.dtype


class _Refused(Exception):
    """The program does what no file of tensors needs."""


class _Program:
    """Follows a pickle program; builds dicts, lists, tuples and `View`s."""

    def __init__(self):
        self.stack: list[Any] = []
        self.memo: dict[int, Any] = {}

    def run(self, program: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(io.BytesIO(program)):
            if opcode.name == "STOP":
                return self.stack.pop()
            self._step(opcode.name, argument)
        raise _Refused("no end")

    def _step(self, name: str, argument: Any) -> None:
        stack = self.stack
        if name in ("PROTO", "FRAME"):
            return
        if name in _CONSTANTS:
            stack.append(_CONSTANTS[name]())
        elif name in _LITERALS:
            stack.append(argument)
        elif name in ("PUT", "BINPUT", "LONG_BINPUT"):
            self.memo[argument] = stack[-1]
        elif name == "MEMOIZE":
            self.memo[len(self.memo)] = stack[-1]
        elif name in ("GET", "BINGET", "LONG_BINGET"):
            stack.append(self.memo[argument])
        elif name == "GLOBAL":
            stack.append(_Global(argument.replace(" ", ".")))
        elif name == "STACK_GLOBAL":
            attribute, module = stack.pop(), stack.pop()
            stack.append(_Global(f"{module}.{attribute}"))
        elif name in ("TUPLE", "TUPLE1", "TUPLE2", "TUPLE3"):
            count = int(name[5:]) if name[5:] else None
            stack.append(tuple(self._pop(count)))
        elif name in ("APPEND", "APPENDS"):
            items = self._pop(1 if name == "APPEND" else None)
            self._top(list).extend(items)
        elif name in ("SETITEM", "SETITEMS"):
            items = self._pop(2 if name == "SETITEM" else None)
            _fill(self._top(dict), zip(items[::2], items[1::2], strict=True))
        elif name == "BINPERSID":
            stack.append(_storage(stack.pop()))
        elif name == "REDUCE":
            arguments, function = stack.pop(), stack.pop()
            stack.append(_build(function, arguments))
        elif name == "BUILD":
            stack.pop()  # attributes of a dict, such as _metadata: not needed
        else:
            raise _Refused(f"the instruction {name}")

    def _pop(self, count: int | None) -> list[Any]:
        """The top values; those above the last mark if there is no count."""
        if count is None:
            place = len(self.stack) - 1
            while self.stack[place] is not _MARK:
                place -= 1
                if place < 0:
                    raise _Refused("a mark that is not there")
            values = self.stack[place + 1 :]
            del self.stack[place:]
            return values
        values = self.stack[len(self.stack) - count :]
        del self.stack[len(self.stack) - count :]
        if len(values) < count:
            raise _Refused("values that are not there")
        return values

    def _top(self, kind: type) -> Any:
        if not isinstance(self.stack[-1], kind):
            raise _Refused(f"no {kind.__name__} where one is filled")
        return self.stack[-1]


_CONSTANTS = {
    "MARK": lambda: _MARK,
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_TUPLE": tuple,
}
_LITERALS = {
    *("BININT", "BININT1", "BININT2", "INT", "LONG", "LONG1", "LONG4"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "UNICODE"),
    *("BINFLOAT", "FLOAT"),
}


def _storage(persistent_id: Any) -> Storage:
    try:
        kind, storage_type, key, _, count = persistent_id
        dtype = _STORAGES[storage_type.name.removeprefix("torch.")]
    except (TypeError, ValueError, KeyError, AttributeError):
        raise _Refused("a storage of unknown kind") from None
    if kind != "storage" or not isinstance(key, str) or not _whole(count):
        raise _Refused("a storage that makes no sense")
    return Storage(key, dtype, count)


def _fill(target: dict, pairs: Any = ()) -> dict:
    # Not any key: to hash or to print what a hostile program has nested can
    # take forever.
    for key, value in pairs:
        if not isinstance(key, (str, int)):
            raise _Refused("a dict whose keys are no names")
        target[key] = value
    return target


def _whole(*values: Any) -> bool:
    return all(type(x) is int and x >= 0 for x in values)


def _build(function: Any, arguments: Any) -> Any:
    """What a call would give, for the calls that a file of tensors needs."""
    name = getattr(function, "name", type(function).__name__)
    if isinstance(arguments, tuple):
        if name in (
            "torch._utils._rebuild_tensor_v2",
            "torch._utils._rebuild_tensor",
        ):
            return _view(*arguments[:4])
        if name == "torch._utils._rebuild_parameter" and arguments:
            return arguments[0]
        if name == "collections.OrderedDict":
            return _fill({}, *arguments)
    raise _Refused(f"a call of {name[:80]}")


def _view(storage: Any, offset: Any, shape: Any, strides: Any) -> View:
    if not (
        isinstance(storage, Storage)
        and isinstance(shape, tuple)
        and isinstance(strides, tuple)
        and len(shape) == len(strides)
        and _whole(offset, *shape, *strides)
    ):
        raise _Refused("a tensor that makes no sense")
    last = offset + sum(
        (size - 1) * step for size, step in zip(shape, strides, strict=True)
    )
    if 0 not in shape and last >= storage.count:
        raise _Refused("a tensor that reaches beyond its storage")
    return View(storage, offset, shape, strides)


class TorchFile:
    """A `.bin` or `.pt` file of tensors by name.

    Attributes:
      path: the file.
      entries: name -> `View`.

    Raises:
      CheckpointError: (a ValueError) the file is damaged, of the time before
        zip archives (PyTorch 1.6), or holds a program that does more than
        build tensors; names the file.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = os.fspath(path)
        with files.open_file(self.path, "rb") as stream:
            if stream.read(4) != b"PK\x03\x04":
                raise CheckpointError(
                    f"{self.path}: no zip archive, so damaged or written by "
                    "PyTorch before 1.6; write it again with a newer "
                    "torch.save, or better as model.safetensors"
                )
            with self._open(stream) as archive:
                self._root = self._find_root(archive)
                program = self._member(archive, "data.pkl")
                order = self._member(archive, "byteorder", b"little")
        if order != b"little":
            raise CheckpointError(f"{self.path}: values are not little endian")
        try:
            found = _Program().run(program)
        except _Refused as error:
            raise CheckpointError(
                f"{self.path}: refused, its program has {error}; a file of "
                "weights needs none. Only use it if you trust it, and convert "
                "it to model.safetensors first"
            ) from None
        except (ValueError, TypeError, LookupError) as error:
            raise CheckpointError(
                f"{self.path}: damaged, data.pkl cannot be followed: {error}"
            ) from None
        self.entries = self._tensors(found)

    def read(self, name: str) -> np.ndarray:
        """Reads one tensor.

        Raises:
          CheckpointError: (a ValueError) its values are absent or damaged.
        """
        view = self.entries[name]
        storage = view.storage
        size = storage.count * storage.dtype.itemsize
        with (
            files.open_file(self.path, "rb") as stream,
            self._open(stream) as archive,
        ):
            data = self._member(archive, f"data/{storage.key}", limit=size)
        if len(data) != size:
            raise CheckpointError(
                f"{self.path}: the values of {name} are {len(data)} bytes, "
                f"expected {size}"
            )
        step = storage.dtype.itemsize
        return np.ndarray(
            view.shape,
            storage.dtype,
            data,
            view.offset * step,
            tuple(x * step for x in view.strides),
        )

    def _open(self, stream) -> zipfile.ZipFile:
        try:
            return zipfile.ZipFile(stream)
        except (zipfile.BadZipFile, ValueError, OSError) as error:
            raise CheckpointError(
                f"{self.path}: damaged or cut short, no zip archive: {error}"
            ) from None

    def _member(
        self,
        archive: zipfile.ZipFile,
        name: str,
        default: bytes | None = None,
        limit: int = _PROGRAM_LIMIT,
    ) -> bytes:
        try:
            info = archive.getinfo(self._root + name)
        except KeyError:
            if default is not None:
                return default
            raise CheckpointError(
                f"{self.path}: damaged, {self._root}{name} is missing"
            ) from None
        # PyTorch never compresses; what does could grow without bound.
        if info.compress_type != zipfile.ZIP_STORED or info.file_size > limit:
            raise CheckpointError(
                f"{self.path}: {info.filename} is compressed, or has "
                f"{info.file_size} bytes where {limit} are allowed"
            )
        try:
            return archive.read(info)
        except (zipfile.BadZipFile, EOFError, RuntimeError) as error:
            raise CheckpointError(
                f"{self.path}: damaged, {info.filename} cannot be read: {error}"
            ) from None

    def _find_root(self, archive: zipfile.ZipFile) -> str:
        programs = [
            name
            for name in archive.namelist()
            if name.count("/") == 1 and name.endswith("/data.pkl")
        ]
        if len(programs) != 1:
            raise CheckpointError(
                f"{self.path}: a zip archive with {len(programs)} files "
                "data.pkl, expected one: not written by torch.save"
            )
        return programs[0].removesuffix("data.pkl")

    def _tensors(self, found: Any) -> dict[str, View]:
        """The tensors by name; of a training checkpoint, its state_dict."""
        for key in ("state_dict", "model"):
            if isinstance(found, dict) and isinstance(found.get(key), dict):
                found = found[key]
        if not isinstance(found, dict):
            raise CheckpointError(f"{self.path}: no tensors by name in it")
        return {
            name: value
            for name, value in found.items()
            if isinstance(name, str) and isinstance(value, View)
        }
