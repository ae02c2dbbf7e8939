"""Settings and a task -> strategy, data, model, loop and output files."""

import contextlib
import dataclasses
import functools
import logging
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_tf import files, run_folder, seeds, train_loop
from bert_tf.checkpoint import (
    latest_checkpoint,
    load_checkpoint,
    read_variables,
)
from bert_tf.config import BertConfig
from bert_tf.distribution import create_strategy, is_chief
from bert_tf.evaluation import Evaluator
from bert_tf.input_pipeline import distribute, eval_batches
from bert_tf.progress import Progress
from bert_tf.run_checks import check_batches, check_folder, check_model
from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings
from bert_tf.tasks.base import RecordFiles, Split, Task
from bert_tf.tasks.packed import PackedTask
from bert_tf.watch import check_metric

# Keras's names: variables stay float32.
_POLICIES = {
    "float32": "float32",
    "bfloat16": "mixed_bfloat16",
    "float16": "mixed_float16",
}

# Packed batches further off than this share are warned of.
_NEAR = 0.25

_logger = logging.getLogger("bert_tf")


class Run:
    """One run: built once, then trained, evaluated, used.

    Everything that can be refused without building the model is refused in
    the constructor.

    Args:
      task: what is learned, from which data; single examples.
      config: the architecture.
      model: how text enters, where weights come from.
      run: what to do.
      devices: where to compute.
      flags: the command line as given, for the record.
      strategy: of an earlier run in this process, to be used again.
    """

    def __init__(
        self,
        task: Task,
        config: BertConfig,
        model: ModelSettings,
        run: RunSettings,
        devices: DeviceSettings,
        flags: Mapping[str, Any] | None = None,
        strategy: tf.distribute.Strategy | None = None,
    ):
        self.task = PackedTask(task) if run.pack_sequences else task
        self.config = config
        self.model_settings = model
        self.settings = run
        self.folder = run.output_dir
        self.flags = dict(flags or {})
        # First of all: devices cannot be set up once TensorFlow has run.
        self.strategy = strategy or create_strategy(devices)
        check_folder(task, config, model, run, self.record())
        check_batches(run, self.strategy)
        check_metric(run, self.task.score_names)
        self._is_chief = is_chief(self.strategy)
        # What all workers write alike goes to the folder only once.
        self._results_folder = self.folder
        if not self._is_chief:
            # Goes with the process, or earlier with this object.
            self._temporary = tempfile.TemporaryDirectory(
                prefix="bert_tf_worker_"
            )
            self._results_folder = self._temporary.name
        self._one_hot = devices.on_tpu
        self._evaluator = None
        self._records: dict[str, list[tuple[Split, RecordFiles]]] = {}
        # Of the weights in use, once they are loaded or trained.
        self._step: int | None = None
        self._checkpoint: str | None = None
        self._model = None

    def execute(self) -> dict[str, dict[str, Any]]:
        """Trains, evaluates and predicts as the settings ask for.

        Returns:
          The scores of each evaluated part.
        """
        if self._is_chief:
            run_folder.check_writable(self.folder)
        # All data is read before the model is built, so that a fault in the
        # last file is met first and not after hours of training.
        for mode in ("train", "eval", "predict"):
            if getattr(self.settings, f"do_{mode}"):
                self._records[mode] = [
                    (split, self.task.prepare(split, self._results_folder))
                    for split in self.task.splits(mode)
                ]
        scores = {}
        if self.settings.do_train:
            self.train()
        if self.settings.do_eval:
            scores = self.evaluate()
        if self.settings.do_predict:
            self.predict()
        return scores

    def record(self) -> dict[str, Any]:
        """What the run folder keeps of this run."""
        model = self.model_settings
        return {
            **self.task.description(),
            # Without a vocabulary nobody has said what the casing is.
            **(
                {"do_lower_case": model.do_lower_case}
                if model.vocab_file
                else {}
            ),
            "max_seq_length": model.max_seq_length,
            "init_checkpoint": model.init_checkpoint,
            "random_seed": self.settings.random_seed,
            "num_train_steps": self.settings.num_train_steps,
            "num_warmup_steps": self.settings.num_warmup_steps,
            "best_metric": self.settings.best_metric,
            "flags": self.flags,
        }

    # Building -----------------------------------------------------------

    def build_model(self):
        """Makes the model under the strategy, seeded."""
        if self._model is None:
            keras.utils.set_random_seed(self.settings.random_seed % 2**32)
            with self.strategy.scope():
                self._model = self.task.create_model(
                    self.config,
                    use_one_hot_embeddings=self._one_hot,
                    dtype=_POLICIES[self.settings.dtype],
                    recompute=self.settings.recompute,
                )
        return self._model

    def load_for_use(self) -> int:
        """Makes the model ready to evaluate; returns its step.

        Every variable must come from the checkpoint.
        """
        if self._step is not None:
            return self._step
        path = run_folder.best_checkpoint(self.folder)
        path = path or latest_checkpoint(self.folder)
        self._checkpoint = path and os.path.basename(path)
        if path is None:
            path = self._checkpoint = self.model_settings.init_checkpoint
        model = self.build_model()
        report = load_checkpoint(model, path, strict=True)
        _logger.info("using the weights of %s", path)
        self._step = 0
        if "global_step" in report.unused:
            step = read_variables(path, ["global_step"])["global_step"]
            self._step = int(step)
        return self._step

    # Training -----------------------------------------------------------

    def train(self) -> None:
        """Trains up to the last step; goes on from the folder's checkpoint."""
        ((_, records),) = self._records["train"]
        rows = self._batch_records(records)
        settings = self.settings = self.settings.with_train_steps(
            records.records_per_epoch, rows
        )
        steps = settings.num_train_steps
        _logger.info(
            "%s, %d steps, %d of them warm-up",
            records.describe(),
            steps,
            settings.num_warmup_steps,
        )
        done = train_loop.steps_done(self.folder)
        last = settings.last_step
        if done >= last:
            _logger.warning(
                "skipping training: --output_dir=%s is at step %d already, "
                "this run ends at %d; choose a new folder, or more steps or "
                "epochs",
                self.folder,
                done,
                last,
            )
            return
        if self._is_chief:
            self._write_run(self.folder)
        training = train_loop.TrainingRun(
            task=self.task,
            model=self.build_model(),
            strategy=self.strategy,
            records=records,
            settings=dataclasses.replace(settings, train_batch_size=rows),
            init_checkpoint=self.model_settings.init_checkpoint,
            evaluate=self._evaluate_now if self.settings.eval_every else None,
        )
        self._step = int(training.run().global_step.numpy())
        best = training.watch.best
        if self.settings.best_metric and best["step"] is not None:
            self._take_best(best)

    def _batch_records(self, records: RecordFiles) -> int:
        """Records of a batch: rows of about --train_batch_size examples."""
        settings = self.settings
        wanted = settings.train_batch_size
        parts = (
            self.strategy.num_replicas_in_sync
            * settings.gradient_accumulation_steps
        )
        rows = records.records_of(wanted, parts)
        if records.num_packed is None:
            return wanted
        each = rows * records.examples_per_record
        is_near = abs(each - wanted) <= _NEAR * wanted
        _logger.log(
            logging.INFO if is_near else logging.WARNING,
            "--pack_sequences: an update takes %d rows, %.1f examples on "
            "average%s (--train_batch_size=%d)",
            rows,
            each,
            "" if is_near else f", for rows come in multiples of {parts}",
            wanted,
        )
        return rows

    def _write_run(self, folder: str) -> None:
        run_folder.write_run(
            folder,
            self.record(),
            self.config,
            self.model_settings.vocab_file,
        )

    def _take_best(self, best: Mapping[str, Any]) -> None:
        """Goes on with the best weights instead of the last."""
        folder = run_folder.path_in(self.folder, run_folder.BEST_FOLDER)
        if self._is_chief:
            self._write_run(folder)
        load_checkpoint(self._model, folder, strict=True)
        self._step = best["step"]
        _logger.info(
            "evaluating and predicting with step %d, the best %s: %g",
            best["step"],
            best["metric"],
            best["value"],
        )

    # Using --------------------------------------------------------------

    @contextlib.contextmanager
    def _batches(self, split: Split, records: RecordFiles, batch_size: int):
        """Applies the model to a part of the data, batch by batch."""
        complete = functools.partial(self.task.complete_features, split.mode)
        batch_size = records.records_of(
            batch_size, self.strategy.num_replicas_in_sync
        )

        def make(replica_batch_size, share):
            return eval_batches(
                records.paths,
                self.task.feature_spec(split.mode),
                replica_batch_size,
                records.num_records,
                records.repeats,
                complete,
                share,
            )

        dataset = distribute(self.strategy, batch_size, make)
        if self._evaluator is None:
            self._evaluator = Evaluator(self.task, self._model, self.strategy)
        evaluator = self._evaluator
        total = -(-records.num_records // batch_size)
        with Progress(
            split.mode,
            total,
            examples_per_step=batch_size * records.examples_per_record,
        ) as progress:
            yield evaluator.batches(dataset, records.num_records, progress)

    def evaluate(self) -> dict[str, dict[str, Any]]:
        """Scores every evaluation part; writes `eval_results.txt`."""
        return self._evaluate_at(self.load_for_use())

    def _evaluate_now(self, step: int) -> dict[str, Any]:
        """Scores during the training; those of the first part count."""
        scores = self._evaluate_at(step)
        first = next(iter(scores.values()))
        folder = run_folder.path_in(self._results_folder, "eval")
        with tf.summary.create_file_writer(folder).as_default():
            for name, value in first.items():
                if np.isscalar(value) and not isinstance(value, str):
                    tf.summary.scalar(name, value, step=step)
        return first

    def _evaluate_at(self, step: int) -> dict[str, dict[str, Any]]:
        size = self.settings.eval_batch_size
        self.task.use_checkpoint(self._checkpoint or f"model.ckpt-{step}")
        scores = {}
        for split, records in self._records["eval"]:
            with self._batches(split, records, size) as batches:
                found = self.task.evaluate(
                    split, batches, size, self._results_folder
                )
            found["global_step"] = step
            path = run_folder.path_in(
                self._results_folder, f"eval_results{split.suffix}.txt"
            )
            names = self.task.result_names or tuple(found)
            write_eval_results(path, {name: found[name] for name in names})
            _logger.info("%s (%s)", split.name, path)
            for name in sorted(found):
                _logger.info("  %s = %s", name, found[name])
            scores[split.name] = found
        return scores

    def predict(self) -> list[str]:
        """Predicts every part; returns the paths of the files written."""
        step = self.load_for_use()
        self.task.use_checkpoint(self._checkpoint or f"model.ckpt-{step}")
        size = self.settings.predict_batch_size
        written = []
        for split, records in self._records["predict"]:
            with self._batches(split, records, size) as batches:
                paths = self.task.predict(split, batches, self._results_folder)
            _logger.info("%s: wrote %s", split.name, ", ".join(paths))
            written += paths
        return written


def write_eval_results(path: str, scores: Mapping[str, Any]) -> None:
    """Writes one `key = value` line for each score, keys sorted."""
    with files.atomic_write(path) as stream:
        for name in sorted(scores):
            stream.write(f"{name} = {scores[name]!s}\n")


def run(
    make_task: Callable[[BertConfig], Task],
    model: ModelSettings,
    run_settings: RunSettings,
    devices: DeviceSettings,
    flags: Mapping[str, Any] | None = None,
) -> dict[str, dict[str, Any]]:
    """Checks, builds and executes a whole run.

    Args:
      make_task: config -> task; called once the config has been checked.
      model: see `ModelSettings`.
      run_settings: see `RunSettings`.
      devices: see `DeviceSettings`.
      flags: the command line, for the record.

    Returns:
      The scores of each evaluated part; with several seeds their means.
    """
    config = check_model(model, run_settings, devices)
    strategy = None

    def run_one(settings: RunSettings):
        nonlocal strategy
        one = Run(
            make_task(config), config, model, settings, devices, flags, strategy
        )
        strategy = one.strategy
        return one.execute()

    if run_settings.num_seeds > 1:
        return seeds.run_seeds(run_one, run_settings)
    return run_one(run_settings)
