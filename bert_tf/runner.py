"""Settings and a task -> strategy, data, model, loop and output files."""

import contextlib
import functools
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import keras

from bert_tf import files, run_folder, train_loop
from bert_tf.checkpoint import (
    latest_checkpoint,
    list_prefixes,
    load_checkpoint,
    read_shapes,
    read_variables,
    resolve_checkpoint,
)
from bert_tf.config import BertConfig
from bert_tf.distribution import check_batch_size, create_strategy
from bert_tf.evaluation import Evaluator
from bert_tf.input_pipeline import eval_batches
from bert_tf.progress import Progress
from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings
from bert_tf.tasks.base import RecordFiles, Split, Task

_logger = logging.getLogger("bert_tf")


def check_model(
    model: ModelSettings, run: RunSettings, devices: DeviceSettings
) -> BertConfig:
    """Reads the config and refuses what could not work, before TensorFlow.

    Raises:
      ValueError: names the flag or file, what was found and expected.
    """
    config = BertConfig.from_json_file(model.bert_config_file)
    if model.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length is {model.max_seq_length}, but the model of "
            f"{model.bert_config_file} has {config.max_position_embeddings} "
            "positions"
        )
    devices.check_paths(
        {
            "output_dir": run.output_dir,
            "init_checkpoint": model.init_checkpoint,
        }
    )
    return config


class Run:
    """One run: built once, then trained, evaluated, used.

    Everything that can be refused without building the model is refused in
    the constructor.

    Args:
      task: what is learned, from which data.
      config: the architecture.
      model: how text enters, where weights come from.
      run: what to do.
      devices: where to compute.
      flags: the command line as given, for the record.
    """

    def __init__(
        self,
        task: Task,
        config: BertConfig,
        model: ModelSettings,
        run: RunSettings,
        devices: DeviceSettings,
        flags: Mapping[str, Any] | None = None,
    ):
        self.task = task
        self.config = config
        self.model_settings = model
        self.settings = run
        self.folder = run.output_dir
        self.flags = dict(flags or {})
        # First of all: devices cannot be set up once TensorFlow has run.
        self.strategy = create_strategy(devices)
        self._check_folder()
        replicas = self.strategy.num_replicas_in_sync
        for mode, flag in (
            ("train", "train_batch_size"),
            ("eval", "eval_batch_size"),
            ("predict", "predict_batch_size"),
        ):
            if getattr(run, f"do_{mode}"):
                size = getattr(run, flag)
                each = check_batch_size(flag, size, replicas)
                _logger.info(
                    "--%s=%d: %d on each of %d replica(s)",
                    flag,
                    size,
                    each,
                    replicas,
                )
        self._one_hot = devices.on_tpu
        self._records: dict[str, list[tuple[Split, RecordFiles]]] = {}
        self._state = None
        self._model = None

    def execute(self) -> dict[str, dict[str, Any]]:
        """Trains, evaluates and predicts as the settings ask for.

        Returns:
          The scores of each evaluated part.
        """
        run_folder.check_writable(self.folder)
        # All data is read before the model is built, so that a fault in the
        # last file is met first and not after hours of training.
        for mode in ("train", "eval", "predict"):
            if getattr(self.settings, f"do_{mode}"):
                self._records[mode] = [
                    (split, self.task.prepare(split, self.folder))
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
            "flags": self.flags,
        }

    def _check_folder(self) -> None:
        """Refuses a folder that holds another model."""
        run_folder.check_identity(self.folder, self.record())
        latest = latest_checkpoint(self.folder)
        if latest is None:
            found = (
                list_prefixes(self.folder) if files.is_dir(self.folder) else []
            )
            if not found and self.model_settings.init_checkpoint:
                resolve_checkpoint(self.model_settings.init_checkpoint)
            elif not self.settings.do_train:
                raise ValueError(
                    f"nothing to evaluate or predict with: --output_dir="
                    f"{self.folder} holds no checkpoint and no "
                    "--init_checkpoint is given"
                )
            return
        self._check_shapes(latest)
        if self.model_settings.init_checkpoint:
            _logger.warning(
                "--output_dir=%s already holds %s: it is used, and "
                "--init_checkpoint=%s is ignored",
                self.folder,
                os.path.basename(latest),
                self.model_settings.init_checkpoint,
            )

    def _check_shapes(self, checkpoint: str) -> None:
        found = read_shapes(checkpoint)
        config = self.config
        expected = {
            "bert/embeddings/word_embeddings": (
                config.vocab_size,
                config.hidden_size,
            ),
            **self.task.head_shapes(config),
        }
        for name, shape in expected.items():
            if found.get(name) == shape:
                continue
            what = f"{name} of shape {list(shape)}"
            there = (
                f"there it has {list(found[name])}"
                if name in found
                else "which is not there"
            )
            raise ValueError(
                f"--output_dir={self.folder} holds {checkpoint}, a checkpoint "
                f"of another model: this run needs {what}, {there}; choose "
                "another folder"
            )

    # Building -----------------------------------------------------------

    def build_model(self):
        """Makes the model under the strategy, seeded."""
        if self._model is None:
            keras.utils.set_random_seed(self.settings.random_seed % 2**32)
            with self.strategy.scope():
                self._model = self.task.create_model(
                    self.config, use_one_hot_embeddings=self._one_hot
                )
        return self._model

    def load_for_use(self) -> int:
        """Makes the model ready to evaluate; returns its step.

        Every variable must come from the checkpoint.
        """
        if self._state is not None:
            return int(self._state.global_step.numpy())
        path = latest_checkpoint(self.folder)
        path = path or self.model_settings.init_checkpoint
        model = self.build_model()
        report = load_checkpoint(model, path, strict=True)
        if "global_step" not in report.unused:
            return 0
        return int(read_variables(path, ["global_step"])["global_step"])

    # Training -----------------------------------------------------------

    def train(self) -> None:
        """Trains up to the last step; goes on from the folder's checkpoint."""
        ((_, records),) = self._records["train"]
        self.settings = self.settings.with_train_steps(records.num_examples)
        steps = self.settings.num_train_steps
        _logger.info(
            "%s, %d steps, %d of them warm-up",
            records.describe(),
            steps,
            self.settings.num_warmup_steps,
        )
        done = train_loop.steps_done(self.folder)
        last = self.settings.last_step
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
        run_folder.write_run(
            self.folder,
            self.record(),
            self.config,
            self.model_settings.vocab_file,
        )
        model = self.build_model()
        self._state = train_loop.train(
            task=self.task,
            model=model,
            strategy=self.strategy,
            records=records,
            settings=self.settings,
            init_checkpoint=self.model_settings.init_checkpoint,
        )

    # Using --------------------------------------------------------------

    @contextlib.contextmanager
    def _batches(self, split: Split, records: RecordFiles, batch_size: int):
        """Applies the model to a part of the data, batch by batch."""
        dataset = eval_batches(
            records.paths,
            self.task.feature_spec(split.mode),
            batch_size,
            records.num_records,
            records.repeats,
            functools.partial(self.task.complete_features, split.mode),
        )
        evaluator = Evaluator(self.task, self._model, self.strategy)
        total = -(-records.num_records // batch_size)
        with Progress(
            split.mode, total, examples_per_step=batch_size
        ) as progress:
            yield evaluator.batches(dataset, records.num_records, progress)

    def evaluate(self) -> dict[str, dict[str, Any]]:
        """Scores every evaluation part; writes `eval_results.txt`."""
        step = self.load_for_use()
        size = self.settings.eval_batch_size
        scores = {}
        for split, records in self._records["eval"]:
            with self._batches(split, records, size) as batches:
                found = self.task.evaluate(split, batches, size, self.folder)
            found["global_step"] = step
            path = run_folder.path_in(
                self.folder, f"eval_results{split.suffix}.txt"
            )
            write_eval_results(path, found)
            _logger.info("%s (%s)", split.name, path)
            for name in sorted(found):
                _logger.info("  %s = %s", name, found[name])
            scores[split.name] = found
        return scores

    def predict(self) -> list[str]:
        """Predicts every part; returns the paths of the files written."""
        self.load_for_use()
        size = self.settings.predict_batch_size
        written = []
        for split, records in self._records["predict"]:
            with self._batches(split, records, size) as batches:
                paths = self.task.predict(split, batches, self.folder)
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
      The scores of each evaluated part.
    """
    config = check_model(model, run_settings, devices)
    task = make_task(config)
    return Run(task, config, model, run_settings, devices, flags).execute()
