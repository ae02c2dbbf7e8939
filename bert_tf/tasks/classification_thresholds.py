"""Probabilities from which a label counts, stored beside the model.

In multi-label each label has its own; `--do_eval` finds them.
"""

import logging
import math
from collections.abc import Sequence

from bert_tf.run_folder import path_in
from bert_tf.tasks.found_values import read_found, write_found

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
    by_label = dict(zip(labels, map(float, thresholds), strict=True))
    values = {"thresholds": by_label, "part": part}
    return write_found(folder, THRESHOLDS_FILE, values, checkpoint)


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
    record = read_found(
        folder,
        THRESHOLDS_FILE,
        checkpoint,
        f"a label counts from {DEFAULT:g} (--do_eval --threshold={TUNE} finds "
        "the best)",
    )
    if record is None:
        return None
    path = path_in(folder, THRESHOLDS_FILE)
    try:
        found = record["thresholds"]
        values = [float(found[label]) for label in labels]
        part = record["part"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"{path}: expected a threshold for each of {', '.join(labels)}, "
            f"found something else ({error!r})"
        ) from None
    _logger.info("thresholds of the labels are the best on %s (%s)", part, path)
    return values
