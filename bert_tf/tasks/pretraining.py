"""Pre-training: masked LM and next sentence.

Shape letters: B batch, S sequence, P predictions, V vocabulary.
"""

import dataclasses
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import losses
from bert_tf.config import BertConfig
from bert_tf.heads import BertForMaskedLM, BertForPreTraining
from bert_tf.layers import sinusoidal_positions
from bert_tf.pretraining_masking import mask_batch
from bert_tf.pretraining_settings import static_features
from bert_tf.records import FeatureSpec
from bert_tf.tasks.base import (
    RecordFiles,
    Split,
    Task,
    count_examples,
    sum_over_examples,
)
from bert_tf.tasks.pretraining_records import check_files, count_records

MASKED_LM = "masked_lm_loss"
NEXT_SENTENCE = "next_sentence_loss"
SHUFFLE_BUFFER = 20_000

_logger = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True)
class PretrainingSource:
    """Where records come from and how they are read.

    Attributes:
      train_paths: record files to train on.
      eval_paths: record files to evaluate on.
      max_eval_records: evaluation ends after as many; with `eval_repeats` it
        reads exactly as many.
      eval_repeats: evaluation starts over at the end of the files, as in the
        original, so that examples may count several times.
      shuffle_buffer: records held for shuffling.
      masked_lm_prob: share of tokens to predict, for records without masks.
      random_seed: of the masks of such records.
    """

    train_paths: Sequence[str] = ()
    eval_paths: Sequence[str] = ()
    max_eval_records: int = 800
    eval_repeats: bool = False
    shuffle_buffer: int = SHUFFLE_BUFFER
    masked_lm_prob: float = 0.15
    random_seed: int = 12345


class PretrainingTask(Task):
    """Masked LM plus next sentence on records made beforehand.

    Records without masks (`create_pretraining_data.py --masking=dynamic`)
    are recognised; their masks are drawn in the input pipeline, anew each
    time that an example is read.

    Args:
      max_seq_length: S of the records.
      max_predictions_per_seq: P of the records, or of the masks drawn.
      use_next_sentence: add the next-sentence loss; without it the model has
        no such head and the pooler is not trained.
      source: the records; may be left out where only the loss is wanted.
      position_init: start values of the position embeddings: `random` as in
        the original, or `sinusoidal`, waves whose amplitude is the config's
        `initializer_range`.
    """

    name = "pretraining"
    # Evaluation keeps the original's batches: its lines depend on them.
    packed_modes = ("train",)
    prediction_features = (
        "masked_lm_ids",
        "masked_lm_positions",
        "masked_lm_weights",
    )
    position_features = ("masked_lm_positions",)
    loss_epsilon: Mapping[str, float] = {MASKED_LM: losses.MASKED_LM_EPSILON}

    def __init__(
        self,
        max_seq_length: int,
        max_predictions_per_seq: int,
        use_next_sentence: bool = True,
        source: PretrainingSource | None = None,
        position_init: str = "random",
    ):
        self.max_seq_length = max_seq_length
        self.max_predictions_per_seq = max_predictions_per_seq
        self.use_next_sentence = use_next_sentence
        self.source = source or PretrainingSource()
        self.position_init = position_init
        self._specs: dict[str, FeatureSpec] = {}

    def create_model(self, config: BertConfig, **kwargs):
        model_class = BertForMaskedLM
        if self.use_next_sentence:
            model_class = BertForPreTraining
        model = model_class(config, **kwargs)
        if self.position_init == "sinusoidal":
            table = model.bert.embeddings.position_embeddings
            table.assign(
                sinusoidal_positions(*table.shape, config.initializer_range)
            )
        return model

    def head_shapes(self, config: BertConfig):
        shapes = {"cls/predictions/output_bias": (config.vocab_size,)}
        if self.use_next_sentence:
            shapes["cls/seq_relationship/output_weights"] = (
                2,
                config.hidden_size,
            )
        return shapes

    # Data ---------------------------------------------------------------

    def feature_spec(self, mode: str) -> FeatureSpec:
        """Features of the mode's records, once `prepare` has seen them."""
        if mode in self._specs:
            return self._specs[mode]
        return static_features(
            self.max_seq_length, self.max_predictions_per_seq
        )

    def splits(self, mode: str) -> list[Split]:
        return [Split(mode, mode)] if mode != "predict" else []

    def prepare(self, split: Split, output_dir: str) -> RecordFiles:
        """Checks one record of each file; counts only those to evaluate."""
        source = self.source
        is_training = split.mode == "train"
        paths = source.train_paths if is_training else source.eval_paths
        paths, spec = check_files(
            paths, self.max_seq_length, self.max_predictions_per_seq
        )
        self._specs[split.mode] = spec
        if is_training:
            return RecordFiles(paths, None, None, source.shuffle_buffer)
        limit = source.max_eval_records
        if source.eval_repeats:
            return RecordFiles(paths, limit, limit, repeats=True)
        found = count_records(paths, limit + 1)
        if found > limit:
            _logger.info(
                "evaluating on the first %d examples, there are more: raise "
                "--max_eval_steps to take them in",
                limit,
            )
            found = limit
        else:
            _logger.info("evaluating on all %d examples", found)
        return RecordFiles(paths, found, found)

    def complete_features(self, mode, features, first_example):
        """Draws masks where the records have none.

        The masks of an example depend on the seed and on how many examples
        were read before it, so that a resumed run draws the same again, and
        each evaluation of the same files the same as the one before.
        """
        if "masking_vocabulary" not in features:
            return features
        rows = features["input_ids"].shape[0]
        return mask_batch(
            features,
            epoch=0,
            index=first_example + tf.range(rows, dtype=tf.int64),
            seed=self.source.random_seed,
            max_predictions_per_seq=self.max_predictions_per_seq,
            masked_lm_prob=self.source.masked_lm_prob,
        )

    # Loss ---------------------------------------------------------------

    @property
    def loss_terms(self):
        if self.use_next_sentence:
            return (MASKED_LM, NEXT_SENTENCE)
        return (MASKED_LM,)

    def loss_weights(self, features):
        weights = {MASKED_LM: tf.reduce_sum(features["masked_lm_weights"])}
        if self.use_next_sentence:
            weights[NEXT_SENTENCE] = count_examples(features)
        return weights

    def loss_sums(self, outputs, features):
        per_slot = losses.softmax_cross_entropy(
            outputs["masked_lm_logits"], features["masked_lm_ids"]
        )
        weighted = features["masked_lm_weights"] * per_slot
        sums = {MASKED_LM: tf.reduce_sum(weighted)}
        if self.use_next_sentence:
            loss = losses.softmax_cross_entropy(
                outputs["next_sentence_logits"],
                features["next_sentence_labels"][:, 0],
            )
            sums[NEXT_SENTENCE] = sum_over_examples(loss, features)
        return sums

    # Evaluation ---------------------------------------------------------

    def example_outputs(self, outputs, features):
        """Sums over the predictions of each example, float32 [B]."""
        ids = features["masked_lm_ids"]
        weights = features["masked_lm_weights"]
        logits = outputs["masked_lm_logits"]
        best = tf.argmax(logits, axis=-1, output_type=tf.int32)
        hits = tf.cast(tf.equal(best, ids), tf.float32)
        per_slot = losses.softmax_cross_entropy(logits, ids)
        results = {
            "masked_lm_weight": tf.reduce_sum(weights, axis=1),
            "masked_lm_hits": tf.reduce_sum(weights * hits, axis=1),
            "masked_lm_loss": tf.reduce_sum(weights * per_slot, axis=1),
        }
        if self.use_next_sentence:
            logits = outputs["next_sentence_logits"]
            labels = features["next_sentence_labels"][:, 0]
            best = tf.argmax(logits, axis=-1, output_type=tf.int32)
            results["next_sentence_hits"] = tf.cast(
                tf.equal(best, labels), tf.float32
            )
            results["next_sentence_loss"] = losses.softmax_cross_entropy(
                logits, labels
            )
        return results

    def evaluate(self, split, batches, batch_size, output_dir):
        """Adds up batch by batch: memory does not grow with the data."""
        return _scores(batches)

    def compute_metrics(self, results, batch_size):
        size = len(results["masked_lm_weight"])
        return _scores(
            {name: v[at : at + batch_size] for name, v in results.items()}
            for at in range(0, size, batch_size)
        )

    def description(self):
        return {
            "task": self.name,
            "max_predictions_per_seq": self.max_predictions_per_seq,
            "use_next_sentence": self.use_next_sentence,
        }


def _scores(batches: Iterable[Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """The original's lines of `eval_results.txt`, without `global_step`.

    `loss` is the mean over batches of each batch's training loss, whatever
    the size of the batch; the rest are means over predictions or examples.

    Args:
      batches: `example_outputs` of one batch each.
    """
    totals: dict[str, float] = {}
    loss, num_batches, num_examples = 0.0, 0, 0
    for batch in batches:
        sums = {
            name: float(np.sum(values, dtype=np.float64))
            for name, values in batch.items()
        }
        for name, value in sums.items():
            totals[name] = totals.get(name, 0.0) + value
        rows = len(batch["masked_lm_weight"])
        loss += sums["masked_lm_loss"] / (
            sums["masked_lm_weight"] + losses.MASKED_LM_EPSILON
        )
        loss += sums.get("next_sentence_loss", 0.0) / rows
        num_batches += 1
        num_examples += rows
    # Without any prediction the original's lines say 0 too.
    predictions = totals["masked_lm_weight"] or 1.0
    found = {
        "loss": loss / num_batches,
        "masked_lm_accuracy": totals["masked_lm_hits"] / predictions,
        "masked_lm_loss": totals["masked_lm_loss"] / predictions,
    }
    if "next_sentence_loss" in totals:
        found["next_sentence_accuracy"] = (
            totals["next_sentence_hits"] / num_examples
        )
        found["next_sentence_loss"] = (
            totals["next_sentence_loss"] / num_examples
        )
    return {name: np.float32(value) for name, value in found.items()}
