"""The outer loop of a training run: resume, steps, checkpoints, logs."""

import functools
import logging
import time

import tensorflow as tf

from bert_tf import optimization
from bert_tf.checkpoint import (
    CheckpointManager,
    latest_checkpoint,
    load_checkpoint,
    read_sidecar,
    read_variables,
)
from bert_tf.data_position import DataPosition
from bert_tf.input_pipeline import train_batches
from bert_tf.modeling import BertBase
from bert_tf.progress import Progress
from bert_tf.settings import RunSettings
from bert_tf.tasks.base import RecordFiles, Task
from bert_tf.training import GLOBAL_STEP, Trainer, TrainState

OPTIMIZERS = {
    "adam": optimization.AdamWeightDecay,
    "lamb": optimization.Lamb,
}
# How long one call into the traced loop should last, so that the bar moves.
_SECONDS_PER_CALL = 1.0

_logger = logging.getLogger("bert_tf")


def steps_done(folder: str) -> int:
    """The step of a folder's latest checkpoint; 0 without one."""
    latest = latest_checkpoint(folder)
    if latest is None:
        return 0
    return int(read_variables(latest, [GLOBAL_STEP])[GLOBAL_STEP])


def train(
    task: Task,
    model: BertBase,
    strategy: tf.distribute.Strategy,
    records: RecordFiles,
    settings: RunSettings,
    init_checkpoint: str | None = None,
) -> TrainState:
    """Trains a model to `settings.last_step`.

    The folder's latest checkpoint is gone on from, slots, step and place in
    the data included; without one the weights come from `init_checkpoint`,
    the slots are zero.

    Args:
      task: gives the loss.
      model: made under the strategy's scope.
      strategy: the devices.
      records: the training data.
      settings: steps and warm-up filled in.
      init_checkpoint: what to start from, or None for random weights.

    Returns:
      The state after the last step, which has been saved.
    """
    with strategy.scope():
        optimizer = OPTIMIZERS[settings.optimizer]()
        state = TrainState.create(task, model, optimizer)
    position = DataPosition(
        records.paths,
        settings.random_seed,
        records.shuffle_buffer,
        settings.train_batch_size,
    )
    manager = CheckpointManager(
        settings.output_dir,
        state.global_step,
        state.tensors,
        interval=settings.save_checkpoints_steps,
        keep_max=settings.keep_checkpoint_max,
        sidecar_fn=lambda: position.sidecar(int(state.global_step.numpy())),
    )
    restored = manager.restore_or_initialize()
    first = int(state.global_step.numpy())
    examples_done = position.resume(
        first, read_sidecar(restored) if restored else None
    )
    if restored is None:
        _initialize(model, init_checkpoint)
        manager.save(check_interval=False)
    dataset = _batches(task, records, settings, examples_done)

    def schedule(step):
        return optimization.learning_rate_at(
            step,
            settings.learning_rate,
            settings.num_train_steps,
            settings.num_warmup_steps or 0,
        )

    _logger.info(
        "%s step %d of %d, learning rate %.3g",
        "resuming at" if restored else "starting at",
        first,
        settings.num_train_steps,
        float(schedule(state.global_step)),
    )
    trainer = Trainer(
        task, state, schedule, strategy, dataset, settings.random_seed
    )
    _loop(trainer, manager, settings, first)
    return state


def _batches(
    task: Task, records: RecordFiles, settings: RunSettings, examples_done: int
) -> tf.data.Dataset:
    return train_batches(
        records.paths,
        task.feature_spec("train"),
        settings.train_batch_size,
        records.num_records,
        settings.random_seed,
        examples_done=examples_done,
        shuffle_buffer=records.shuffle_buffer,
        complete=functools.partial(task.complete_features, "train"),
    )


def _initialize(model: BertBase, init_checkpoint: str | None) -> None:
    if init_checkpoint:
        load_checkpoint(model, init_checkpoint)
    else:
        _logger.warning(
            "no --init_checkpoint: all weights start from random values"
        )


def _loop(
    trainer: Trainer,
    manager: CheckpointManager,
    settings: RunSettings,
    step: int,
) -> None:
    last = settings.last_step
    writer = tf.summary.create_file_writer(settings.output_dir)
    calls = _CallSize(settings)
    with (
        writer.as_default(),
        Progress(
            "train",
            last,
            step,
            settings.train_batch_size,
            settings.log_every_steps,
        ) as progress,
    ):
        while step < last:
            count = calls.next(step)
            start = time.monotonic()
            values = trainer.train(count)
            calls.measured(count, time.monotonic() - start)
            step += count
            rate = float(trainer.schedule(tf.constant(step - 1, tf.int64)))
            progress.update(count, **values, rate=rate)
            values["learning_rate"] = rate
            values["examples_per_second"] = (
                progress.rate * settings.train_batch_size
            )
            for name, value in values.items():
                tf.summary.scalar(name, value, step=step)
            saved = manager.save(check_interval=step < last)
            if saved:
                progress.note(f"saved {saved}")
    writer.close()


class _CallSize:
    """Chooses how many steps one call into the traced loop makes.

    A call ends where a checkpoint or a log line is due, and lasts about a
    second otherwise; the numbers do not depend on it.
    """

    def __init__(self, settings: RunSettings):
        self._settings = settings
        self._wanted = 1

    def next(self, step: int) -> int:
        settings = self._settings
        stops = (
            settings.last_step - step,
            settings.save_checkpoints_steps
            - step % settings.save_checkpoints_steps,
            settings.log_every_steps - step % settings.log_every_steps,
            settings.iterations_per_loop,
        )
        return max(1, min(self._wanted, *stops))

    def measured(self, count: int, seconds: float) -> None:
        fits = int(count * _SECONDS_PER_CALL / max(seconds, 1e-6))
        # The first call traces: it must not stop later ones from growing.
        self._wanted = max(1, min(fits, self._wanted * 4))
