"""`CheckpointManager`: orbit's idea of a manager over name-based files."""

import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from bert_tf.checkpoint.locating import known_prefixes, latest_checkpoint
from bert_tf.checkpoint.names import GLOBAL_STEP
from bert_tf.checkpoint.reading import restore_variables
from bert_tf.checkpoint.writing import sweep_temporaries, write_checkpoint

_logger = logging.getLogger("bert_tf")


class _Restorer:
    """Stands where orbit expects the manager's `tf.train.Checkpoint`."""

    def __init__(self, restore: Callable[[str], Any]):
        self.restore = restore


class CheckpointManager(tf.train.CheckpointManager):
    """Saves and restores a run's variables under their official names.

    It is a `tf.train.CheckpointManager` because `orbit.Controller` insists on
    that class; none of the base's own reading or writing is used.

    Leftovers of an interrupted save are removed when it is made, so only one
    may be at work in a folder.

    Args:
      directory: the run's output folder.
      step_counter: int64 scalar, the number of updates done.
      tensors_fn: gives the variables to save by official name, slots included.
        It is called at each save and restore, so slots may be made late.
      restore_fn: takes a prefix and restores from it, the step included. By
        default every variable of `tensors_fn` and the step must be in the
        file.
      interval: a save that checks the interval needs as many steps since the
        last one. None: `orbit.Controller` saves nothing.
      keep_max: how many checkpoints to keep; None, 0 or less keeps all.
      sidecar_fn: gives what else a resume needs, as a JSON object; it is
        called at each save. `read_sidecar` reads it back.
      init_fn: called by `restore_or_initialize` if there is no checkpoint.
      is_chief: whether this process writes; the others of a run on several
        machines only keep pace.
    """

    def __init__(
        self,
        directory: str | os.PathLike,
        step_counter: tf.Variable,
        tensors_fn: Callable[[], Mapping[str, tf.Variable]],
        *,
        restore_fn: Callable[[str], Any] | None = None,
        interval: int | None = None,
        keep_max: int | None = 5,
        sidecar_fn: Callable[[], Mapping[str, Any]] | None = None,
        init_fn: Callable[[], Any] | None = None,
        is_chief: bool = True,
    ):
        super().__init__(
            checkpoint=_Restorer(self._restore),
            directory=os.fspath(directory),
            max_to_keep=None,
            checkpoint_name="model.ckpt",
            step_counter=step_counter,
            checkpoint_interval=interval,
        )
        self._counter = step_counter
        self._tensors_fn = tensors_fn
        self._restore_fn = restore_fn or self._restore_all
        self._sidecar_fn = sidecar_fn
        self._initialize = init_fn
        self._keep_max = keep_max
        self._is_chief = is_chief
        self._saved_step: int | None = None
        self._interval_start = int(step_counter.numpy())
        if is_chief:
            sweep_temporaries(self.directory)

    @property
    def latest_checkpoint(self) -> str | None:
        """The prefix of the newest whole checkpoint in the folder."""
        return latest_checkpoint(self.directory)

    @property
    def checkpoints(self) -> list[str]:
        """Prefixes that the folder's state file lists, oldest first."""
        return known_prefixes(self.directory)

    def save(
        self,
        checkpoint_number: int | tf.Variable | None = None,
        check_interval: bool = True,
        options: tf.train.CheckpointOptions | None = None,
    ) -> str | None:
        """Writes a checkpoint if it is time to.

        Args:
          checkpoint_number: the step in the name; the step counter's value by
            default.
          check_interval: whether to wait until the interval has passed.
          options: not used; orbit passes it.

        Returns:
          The prefix; None if nothing was written, because it was not time,
          because this step has been saved, or because another process writes.

        Raises:
          CheckpointError: (a ValueError) see `write_checkpoint`.
        """
        del options
        if checkpoint_number is None:
            checkpoint_number = self._counter
        # A mirrored variable is no number by itself.
        step = int(tf.convert_to_tensor(checkpoint_number))
        if step == self._saved_step:
            return None
        due = self._interval_start + (self.checkpoint_interval or 0)
        if check_interval and step < due:
            return None
        # Every process reads the variables: on several machines reading can
        # be a collective operation.
        tensors = self._tensors_fn()
        sidecar = self._sidecar_fn() if self._sidecar_fn else None
        prefix = None
        if self._is_chief:
            prefix = write_checkpoint(
                self.directory,
                step,
                tensors,
                self._keep_max,
                sidecar=sidecar,
            )
        self._saved_step = self._interval_start = step
        return prefix

    def restore_or_initialize(self) -> str | None:
        """Restores the latest checkpoint, or calls `init_fn` without one.

        Returns:
          The prefix restored from, or None.

        Raises:
          CheckpointError: (a ValueError) the checkpoint is damaged or belongs
            to another model.
        """
        prefix = self.latest_checkpoint
        if prefix is not None:
            self._restore(prefix)
            self._saved_step = int(self._counter.numpy())
        elif self._initialize is not None:
            self._initialize()
        self._interval_start = int(self._counter.numpy())
        return prefix

    def sync(self) -> None:
        """Nothing to wait for: saving is done when `save` returns."""

    def _restore(self, prefix: str) -> None:
        self._restore_fn(prefix)

    def _restore_all(self, prefix: str) -> None:
        variables = {GLOBAL_STEP: self._counter, **self._tensors_fn()}
        restore_variables(variables, prefix)
