"""How far a run has read its training data, kept beside each checkpoint."""

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

from bert_tf import files

_KEY = "training_data"

_logger = logging.getLogger("bert_tf")


class DataPosition:
    """Counts the records that have been taken from the present data.

    The step alone does not tell: a folder's training may go on with other
    data, as in a second phase with longer sequences, or with another batch
    size.

    Args:
      paths: record files, in order; known again by name and size.
      seed: of the order.
      shuffle_buffer: of the order.
      batch_size: records taken at each step from now on.
    """

    def __init__(
        self,
        paths: Sequence[str],
        seed: int,
        shuffle_buffer: int | None,
        batch_size: int,
    ):
        names = [[os.path.basename(p), files.size(p)] for p in paths]
        described = json.dumps([names, seed, shuffle_buffer])
        self._order = hashlib.sha256(described.encode()).hexdigest()
        self._batch_size = batch_size
        self._first_step = 0
        self._examples_before = 0

    def resume(self, step: int, sidecar: Mapping[str, Any] | None) -> int:
        """Goes on where a checkpoint was saved.

        Args:
          step: of the checkpoint.
          sidecar: what lies beside it; None beside one of the original's.

        Returns:
          Number of examples to pass over: 0 in data other than those that
          the checkpoint was trained on.
        """
        self._first_step = step
        self._examples_before = 0
        stored = (sidecar or {}).get(_KEY, {})
        if stored.get("order") == self._order:
            self._examples_before = int(stored["examples_read"])
        elif step:
            _logger.info(
                "the data are not those that step %d was saved with, or in "
                "another order: they are read from their beginning",
                step,
            )
        return self._examples_before

    def sidecar(self, step: int) -> dict[str, Any]:
        """JSON values to keep beside the checkpoint of a step."""
        new = (step - self._first_step) * self._batch_size
        return {
            _KEY: {
                "order": self._order,
                "examples_read": self._examples_before + new,
            }
        }
