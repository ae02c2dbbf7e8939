"""What an evaluation has found for one checkpoint, stored for its later use."""

import json
import logging
from collections.abc import Mapping
from typing import Any

from bert_tf import files
from bert_tf.run_folder import existing, path_in

_CHECKPOINT = "checkpoint"

_logger = logging.getLogger("bert_tf")


def write_found(
    folder: str, name: str, values: Mapping[str, Any], checkpoint: str | None
) -> str:
    """Stores values that hold for a checkpoint.

    Args:
      folder: the run folder.
      name: of the file.
      values: JSON values.
      checkpoint: see `Task.use_checkpoint`.

    Returns:
      The path of the file.
    """
    path = path_in(folder, name)
    with files.atomic_write(path) as stream:
        record = {**values, _CHECKPOINT: checkpoint}
        json.dump(record, stream, indent=2, ensure_ascii=False)
        stream.write("\n")
    return path


def read_found(
    folder: str, name: str, checkpoint: str | None, instead: str
) -> dict[str, Any] | None:
    """Reads what `write_found` has stored, if it holds for a checkpoint.

    Args:
      folder: the run folder.
      name: of the file.
      checkpoint: the one in use.
      instead: what happens where it was found for another, for the warning.

    Returns:
      None if nothing is stored, or, with a warning, what was found for
      another checkpoint.

    Raises:
      ValueError: the file is damaged.
    """
    path = existing(folder, name)
    if path is None:
        return None
    try:
        record = json.loads(files.read_bytes(path))
        stored_for = record[_CHECKPOINT]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected a JSON object that names its {_CHECKPOINT!r}, "
            f"found something else ({error!r})"
        ) from None
    if stored_for == checkpoint:
        return record
    _logger.warning(
        "%s was found for %s and is not used for %s: %s",
        path,
        stored_for,
        checkpoint,
        instead,
    )
    return None
