"""Writes checkpoints in the original's layout, all or nothing.

Everything is written under a temporary folder first. Then the data file, what
lies beside the checkpoint and the index are renamed, in this order, and the
folder's state file is replaced last. A process may be killed anywhere between:
the state file still names the last good checkpoint.
"""

import contextlib
import json
import logging
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from bert_tf import files
from bert_tf.checkpoint.locating import (
    join,
    known_prefixes,
    latest_checkpoint,
    split,
)
from bert_tf.checkpoint.names import GLOBAL_STEP, checkpoint_names
from bert_tf.checkpoint.report import CheckpointError

if TYPE_CHECKING:
    import keras

_DATA_SUFFIX = ".data-00000-of-00001"
_SIDECAR_SUFFIX = ".json"
_TEMPORARY_FOLDER = re.compile(r".+_temp_[0-9a-f]{12,32}")
_TEMPORARY_FILE = re.compile(r"(checkpoint|.+\.json)\.[0-9a-f]{8}\.tmp")

_logger = logging.getLogger("bert_tf")


def save_checkpoint(model: "keras.Model", prefix: str | os.PathLike) -> str:
    """Writes a model's weights, as the released checkpoints hold them.

    No optimizer state, no step, and no state file beside it.

    Args:
      model: a built model.
      prefix: for example `out/bert_model.ckpt`; the folder is made.

    Returns:
      The prefix.

    Raises:
      CheckpointError: (a ValueError) the files cannot be written.
    """
    prefix = os.fspath(prefix)
    with _explain(prefix):
        _write_files(prefix, checkpoint_names(model), None)
    return prefix


def write_checkpoint(
    folder: str | os.PathLike,
    step: int,
    tensors: Mapping[str, tf.Tensor | tf.Variable],
    keep_max: int | None = 5,
    *,
    basename: str = "model.ckpt",
    sidecar: Mapping[str, Any] | None = None,
) -> str:
    """Writes `<folder>/<basename>-<step>` and makes it the folder's latest.

    Checkpoints that the folder's state file lists are removed, oldest first,
    until `keep_max` remain; others in the folder are left alone.

    Args:
      folder: made if absent.
      step: the number of updates done.
      tensors: what to write, by official name. Floating values are stored as
        float32. `global_step` is added, as int64.
      keep_max: how many checkpoints to keep; None, 0 or less keeps all.
      basename: the part of the prefix before the step.
      sidecar: what else a resume needs, as a JSON object; it is written to
        `<prefix>.json` before the checkpoint counts as written, and is removed
        with it.

    Returns:
      The prefix.

    Raises:
      CheckpointError: (a ValueError) the folder cannot be written or the disk
        is full. The last good checkpoint is still there and is still the
        latest.
    """
    folder = os.fspath(folder)
    prefix = join(folder, f"{basename}-{int(step)}")
    tensors = {**tensors, GLOBAL_STEP: tf.constant(int(step), tf.int64)}
    with _explain(prefix, folder):
        _write_files(prefix, tensors, sidecar)
        known = [x for x in known_prefixes(folder) if x != prefix]
        known = [x for x in known if files.exists(f"{x}.index")]
        kept = known
        if keep_max is not None and keep_max > 0:
            kept = known[len(known) - min(keep_max - 1, len(known)) :]
        _write_state(folder, [*known, prefix])
        dropped = [x for x in known if x not in kept]
        for old in dropped:
            _remove_checkpoint(folder, old)
        if dropped:
            # Only now: had it been first, a process killed in between would
            # leave files that nothing knows and nothing ever removes.
            _write_state(folder, [*kept, prefix])
    return prefix


def read_sidecar(prefix: str | os.PathLike) -> dict[str, Any] | None:
    """Reads what `write_checkpoint` put beside a checkpoint.

    Args:
      prefix: the checkpoint's prefix.

    Returns:
      The JSON object; None if there is none, as with the original's own
      checkpoints.

    Raises:
      CheckpointError: (a ValueError) the file is no JSON object.
    """
    path = f"{os.fspath(prefix)}{_SIDECAR_SUFFIX}"
    if not files.exists(path):
        return None
    try:
        values = json.loads(files.read_bytes(path))
    except ValueError as error:
        raise CheckpointError(f"{path}: damaged, not JSON: {error}") from error
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected a JSON object")
    return values


def sweep_temporaries(folder: str | os.PathLike) -> list[str]:
    """Removes what writers that were killed left in a folder.

    Only for a time at which nobody writes there, such as a run's start.

    Returns:
      The names that were removed.
    """
    folder = os.fspath(folder)
    removed = []
    for name in files.list_dir(folder) if files.is_dir(folder) else ():
        path = join(folder, name)
        if _TEMPORARY_FOLDER.fullmatch(name) and files.is_dir(path):
            files.remove_tree(path)
        elif _TEMPORARY_FILE.fullmatch(name):
            files.remove(path)
        else:
            continue
        removed.append(name)
    if removed:
        _logger.info(
            "%s: removed %d leftovers of an interrupted save: %s",
            folder,
            len(removed),
            ", ".join(removed),
        )
    return removed


@contextlib.contextmanager
def _explain(prefix: str, folder: str | None = None) -> Iterator[None]:
    try:
        yield
    except (tf.errors.OpError, OSError) as error:
        reason = getattr(error, "message", None) or str(error)
        message = (
            f"cannot write the checkpoint {prefix} (disk full, or folder not "
            f"writable?): {reason}"
        )
        if folder is not None:
            message += f"; the last good one is {latest_checkpoint(folder)}"
        raise CheckpointError(message) from error


def _write_files(
    prefix: str,
    tensors: Mapping[str, tf.Tensor | tf.Variable],
    sidecar: Mapping[str, Any] | None,
) -> None:
    """Writes a checkpoint's files; the index, without which it is none, last.

    One SaveV2 gives one data file. Merging parts would bound the host memory
    that a copy from an accelerator takes, but gives as many files as parts.
    """
    folder, base = split(prefix)
    temporary = join(folder, f"{base}_temp_{uuid.uuid4().hex[:12]}")
    suffixes = [_DATA_SUFFIX, ".index"]
    names = sorted(tensors)
    try:
        files.make_dirs(temporary)
        with tf.device("CPU:0"):
            tf.raw_ops.SaveV2(
                prefix=join(temporary, base),
                tensor_names=names,
                shape_and_slices=[""] * len(names),
                tensors=[_stored(name, tensors[name]) for name in names],
            )
        if sidecar is not None:
            path = join(temporary, f"{base}{_SIDECAR_SUFFIX}")
            with files.open_file(path, "w") as stream:
                stream.write(json.dumps(sidecar, indent=2) + "\n")
            suffixes.insert(1, _SIDECAR_SUFFIX)
        # An older checkpoint of this name: its index must never meet the new
        # data.
        for suffix in (".index", _SIDECAR_SUFFIX):
            if files.exists(f"{prefix}{suffix}"):
                files.remove(f"{prefix}{suffix}")
        for suffix in suffixes:
            files.replace(
                join(temporary, f"{base}{suffix}"), f"{prefix}{suffix}"
            )
    finally:
        with contextlib.suppress(OSError, tf.errors.OpError):
            files.remove_tree(temporary)


def _stored(name: str, value: tf.Tensor | tf.Variable) -> tf.Tensor:
    value = tf.convert_to_tensor(value)
    if name == GLOBAL_STEP:
        return tf.cast(value, tf.int64)
    if value.dtype.is_floating:
        return tf.cast(value, tf.float32)
    return value


def _write_state(folder: str, prefixes: list[str]) -> None:
    """Replaces the state file; names inside the folder stay relative."""
    paths = [
        split(path)[1] if path == join(folder, split(path)[1]) else path
        for path in prefixes
    ]
    # With the real folder this function would make the names absolute.
    state = tf.compat.v1.train.generate_checkpoint_state_proto(
        "/", paths[-1], paths
    )
    with files.atomic_write(join(folder, "checkpoint")) as stream:
        stream.write(str(state))


def _remove_checkpoint(folder: str, prefix: str) -> None:
    """Removes a checkpoint's files, the index first.

    Files of another folder, which a state file may name, stay.
    """
    base = split(prefix)[1]
    pattern = re.compile(
        re.escape(base) + r"(\.index|\.meta|\.json|\.data-\d{5}-of-\d{5})"
    )
    names = [x for x in files.list_dir(folder) if pattern.fullmatch(x)]
    for name in sorted(names, key=lambda x: not x.endswith(".index")):
        files.remove(join(folder, name))
