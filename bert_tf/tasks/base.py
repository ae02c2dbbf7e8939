"""`Task`: what the one loop needs to know of a task.

Shape letters: B batch (of one replica), S sequence.
"""

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import checkpoint_names
from bert_tf.config import BertConfig
from bert_tf.modeling import BertBase
from bert_tf.records import FeatureSpec

POOLER_SCOPE = "bert/pooler/"
MODES = ("train", "eval", "predict")
# Among the features of packed rows: float32 [B * M], 0 where a row holds
# fewer than M examples.
EXAMPLE_WEIGHTS = "example_weights"


@dataclasses.dataclass(frozen=True)
class Split:
    """One part of a data set, as a run sees it.

    Attributes:
      mode: `"train"`, `"eval"` or `"predict"`.
      name: the part's own name, such as `"dev_matched"`.
      suffix: goes into the names of the files written for it.
    """

    mode: str
    name: str
    suffix: str = ""

    @property
    def record_file(self) -> str:
        """Name of the TFRecord file in the run folder."""
        return f"{self.mode}{self.suffix}.tf_record"


@dataclasses.dataclass(frozen=True)
class RecordFiles:
    """Records ready to be read.

    Attributes:
      paths: TFRecord files, in order.
      num_records: number of records to read; None for training data that are
        too large to be counted.
      num_examples: what the number of training steps is computed from; None
        if it is given.
      shuffle_buffer: records held to shuffle the training data; None for all.
      repeats: evaluation goes on at the first record after the last one
        until `num_records` have been read.
      num_packed: what single records the packed ones hold in all; None if
        they are not packed.
    """

    paths: list[str]
    num_records: int | None
    num_examples: int | None
    shuffle_buffer: int | None = None
    repeats: bool = False
    num_packed: int | None = None

    @property
    def examples_per_record(self) -> float:
        """Their mean number in a record; above 1 in packed rows."""
        if self.num_packed is None:
            return 1.0
        return self.num_packed / self.num_records

    @property
    def records_per_epoch(self) -> float | None:
        """`num_examples` counted in records; None if they are not counted."""
        if self.num_packed is None or self.num_examples is None:
            return self.num_examples
        return self.num_examples * self.num_records / self.num_packed

    def records_of(self, num_examples: int, multiple: int = 1) -> int:
        """How many records hold about as many examples.

        Args:
          num_examples: such as a batch size.
          multiple: what the result must be a multiple of.
        """
        parts = num_examples / self.examples_per_record / multiple
        return max(1, round(parts)) * multiple

    def describe(self) -> str:
        """Their number, for the log."""
        if self.num_records is None:
            return f"{len(self.paths)} record file(s)"
        if self.num_packed is not None:
            return f"{self.num_packed} examples in {self.num_records} rows"
        return f"{self.num_examples} examples ({self.num_records} records)"


class Task(abc.ABC):
    """Data, model, loss, scores and outputs of one task.

    The loss is given in sums, so that any number of replicas and
    micro-batches can share one normaliser: term i contributes
    sum_i / (weight_i + epsilon_i), both summed over the global batch.
    """

    name: str = ""
    # Scores that an evaluation gives; empty if not known before it.
    score_names: tuple[str, ...] = ()
    # Those of them, with `global_step`, in `eval_results.txt`; empty for all.
    result_names: tuple[str, ...] = ()
    # Term name -> what is added to the summed weight before the division.
    loss_epsilon: Mapping[str, float] = {}
    # For packed rows; see `sequence_packing.RowLayout`. Results named in
    # `token_outputs` are [B, S, ...], with the value beyond a sequence's end.
    packed_modes: tuple[str, ...] = ()
    token_features: tuple[str, ...] = ("input_ids", "input_mask", "segment_ids")
    position_features: tuple[str, ...] = ()
    prediction_features: tuple[str, ...] = ()
    token_outputs: Mapping[str, float] = {}
    # Whose weights are in use: what is found for them is stored by this name.
    checkpoint: str | None = None

    def use_checkpoint(self, name: str) -> None:
        """Takes note of the weights that the next batches come from.

        Args:
          name: `model.ckpt-<step>`, or the path of a checkpoint from outside
            the run folder.
        """
        self.checkpoint = name

    @abc.abstractmethod
    def create_model(self, config: BertConfig, **kwargs) -> BertBase:
        """Builds the model; keyword arguments go to `BertBase`."""

    @abc.abstractmethod
    def head_shapes(self, config: BertConfig) -> dict[str, tuple[int, ...]]:
        """Checkpoint names and shapes that tell this model from others."""

    @abc.abstractmethod
    def feature_spec(self, mode: str) -> FeatureSpec:
        """Features of the records of a mode."""

    def complete_features(
        self,
        mode: str,
        features: Mapping[str, tf.Tensor],
        first_example: tf.Tensor,
    ) -> Mapping[str, tf.Tensor]:
        """Makes a batch for the model of the features of its records.

        Runs in the input pipeline, on the host.

        Args:
          mode: what the batch is for.
          features: [B, ...], B the global batch.
          first_example: number of the batch's first example, int64 scalar;
            counts on over all passes.
        """
        del mode, first_example
        return features

    @abc.abstractmethod
    def splits(self, mode: str) -> list[Split]:
        """The parts of the data that a mode runs over."""

    @abc.abstractmethod
    def prepare(self, split: Split, output_dir: str) -> RecordFiles:
        """Reads and featurizes a part; writes its records."""

    @property
    @abc.abstractmethod
    def loss_terms(self) -> tuple[str, ...]:
        """Names of the loss terms; the loss is their sum."""

    @abc.abstractmethod
    def loss_weights(
        self, features: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Weight of each loss term in this batch, float32 scalars.

        Depends on the features alone, not on the model.
        """

    @abc.abstractmethod
    def loss_sums(
        self, outputs: Mapping[str, Any], features: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Weighted sum of each loss term over this batch, float32 scalars."""

    @abc.abstractmethod
    def example_outputs(
        self, outputs: Mapping[str, Any], features: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """What scores and predictions need of each example: tensors [B, ...].

        Runs on the device; the host sees the results in record order, each
        record once.
        """

    @abc.abstractmethod
    def compute_metrics(
        self, results: Mapping[str, np.ndarray], batch_size: int
    ) -> dict[str, Any]:
        """Scores of a whole evaluation.

        Args:
          results: the concatenated `example_outputs`.
          batch_size: the global batch size, for scores of the original that
            depend on it.

        Returns:
          Names and values, without `global_step`.
        """

    def write_evaluation(
        self, split: Split, results: Mapping[str, np.ndarray], output_dir: str
    ) -> None:
        """Writes what `eval_results.txt` has no room for."""
        return None

    def write_predictions(
        self, split: Split, results: Mapping[str, np.ndarray], output_dir: str
    ) -> list[str]:
        """Writes the prediction files; returns their paths."""
        raise ValueError(f"task {self.name} has no predictions")

    def evaluate(
        self,
        split: Split,
        batches: Iterator[Mapping[str, np.ndarray]],
        batch_size: int,
        output_dir: str,
    ) -> dict[str, Any]:
        """Scores the `example_outputs` that arrive batch by batch."""
        results = concatenate(batches)
        scores = self.compute_metrics(results, batch_size)
        self.write_evaluation(split, results, output_dir)
        return scores

    def predict(
        self,
        split: Split,
        batches: Iterator[Mapping[str, np.ndarray]],
        output_dir: str,
    ) -> list[str]:
        """Writes predictions from what arrives batch by batch."""
        return self.write_predictions(split, concatenate(batches), output_dir)

    def trained_variables(self, model: BertBase) -> dict[str, tf.Variable]:
        """Variables that a gradient reaches, under their checkpoint names.

        Variables that no loss reaches get neither updates nor slots, as in
        the original.
        """
        return {
            name: variable
            for name, variable in checkpoint_names(model).items()
            if model.uses_pooler or not name.startswith(POOLER_SCOPE)
        }

    def description(self) -> dict[str, Any]:
        """What the run folder records of the task; JSON values."""
        return {"task": self.name}


def concatenate(
    batches: Iterator[Mapping[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Joins the arrays of all batches, name by name."""
    parts: dict[str, list[np.ndarray]] = {}
    for batch in batches:
        for name, value in batch.items():
            parts.setdefault(name, []).append(value)
    return {name: np.concatenate(p) for name, p in parts.items()}


def count_examples(features: Mapping[str, tf.Tensor]) -> tf.Tensor:
    """Number of examples in a batch, float32 scalar."""
    if EXAMPLE_WEIGHTS in features:
        return tf.reduce_sum(features[EXAMPLE_WEIGHTS])
    return tf.cast(tf.shape(features["input_ids"])[0], tf.float32)


def sum_over_examples(
    values: tf.Tensor, features: Mapping[str, tf.Tensor]
) -> tf.Tensor:
    """Sum of a float32 [B], or [B * M] of packed rows, over the examples."""
    if EXAMPLE_WEIGHTS in features:
        values = values * features[EXAMPLE_WEIGHTS]
    return tf.reduce_sum(values)
