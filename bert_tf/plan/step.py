"""The training step to be planned: architecture, task, batch and options."""

import dataclasses

from bert_tf.config import BertConfig
from bert_tf.settings import DTYPES, OPTIMIZERS

TASKS = ("pretraining", "classification", "squad")


@dataclasses.dataclass(frozen=True)
class Step:
    """One update, described by the flags of the training scripts.

    Attributes:
      config: the architecture.
      task: one of `TASKS`; decides on the head.
      train_batch_size: examples of one update, over all replicas.
      max_seq_length: tokens of an example.
      max_predictions_per_seq: masked positions of an example; only for
        pre-training.
      num_labels: classes of a classification.
      dtype: of the computation; weights, moments and gradients are float32.
      optimizer: one of `OPTIMIZERS`.
      gradient_accumulation_steps: micro-batches of one update.
      recompute: layers are computed again in the backward pass.
      replicas: devices that the batch is divided over.

    Raises:
      ValueError: names the flag.
    """

    config: BertConfig
    task: str = "pretraining"
    train_batch_size: int = 32
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    num_labels: int = 2
    dtype: str = "float32"
    optimizer: str = "adam"
    gradient_accumulation_steps: int = 1
    recompute: bool = False
    replicas: int = 1

    def __post_init__(self):
        for name, allowed in (
            ("task", TASKS),
            ("dtype", DTYPES),
            ("optimizer", OPTIMIZERS),
        ):
            value = getattr(self, name)
            if value not in allowed:
                raise ValueError(
                    f"--{name} is {value!r}, expected one of "
                    f"{', '.join(allowed)}"
                )
        for name in (
            "train_batch_size",
            "max_seq_length",
            "max_predictions_per_seq",
            "num_labels",
            "gradient_accumulation_steps",
            "replicas",
        ):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"--{name} is {getattr(self, name)}, must be positive"
                )
        longest = self.config.max_position_embeddings
        if self.max_seq_length > longest:
            raise ValueError(
                f"--max_seq_length is {self.max_seq_length}, above "
                f"max_position_embeddings {longest} of the config"
            )
        parts = self.replicas * self.gradient_accumulation_steps
        if self.train_batch_size % parts:
            raise ValueError(
                f"--train_batch_size is {self.train_batch_size}; it must be "
                f"a multiple of --replicas x --gradient_accumulation_steps = "
                f"{self.replicas} x {self.gradient_accumulation_steps}"
            )

    @property
    def micro_batch_size(self) -> int:
        """Examples that one device computes at a time."""
        parts = self.replicas * self.gradient_accumulation_steps
        return self.train_batch_size // parts

    @property
    def bytes_per_value(self) -> int:
        """Size of a number of the compute dtype."""
        return 4 if self.dtype == "float32" else 2

    @property
    def uses_pooler(self) -> bool:
        """Whether the pooler is computed and trained."""
        return self.task != "squad"
