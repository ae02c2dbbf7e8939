"""The outer loop of a training run: resume, steps, checkpoints, logs."""

import functools
import logging
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from bert_tf import fine_tuning, optimization
from bert_tf.checkpoint import (
    CheckpointManager,
    checkpoint_names,
    latest_checkpoint,
    load_checkpoint,
    read_shapes,
    read_sidecar,
    read_variables,
)
from bert_tf.data_position import DataPosition
from bert_tf.distribution import is_chief, is_multi_worker
from bert_tf.input_pipeline import distribute, train_batches
from bert_tf.modeling import BertBase
from bert_tf.progress import Progress
from bert_tf.settings import RunSettings
from bert_tf.stability import LossScale
from bert_tf.tasks.base import RecordFiles, Task
from bert_tf.training import GLOBAL_STEP, StepOptions, Trainer, TrainState
from bert_tf.watch import StopRequest, Watch

OPTIMIZERS = {
    "adam": optimization.AdamWeightDecay,
    "lamb": optimization.Lamb,
}
# How long one call into the traced loop should last, so that the bar moves.
_SECONDS_PER_CALL = 1.0

# What a collective operation fails with when a peer is gone.
_LOST_WORKER = (
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.UnavailableError,
)

_logger = logging.getLogger("bert_tf")


def steps_done(folder: str) -> int:
    """The step of a folder's latest checkpoint; 0 without one."""
    latest = latest_checkpoint(folder)
    if latest is None:
        return 0
    return int(read_variables(latest, [GLOBAL_STEP])[GLOBAL_STEP])


class Preempted(SystemExit):
    """The run was told to stop by SIGTERM, and has saved its state."""


class WorkerLost(SystemExit):
    """Another worker of the run is gone, and this one cannot go on alone."""


class TrainingRun:
    """Everything of one training, made once; `run` goes to the last step.

    The folder's latest checkpoint is gone on from, slots, step, loss scale
    and place in the data included; without one the weights come from
    `init_checkpoint`, the slots are zero.

    Args:
      task: gives the loss.
      model: made under the strategy's scope.
      strategy: the devices.
      records: the training data.
      settings: steps and warm-up filled in; its `train_batch_size` counts
        records.
      init_checkpoint: what to start from, or None for random weights.
      evaluate: step -> scores, for evaluations during the training.
    """

    def __init__(
        self,
        task: Task,
        model: BertBase,
        strategy: tf.distribute.Strategy,
        records: RecordFiles,
        settings: RunSettings,
        init_checkpoint: str | None = None,
        evaluate: Callable[[int], Mapping[str, Any]] | None = None,
    ):
        self.task = task
        self.strategy = strategy
        self.records = records
        self.settings = settings
        self.init_checkpoint = init_checkpoint
        self._examples_per_step = (
            settings.train_batch_size * records.examples_per_record
        )
        self._chief = is_chief(strategy)
        with strategy.scope():
            self._rate_factors = fine_tuning.learning_rate_factors(
                checkpoint_names(model),
                model.config.num_hidden_layers,
                settings,
            )
            options = {"rate_factors": self._rate_factors}
            if settings.adam_bias_correction:
                options["bias_correction"] = True
            optimizer = OPTIMIZERS[settings.optimizer](**options)
            self.state = TrainState.create(task, model, optimizer)
            self.loss_scale = LossScale(dynamic=settings.dtype == "float16")
        self._position = DataPosition(
            records.paths,
            settings.random_seed,
            records.shuffle_buffer,
            settings.train_batch_size,
        )
        self.manager = CheckpointManager(
            settings.output_dir,
            self.state.global_step,
            self.state.tensors,
            interval=settings.save_checkpoints_steps,
            keep_max=settings.keep_checkpoint_max,
            sidecar_fn=self._sidecar,
            is_chief=self._chief,
        )
        self.watch = Watch(
            settings,
            evaluate,
            functools.partial(checkpoint_names, model),
            self._chief,
        )
        self.accumulation = settings.gradient_accumulation_steps

    def _sidecar(self) -> dict[str, Any]:
        step = int(self.state.global_step.numpy())
        return {**self._position.sidecar(step), **self.loss_scale.sidecar()}

    def _schedule(self, step):
        return optimization.learning_rate_at(
            step,
            self.settings.learning_rate,
            self.settings.num_train_steps,
            self.settings.num_warmup_steps or 0,
        )

    def _restore(self) -> tuple[int, int]:
        """Takes up the latest checkpoint; returns step and examples done."""
        latest = self.manager.latest_checkpoint
        if latest:
            fine_tuning.check_slots(
                latest,
                read_shapes(latest),
                self.state.optimizer.variables,
                self._rate_factors,
            )
        restored = self.manager.restore_or_initialize()
        sidecar = read_sidecar(restored) if restored else None
        step = int(self.state.global_step.numpy())
        examples_done = self._position.resume(step, sidecar)
        self.loss_scale.restore(sidecar or {})
        if restored is None:
            self._initialize()
            self.manager.save(check_interval=False)
        _logger.info(
            "%s step %d of %d, learning rate %.3g",
            "resuming at" if restored else "starting at",
            step,
            self.settings.num_train_steps,
            float(self._schedule(self.state.global_step)),
        )
        return step, examples_done

    def _initialize(self) -> None:
        if self.init_checkpoint:
            model = self.state.model
            with fine_tuning.kept_fresh(
                checkpoint_names(model),
                model.config.num_hidden_layers,
                self.settings.reinit_top_layers,
            ):
                load_checkpoint(model, self.init_checkpoint)
        else:
            _logger.warning(
                "no --init_checkpoint: all weights start from random values"
            )

    def _batches(self, examples_done: int):
        def make(batch_size, share):
            return train_batches(
                self.records.paths,
                self.task.feature_spec("train"),
                batch_size,
                self.records.num_records,
                self.settings.random_seed,
                examples_done=examples_done,
                shuffle_buffer=self.records.shuffle_buffer,
                complete=functools.partial(
                    self.task.complete_features, "train"
                ),
                share=share,
            )

        return distribute(self.strategy, self.settings.train_batch_size, make)

    def run(self) -> TrainState:
        """Trains to the last step; returns the state, which is saved.

        Raises:
          Preempted: SIGTERM came; the state is saved.
          WorkerLost: another worker is gone; the last checkpoint is kept.
          ValueError: the loss has diverged.
        """
        while True:
            step, examples_done = self._restore()
            trainer = Trainer(
                self.task,
                self.state,
                self._schedule,
                self.strategy,
                self._batches(examples_done),
                self.settings.random_seed,
                StepOptions(
                    self.accumulation,
                    self.settings.gradient_reduction,
                    self.settings.jit_compile,
                ),
                self.loss_scale,
            )
            try:
                self._loop(trainer, step)
                return self.state
            except tf.errors.ResourceExhaustedError as error:
                self._split_further(error)
            except _LOST_WORKER as error:
                if not is_multi_worker(self.strategy):
                    raise
                raise WorkerLost(
                    "another worker stopped or cannot be reached: start all "
                    "workers again with the same commands, they go on from "
                    f"{self.manager.latest_checkpoint}. TensorFlow says: "
                    f"{error.message[:300]}"
                ) from error

    def _split_further(self, error) -> None:
        """Makes smaller micro-batches after the memory has run out."""
        settings, what = self.settings, "examples"
        if self.records.num_packed is not None:
            what = "rows"
        replicas = self.strategy.num_replicas_in_sync
        each = settings.train_batch_size // replicas // self.accumulation
        if not settings.auto_batch or each == 1:
            advice = (
                "--recompute"
                if settings.auto_batch
                else ("--auto_batch or --recompute")
            )
            raise ValueError(
                f"out of memory with {each} {what} at a time on a device: "
                "lower --train_batch_size or --max_seq_length, raise "
                f"--gradient_accumulation_steps, or give {advice}. "
                f"TensorFlow says: {error.message[:300]}"
            ) from error
        divisor = next(d for d in range(2, each + 1) if each % d == 0)
        self.accumulation *= divisor
        _logger.warning(
            "out of memory with %d %s at a time on a device: going on "
            "with %d, in %d micro-batches; the updates stay the same",
            each,
            what,
            each // divisor,
            self.accumulation,
        )

    def _loop(self, trainer: Trainer, step: int) -> None:
        settings = self.settings
        last = settings.last_step
        writer = tf.summary.create_noop_writer()
        if self._chief:
            writer = tf.summary.create_file_writer(settings.output_dir)
        calls = _CallSize(settings, self.watch, is_multi_worker(self.strategy))
        first, start = step, time.monotonic()
        with (
            writer.as_default(),
            StopRequest() as stop,
            Progress(
                "train",
                last,
                step,
                self._examples_per_step,
                settings.log_every_steps,
            ) as progress,
        ):
            while step < last:
                count = calls.next(step)
                began = time.monotonic()
                values = trainer.train(count)
                calls.measured(count, time.monotonic() - began)
                step += count
                self._show(progress, values, step, count)
                self.loss_scale.check(settings.max_skipped_steps)
                saved = self.manager.save(
                    check_interval=step < last and not stop.received
                )
                if saved:
                    progress.note(f"saved {saved}")
                if stop.received:
                    raise Preempted(
                        f"stopped by SIGTERM at step {step}, which is saved; "
                        "the same command goes on from there"
                    )
                if self.watch.after(step):
                    self.manager.save(check_interval=False)
                    break
        writer.close()
        self._summarize(step - first, time.monotonic() - start)

    def _show(self, progress, values, step, count) -> None:
        rate = float(self._schedule(tf.constant(step - 1, tf.int64)))
        skipped = self.loss_scale.skipped_in_call()
        if skipped:
            progress.note(
                f"{skipped} update(s) up to step {step} skipped: gradients "
                "not finite"
            )
        progress.update(count, **values, rate=rate)
        values["learning_rate"] = rate
        values["examples_per_second"] = progress.rate * self._examples_per_step
        if self.loss_scale.dynamic:
            values["loss_scale"] = float(self.loss_scale.current())
        for name, value in values.items():
            tf.summary.scalar(name, value, step=step)

    def _summarize(self, steps: int, seconds: float) -> None:
        examples = round(steps * self._examples_per_step)
        rows = {
            "steps": f"{steps:,}",
            "examples": f"{examples:,}",
            "seconds": f"{seconds:,.1f}",
            "examples/s": f"{examples / max(seconds, 1e-9):,.1f}",
            "updates skipped": f"{int(self.loss_scale.skipped.numpy()):,}",
            "peak memory, MiB": f"{peak_memory():,.0f}",
        }
        width = max(map(len, rows))
        _logger.info(
            "training done\n%s",
            "\n".join(f"  {k:<{width}}  {v}" for k, v in rows.items()),
        )


def peak_memory() -> float:
    """Peak memory in MiB: of the first GPU, else of this process."""
    if tf.config.list_physical_devices("GPU"):
        return tf.config.experimental.get_memory_info("GPU:0")["peak"] / 2**20
    try:
        import resource
    except ImportError:  # Windows
        return float("nan")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # Linux counts in KiB, macOS in bytes.
    return peak / (2**20 if sys.platform == "darwin" else 2**10)


class _CallSize:
    """Chooses how many steps one call into the traced loop makes.

    A call ends where a checkpoint or a log line is due, and lasts about a
    second otherwise; the numbers do not depend on it. Several workers must
    make the same calls, so theirs do not depend on the time.
    """

    def __init__(self, settings: RunSettings, watch: Watch, untimed: bool):
        self._settings = settings
        self._watch = watch
        self._untimed = untimed
        self._wanted = settings.last_step if untimed else 1

    def next(self, step: int) -> int:
        settings = self._settings
        stops = (
            settings.last_step - step,
            settings.save_checkpoints_steps
            - step % settings.save_checkpoints_steps,
            settings.log_every_steps - step % settings.log_every_steps,
            settings.iterations_per_loop,
            self._watch.steps_left(step) or settings.last_step,
        )
        return max(1, min(self._wanted, *stops))

    def measured(self, count: int, seconds: float) -> None:
        if self._untimed:
            return
        fits = int(count * _SECONDS_PER_CALL / max(seconds, 1e-6))
        # The first call traces: it must not stop later ones from growing.
        self._wanted = max(1, min(fits, self._wanted * 4))
