"""Frozen, validated settings of a run: model, training, devices."""

import dataclasses

from bert_tf import files

DTYPES = ("float32", "bfloat16", "float16")
REDUCTIONS = ("global", "original_tpu")
STRATEGIES = ("auto", "one_device", "mirrored", "multi_worker", "tpu")
OPTIMIZERS = ("adam", "lamb")


def _positive(settings, *names: str) -> None:
    for name in names:
        value = getattr(settings, name)
        if value <= 0:
            raise ValueError(f"--{name} is {value}, must be positive")


@dataclasses.dataclass(frozen=True)
class ModelSettings:
    """Which model, how text enters it.

    Attributes:
      bert_config_file: path of `bert_config.json`.
      vocab_file: path of `vocab.txt`; empty where no text is read.
      init_checkpoint: prefix, file or folder to start from; None for random
        weights.
      do_lower_case: uncased behaviour, which strips accents too.
      max_seq_length: S, special tokens included.
    """

    bert_config_file: str
    vocab_file: str = ""
    init_checkpoint: str | None = None
    do_lower_case: bool = True
    max_seq_length: int = 128

    def __post_init__(self):
        _positive(self, "max_seq_length")


@dataclasses.dataclass(frozen=True)
class RunSettings:
    """What a run does, how long, how fast and where the results go.

    Batch sizes are global: the sum over all replicas. `num_train_steps` is
    given for pre-training; a fine-tuning run computes it from
    `num_train_epochs`. `train_batch_size` examples make one update, however
    many `gradient_accumulation_steps` they are computed in. A run with
    `stop_at_step` ends there, while the learning rate goes on falling towards
    `num_train_steps`. With `pack_sequences` records hold several examples,
    and a batch as many records as hold about that many examples. LAMB
    corrects its moments with or without `adam_bias_correction`.
    """

    output_dir: str
    do_train: bool = False
    do_eval: bool = False
    do_predict: bool = False
    train_batch_size: int = 32
    eval_batch_size: int = 8
    predict_batch_size: int = 8
    learning_rate: float = 5e-5
    num_train_epochs: float = 3.0
    warmup_proportion: float = 0.1
    num_train_steps: int | None = None
    num_warmup_steps: int | None = None
    stop_at_step: int | None = None
    optimizer: str = "adam"
    adam_bias_correction: bool = False
    save_checkpoints_steps: int = 1000
    keep_checkpoint_max: int = 5
    iterations_per_loop: int = 1000
    log_every_steps: int = 100
    random_seed: int = 12345
    dtype: str = "float32"
    gradient_accumulation_steps: int = 1
    gradient_reduction: str = "global"
    jit_compile: bool = False
    recompute: bool = False
    pack_sequences: bool = False
    auto_batch: bool = False
    max_skipped_steps: int = 20
    eval_every: int = 0
    best_metric: str | None = None
    early_stopping: int = 0
    freeze: str = ""
    layerwise_lr_decay: float = 1.0
    reinit_top_layers: int = 0
    num_seeds: int = 1

    def __post_init__(self):
        if not (self.do_train or self.do_eval or self.do_predict):
            raise ValueError(
                "at least one of --do_train, --do_eval and --do_predict "
                "must be set"
            )
        _positive(
            self,
            "train_batch_size",
            "eval_batch_size",
            "predict_batch_size",
            "learning_rate",
            "num_train_epochs",
            "save_checkpoints_steps",
            "iterations_per_loop",
            "log_every_steps",
            "gradient_accumulation_steps",
            "max_skipped_steps",
            "num_seeds",
        )
        for name, allowed in (
            ("dtype", DTYPES),
            ("gradient_reduction", REDUCTIONS),
            ("optimizer", OPTIMIZERS),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    f"--{name} is {getattr(self, name)!r}, expected one of "
                    f"{', '.join(allowed)}"
                )
        if (self.best_metric or self.early_stopping) and not self.eval_every:
            raise ValueError(
                "--best_metric and --early_stopping need --eval_every, the "
                "steps between two evaluations"
            )
        for name in ("num_train_steps", "stop_at_step"):
            if getattr(self, name) is not None:
                _positive(self, name)
        if (self.num_warmup_steps or 0) < 0:
            raise ValueError(
                f"--num_warmup_steps is {self.num_warmup_steps}, must not be "
                "negative"
            )
        if not 0 <= self.warmup_proportion <= 1:
            raise ValueError(
                f"--warmup_proportion is {self.warmup_proportion}, "
                "must lie between 0 and 1"
            )

        self._check_fine_tuning()

    def _check_fine_tuning(self):
        if not 0 < self.layerwise_lr_decay <= 1:
            raise ValueError(
                f"--layerwise_lr_decay is {self.layerwise_lr_decay}, must be "
                "above 0 and at most 1"
            )
        if self.reinit_top_layers < 0:
            raise ValueError(
                f"--reinit_top_layers is {self.reinit_top_layers}, must not "
                "be negative"
            )
        if self.num_seeds > 1 and not self.do_eval:
            raise ValueError("--num_seeds compares scores: it needs --do_eval")

    @property
    def last_step(self) -> int:
        """The step that this run trains to; the steps must be filled in."""
        if self.stop_at_step is None:
            return self.num_train_steps
        return min(self.stop_at_step, self.num_train_steps)

    def with_train_steps(
        self, num_records: float | None, batch_records: int | None = None
    ) -> "RunSettings":
        """Fills in steps and warm-up of a fine-tuning run.

        N = int(num_records / batch_records * num_train_epochs) and
        W = int(N * warmup_proportion), as in the original.

        Args:
          num_records: those of an epoch; may be None where the steps are
            given.
          batch_records: those of a batch; `train_batch_size` by default.

        Raises:
          ValueError: there would be no step at all.
        """
        steps = self.num_train_steps
        each = batch_records or self.train_batch_size
        if steps is None:
            steps = int(num_records / each * self.num_train_epochs)
        if steps < 1:
            flag = f"--train_batch_size {self.train_batch_size}"
            what = f"{num_records} examples / {flag}"
            if self.pack_sequences:
                what = f"{num_records:g} rows / {each} in a batch ({flag})"
            raise ValueError(
                f"0 steps: {what} * --num_train_epochs "
                f"{self.num_train_epochs} is below one; raise the epochs or "
                "lower the batch size"
            )
        warmup = self.num_warmup_steps
        if warmup is None:
            warmup = int(steps * self.warmup_proportion)
        return dataclasses.replace(
            self, num_train_steps=steps, num_warmup_steps=warmup
        )


@dataclasses.dataclass(frozen=True)
class DeviceSettings:
    """Where a run computes.

    Attributes:
      use_tpu: the original's switch; the same as the strategy `tpu`.
      tpu_name: name or gRPC address; None on a TPU VM means its own chips.
      tpu_zone: zone of the TPU.
      gcp_project: project of the TPU.
      master: raw address, the original's alternative to `tpu_name`.
      num_tpu_cores: as in the original, informative only.
      distribution_strategy: one of `STRATEGIES`.
      num_cpu_devices: logical CPU devices to make; for tests of strategies.
    """

    use_tpu: bool = False
    tpu_name: str | None = None
    tpu_zone: str | None = None
    gcp_project: str | None = None
    master: str | None = None
    num_tpu_cores: int = 8
    distribution_strategy: str = "auto"
    num_cpu_devices: int = 1

    def __post_init__(self):
        if self.distribution_strategy not in STRATEGIES:
            raise ValueError(
                f"--distribution_strategy is {self.distribution_strategy!r}, "
                f"expected one of {', '.join(STRATEGIES)}"
            )
        if self.use_tpu and self.distribution_strategy not in ("auto", "tpu"):
            raise ValueError(
                "--use_tpu contradicts --distribution_strategy="
                f"{self.distribution_strategy}"
            )
        _positive(self, "num_cpu_devices", "num_tpu_cores")

    @property
    def on_tpu(self) -> bool:
        """Whether a TPU is asked for."""
        return self.use_tpu or self.distribution_strategy == "tpu"

    @property
    def remote_tpu(self) -> bool:
        """Whether the TPU's host is another machine than this one."""
        name = self.tpu_name or self.master
        return self.on_tpu and bool(name) and name != "local"

    def check_paths(self, paths: dict[str, str | None]) -> None:
        """Refuses local paths when the TPU's host could not read them.

        Args:
          paths: flag name to path; None and empty are passed over.

        Raises:
          ValueError: names the flag, or a placeholder left in a bucket name.
        """
        for flag, path in paths.items():
            if path and "gs://YOUR" in path.upper().replace("GS:", "gs:"):
                raise ValueError(
                    f"--{flag}={path}: put your own bucket's name there"
                )
            if path and self.remote_tpu and not files.is_remote(path):
                raise ValueError(
                    f"--{flag}={path} is a local path, which the host of TPU "
                    f"{self.tpu_name or self.master} cannot read; it must "
                    "be on Cloud Storage (gs://...), and the TPU's service "
                    "account needs the rights to read and write objects there"
                )
