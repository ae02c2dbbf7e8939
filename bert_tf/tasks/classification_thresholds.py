"""Probabilities from which a label counts, stored beside the model.

In multi-label each label has its own; `--do_eval` finds them.
"""

import json
import logging
import math
from collections.abc import Sequence

from bert_tf import files
from bert_tf.run_folder import existing, path_in

THRESHOLDS_FILE = "label_thresholds.json"
DEFAULT = 0.5
TUNE = "tune"

_logger = logging.getLogger("bert_tf")


def parse_threshold(text: str) -> float | str:
    """A flag's value: a probability, or `"tune"`.

    Raises:
      ValueError: neither.
    """
    if text == TUNE:
        return TUNE
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value <= 1:
        raise ValueError(
            f"--threshold is {text!r}, expected a number from 0 to 1, or {TUNE}"
        )
    return value


def write_thresholds(
    folder: str,
    labels: Sequence[str],
    thresholds: Sequence[float],
    part: str,
    checkpoint: str | None,
) -> str:
    """Stores thresholds; returns the path of the file.

    Args:
      folder: the run folder.
      labels: L labels.
      thresholds: [L], in their order.
      part: on which they were found.
      checkpoint: name of the checkpoint that they hold for.
    """
    by_label = zip(labels, map(float, thresholds), strict=True)
    record = {
        "thresholds": dict(by_label),
        "part": part,
        "checkpoint": checkpoint,
    }
    path = path_in(folder, THRESHOLDS_FILE)
    with files.atomic_write(path) as stream:
        json.dump(record, stream, indent=2, ensure_ascii=False)
        stream.write("\n")
    return path


def read_thresholds(
    folder: str, labels: Sequence[str], checkpoint: str | None
) -> list[float] | None:
    """The stored thresholds [L] in label order, if they hold for a checkpoint.

    Args:
      folder: the run folder.
      labels: L labels.
      checkpoint: name of the checkpoint in use.

    Returns:
      None if none are stored, or, with a warning, if they were found for
      another checkpoint.

    Raises:
      ValueError: the file is damaged, or has other labels.
    """
    path = existing(folder, THRESHOLDS_FILE)
    if path is None:
        return None
    try:
        record = json.loads(files.read_bytes(path))
        found = record["thresholds"]
        values = [float(found[label]) for label in labels]
        stored_for, part = record["checkpoint"], record["part"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected a threshold for each of {', '.join(labels)}, "
            f"found something else ({error!r})"
        ) from None
    if stored_for != checkpoint:
        _logger.warning(
            "%s holds thresholds found for %s; they are not used for %s: a "
            "label counts from %g (--do_eval --threshold=%s finds the best)",
            path,
            stored_for,
            checkpoint,
            DEFAULT,
            TUNE,
        )
        return None
    _logger.info("thresholds of the labels are the best on %s (%s)", part, path)
    return values
