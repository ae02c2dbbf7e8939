"""From what a user types to a checkpoint's prefix.

A checkpoint is several files that share a prefix; no file has the prefix
itself as its name.
"""

import logging
import os
import re

from bert_tf import files
from bert_tf.checkpoint.report import CheckpointError

_DATA = re.compile(r"(?P<base>.+)\.data-\d{5}-of-(?P<shards>\d{5})")
_FILE_SUFFIX = re.compile(r"(\.index|\.meta|\.data-\d{5}-of-\d{5})$")

# What makes a folder one of another format; the suffixes are those of files.
_FOREIGN_FILES = {
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "saved_model.pb",
}
_FOREIGN_SUFFIXES = (".safetensors", ".bin", ".pt", ".pth", ".index.json")

_logger = logging.getLogger("bert_tf")


def join(folder: str, name: str) -> str:
    """Joins with a slash, which every file system and scheme takes."""
    return f"{folder.rstrip('/')}/{name}" if folder.rstrip("/") else name


def split(path: str) -> tuple[str, str]:
    """Folder and name; the folder of a bare name is `.`."""
    folder, name = os.path.split(path)
    return folder or ".", name


def is_foreign(path: str | os.PathLike) -> bool:
    """Tells weights of a format other than TensorFlow's checkpoint files.

    Args:
      path: a folder with Hugging Face weights or a SavedModel, or a file of
        such weights.
    """
    path = os.fspath(path)
    if files.is_dir(path):
        return not _FOREIGN_FILES.isdisjoint(files.list_dir(path))
    return path.endswith(_FOREIGN_SUFFIXES) and files.exists(path)


def _whole_names(folder: str) -> list[str]:
    if not files.is_dir(folder):
        return []
    names = set(files.list_dir(folder))
    shards: dict[str, list[str]] = {}
    for name in names:
        if match := _DATA.fullmatch(name):
            shards.setdefault(match["base"], []).append(match["shards"])
    return [
        base
        for base, counts in sorted(shards.items())
        if f"{base}.index" in names and len(counts) == int(counts[0])
    ]


def list_prefixes(folder: str | os.PathLike) -> list[str]:
    """Prefixes of the whole checkpoints in a folder, sorted.

    A checkpoint is whole when its index and all its data shards are there.
    """
    folder = os.fspath(folder)
    return [join(folder, base) for base in _whole_names(folder)]


def is_whole(prefix: str) -> bool:
    """Tells whether all files of a checkpoint are there."""
    folder, base = split(prefix)
    return base in _whole_names(folder)


def known_prefixes(folder: str | os.PathLike) -> list[str]:
    """Checkpoints that a folder's state file lists, oldest first.

    A checkpoint in the folder wins over the path that the state file kept from
    the place where it was written: folders get copied and moved.

    Raises:
      CheckpointError: (a ValueError) the state file is damaged. To go on
        without it would train from the start, over the run that is there.
    """
    import tensorflow as tf

    folder = os.fspath(folder)
    path = join(folder, "checkpoint")
    if not files.exists(path) or files.is_dir(path):
        return []
    try:
        state = tf.train.get_checkpoint_state(folder)
    except ValueError:
        state = None
    if state is None:
        raise CheckpointError(
            f"{path}: damaged, expected the names of checkpoints. Without "
            f"this file no checkpoint counts as the latest. {_found(folder)}"
        )
    prefixes = {}  # an ordered set; the newest comes last
    for path in [
        *state.all_model_checkpoint_paths,
        state.model_checkpoint_path,
    ]:
        inside = join(folder, split(path)[1])
        if files.exists(f"{inside}.index") or not files.exists(f"{path}.index"):
            path = inside
        prefixes.pop(path, None)
        prefixes[path] = None
    return list(prefixes)


def latest_checkpoint(folder: str | os.PathLike) -> str | None:
    """The newest whole checkpoint that a folder's state file knows.

    Writing ends with the state file, so what a killed process left half done
    is never seen. If files were lost since, the newest of the others is taken
    and a warning says so.

    Args:
      folder: a run's output folder; it need not exist.

    Returns:
      The prefix, or None.
    """
    known = known_prefixes(folder)
    for prefix in reversed(known):
        if is_whole(prefix):
            if prefix != known[-1]:
                _logger.warning(
                    "%s is not there whole, using %s", known[-1], prefix
                )
            return prefix
    if known:
        _logger.warning(
            "%s names %s, but its files are not there whole",
            join(os.fspath(folder), "checkpoint"),
            known[-1],
        )
    return None


def resolve_checkpoint(path: str | os.PathLike) -> str:
    """Finds the prefix of the checkpoint that a user means.

    Args:
      path: a prefix, the name of one of the checkpoint's files, or a folder
        that has one checkpoint or whose state file names the latest. Also a
        Hugging Face folder, the weights in it, or a SavedModel.

    Returns:
      The prefix; the path itself where a format has no prefixes.

    Raises:
      CheckpointError: (a ValueError) no such checkpoint, part of its files
        missing, or a folder with several; the message lists the prefixes that
        were found.
    """
    path = os.fspath(path)
    if not path:
        raise CheckpointError("the checkpoint's path is empty")
    prefix = _FILE_SUFFIX.sub("", path)
    folder, base = split(prefix)
    if base and is_whole(prefix):
        return prefix
    if not files.is_dir(path) and is_foreign(path):
        return path
    if files.is_dir(path):
        return _only_checkpoint(path)
    if not files.is_dir(folder):
        raise CheckpointError(
            f"{path}: no checkpoint, the folder {folder} does not exist"
        )
    raise CheckpointError(
        f"{path}: {_what_is_wrong(path, prefix)}. {_found(folder)}"
    )


def _only_checkpoint(folder: str) -> str:
    latest = latest_checkpoint(folder)
    if latest:
        return latest
    prefixes = list_prefixes(folder)
    if is_foreign(folder) and not prefixes:
        return folder
    if len(prefixes) == 1 and not is_foreign(folder):
        return prefixes[0]
    raise CheckpointError(
        f"{folder}: a folder with {len(prefixes)} checkpoints and no usable "
        f"state file, expected one checkpoint. {_found(folder)}"
    )


def _what_is_wrong(path: str, prefix: str) -> str:
    folder, base = split(prefix)
    names = files.list_dir(folder)
    data = [name for name in names if name.startswith(f"{base}.data-")]
    if f"{base}.index" in names:
        return (
            f"incomplete checkpoint, data files missing beside {base}.index "
            f"(found {', '.join(data) or 'none'})"
        )
    if data:
        return f"incomplete checkpoint, {base}.index is missing"
    if files.exists(path):
        return (
            "a file, but no checkpoint: expected the prefix that .index and "
            ".data-00000-of-00001 share"
        )
    return "no checkpoint of this name"


def _found(folder: str) -> str:
    prefixes = list_prefixes(folder)
    if not prefixes:
        return f"Prefixes found in {folder}: none"
    return f"Prefixes found in {folder}: {', '.join(prefixes)}"
