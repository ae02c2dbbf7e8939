"""Pre-training: masked LM and next sentence.

Shape letters: B batch, S sequence, P predictions, V vocabulary.
"""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_tf import losses
from bert_tf.config import BertConfig
from bert_tf.heads import BertForMaskedLM, BertForPreTraining
from bert_tf.records import Feature, FeatureSpec, read_records
from bert_tf.tasks.base import RecordFiles, Split, Task

MASKED_LM = "masked_lm_loss"
NEXT_SENTENCE = "next_sentence_loss"


class PretrainingTask(Task):
    """Masked LM plus next sentence on records made beforehand.

    Args:
      max_seq_length: S of the records.
      max_predictions_per_seq: P of the records.
      use_next_sentence: add the next-sentence loss; without it the model has
        no such head and the pooler is not trained.
      paths: record files, for training and evaluation alike.
    """

    name = "pretraining"
    loss_epsilon: Mapping[str, float] = {MASKED_LM: losses.MASKED_LM_EPSILON}

    def __init__(
        self,
        max_seq_length: int,
        max_predictions_per_seq: int,
        use_next_sentence: bool = True,
        paths: list[str] | None = None,
    ):
        self.max_seq_length = max_seq_length
        self.max_predictions_per_seq = max_predictions_per_seq
        self.use_next_sentence = use_next_sentence
        self.paths = list(paths or ())

    def create_model(self, config: BertConfig, **kwargs):
        if self.use_next_sentence:
            return BertForPreTraining(config, **kwargs)
        return BertForMaskedLM(config, **kwargs)

    def head_shapes(self, config: BertConfig):
        shapes = {"cls/predictions/output_bias": (config.vocab_size,)}
        if self.use_next_sentence:
            shapes["cls/seq_relationship/output_weights"] = (
                2,
                config.hidden_size,
            )
        return shapes

    def feature_spec(self, mode: str) -> FeatureSpec:
        length = (self.max_seq_length,)
        predictions = (self.max_predictions_per_seq,)
        return FeatureSpec(
            [
                Feature("input_ids", length),
                Feature("input_mask", length),
                Feature("segment_ids", length),
                Feature("masked_lm_positions", predictions),
                Feature("masked_lm_ids", predictions),
                Feature("masked_lm_weights", predictions, "float32"),
                Feature("next_sentence_labels", (1,)),
            ]
        )

    def splits(self, mode: str) -> list[Split]:
        return [Split(mode, mode)] if mode != "predict" else []

    def prepare(self, split: Split, output_dir: str) -> RecordFiles:
        spec = self.feature_spec(split.mode)
        hints = (
            "; --max_seq_length and --max_predictions_per_seq must be those "
            "the records were made with"
        )
        count = 0
        for path in self.paths:
            first = True
            for record in read_records(path):
                if first:
                    spec.check_record(record, path, hints)
                first = False
                count += 1
        if not count:
            raise ValueError(f"--input_file: no record in {self.paths}")
        return RecordFiles(self.paths, count, count)

    def loss_weights(self, features):
        batch = tf.shape(features["input_ids"])[0]
        weights = {MASKED_LM: tf.reduce_sum(features["masked_lm_weights"])}
        if self.use_next_sentence:
            weights[NEXT_SENTENCE] = tf.cast(batch, tf.float32)
        return weights

    def loss_sums(self, outputs, features):
        per_slot = losses.softmax_cross_entropy(
            outputs["masked_lm_logits"], features["masked_lm_ids"]
        )
        weighted = features["masked_lm_weights"] * per_slot
        sums = {MASKED_LM: tf.reduce_sum(weighted)}
        if self.use_next_sentence:
            sums[NEXT_SENTENCE] = tf.reduce_sum(
                losses.softmax_cross_entropy(
                    outputs["next_sentence_logits"],
                    features["next_sentence_labels"][:, 0],
                )
            )
        return sums

    def example_outputs(self, outputs, features):
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

    def compute_metrics(self, results, batch_size):
        """`loss` is the mean over batches of the loss of each batch."""
        weight = _total(results["masked_lm_weight"])
        batch_weight = _batch_sums(results["masked_lm_weight"], batch_size)
        batch_loss = _batch_sums(results["masked_lm_loss"], batch_size) / (
            batch_weight + losses.MASKED_LM_EPSILON
        )
        metrics = {
            "masked_lm_accuracy": _total(results["masked_lm_hits"]) / weight,
            "masked_lm_loss": _total(results["masked_lm_loss"]) / weight,
        }
        if self.use_next_sentence:
            loss = results["next_sentence_loss"]
            sizes = _batch_sums(np.ones_like(loss), batch_size)
            batch_loss += _batch_sums(loss, batch_size) / sizes
            metrics["next_sentence_accuracy"] = np.mean(
                results["next_sentence_hits"], dtype=np.float64
            )
            metrics["next_sentence_loss"] = np.mean(loss, dtype=np.float64)
        metrics["loss"] = np.mean(batch_loss)
        return {name: np.float32(value) for name, value in metrics.items()}

    def description(self):
        return {
            "task": self.name,
            "max_predictions_per_seq": self.max_predictions_per_seq,
            "use_next_sentence": self.use_next_sentence,
        }


def _total(values: np.ndarray) -> float:
    return float(np.sum(values, dtype=np.float64))


def _batch_sums(values: np.ndarray, batch_size: int) -> np.ndarray:
    starts = np.arange(0, len(values), batch_size)
    return np.add.reduceat(values.astype(np.float64), starts)
