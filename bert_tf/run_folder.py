"""The run folder: what explains a trained model beside its weights."""

import importlib.metadata
import json
import logging
import os
import sys
from collections.abc import Mapping
from typing import Any

from bert_tf import __version__, files
from bert_tf.config import BertConfig

RUN_FILE = "run.json"
CONFIG_FILE = "bert_config.json"
VOCAB_FILE = "vocab.txt"
LABELS_FILE = "labels.txt"
BEST_FOLDER = "best"
# What makes a folder another model's: the rest may change from run to run.
_IDENTITY = ("task", "kind", "labels", "do_lower_case", "use_next_sentence")

_logger = logging.getLogger("bert_tf")


def path_in(folder: str, name: str) -> str:
    """Joins a folder, local or remote, and a name."""
    if files.is_remote(folder):
        return f"{folder.rstrip('/')}/{name}"
    return os.path.join(folder, name)


def existing(folder: str, name: str) -> str | None:
    """The path of a file of the folder, or None if there is none."""
    path = path_in(folder, name)
    return path if files.exists(path) else None


def read_run(folder: str) -> dict[str, Any]:
    """Reads `run.json`; empty if there is none, as in the original's runs.

    Raises:
      ValueError: the file is no JSON object.
    """
    path = existing(folder, RUN_FILE)
    if path is None:
        return {}
    try:
        record = json.loads(files.read_bytes(path))
    except ValueError as error:
        raise ValueError(f"{path}: not JSON: {error}") from None
    if not isinstance(record, dict):
        raise ValueError(f"{path}: expected a JSON object")
    return record


def best_checkpoint(folder: str) -> str | None:
    """The best weights that a folder's training has kept (`--best_metric`).

    Returns:
      The checkpoint's prefix; None if the last training kept none, so that
      the folder's latest checkpoint counts.
    """
    from bert_tf.checkpoint import latest_checkpoint

    if not read_run(folder).get("best_metric"):
        return None
    return latest_checkpoint(path_in(folder, BEST_FOLDER))


def versions() -> dict[str, str]:
    """Versions of Python and of the packages that numbers depend on."""
    found = {"python": sys.version.split()[0], "bert_tf": __version__}
    for name in ("tensorflow", "keras", "numpy"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def check_identity(folder: str, record: Mapping[str, Any]) -> None:
    """Refuses a folder that another task, casing or label list has used.

    Raises:
      ValueError: names what differs, both values and the folder.
    """
    old = read_run(folder)
    for key in _IDENTITY:
        if key in old and key in record and old[key] != record[key]:
            raise ValueError(
                f"--output_dir={folder} holds a model with "
                f"{key.replace('_', ' ')} {old[key]!r}, this run has "
                f"{record[key]!r}; choose another folder"
            )


def write_run(
    folder: str,
    record: Mapping[str, Any],
    config: BertConfig,
    vocab_file: str | None,
) -> None:
    """Writes everything that later use of the folder needs.

    Args:
      folder: made if absent.
      record: JSON values: the task's description, casing, lengths, flags.
      config: the architecture.
      vocab_file: the vocabulary to copy, byte for byte, or None.
    """
    files.make_dirs(folder)
    config.save(path_in(folder, CONFIG_FILE))
    if vocab_file:
        _copy(vocab_file, path_in(folder, VOCAB_FILE))
    if record.get("labels"):
        with files.atomic_write(path_in(folder, LABELS_FILE)) as stream:
            stream.writelines(f"{label}\n" for label in record["labels"])
    with files.atomic_write(path_in(folder, RUN_FILE)) as stream:
        json.dump(
            {**record, "versions": versions()},
            stream,
            indent=2,
            ensure_ascii=False,
        )
        stream.write("\n")


def _copy(source: str, target: str) -> None:
    same = not files.is_remote(source) and not files.is_remote(target)
    if same and os.path.abspath(source) == os.path.abspath(target):
        return
    with files.atomic_write(target, "wb") as stream:
        stream.write(files.read_bytes(source))


def check_writable(folder: str) -> None:
    """Makes the folder and writes to it once.

    Raises:
      ValueError: it cannot be written.
    """
    probe = path_in(folder, ".write_check")
    try:
        files.make_dirs(folder)
        with files.open_file(probe, "w") as stream:
            stream.write("")
        files.remove(probe)
    except Exception as error:
        raise ValueError(
            f"--output_dir={folder} cannot be written: {error}"
        ) from error
