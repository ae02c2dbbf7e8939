"""A batch for each task, and tasks that no TPU could run."""

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.multiple_choice import MultipleChoiceTask
from bert_tf.tasks.packed import PackedTask
from bert_tf.tasks.pretraining import PretrainingTask
from bert_tf.tasks.squad import SquadTask
from bert_tf.tasks.squad_settings import SquadSettings
from bert_tf.tasks.tagging import TaggingTask

LENGTH, PREDICTIONS, VOCAB, CHOICES = 16, 3, 50, 4
CONFIG = BertConfig(
    vocab_size=VOCAB,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=LENGTH,
    type_vocab_size=2,
)


class StringTask(ClassificationTask):
    """Has a text op in its loss."""

    def loss_sums(self, outputs, features):
        text = tf.strings.as_string(features["label_ids"])
        length = tf.cast(tf.strings.length(text), tf.float32)
        sums = super().loss_sums(outputs, features)
        return {k: v + tf.reduce_sum(length) for k, v in sums.items()}


class PrintingTask(ClassificationTask):
    """Prints in its loss, which a TPU leaves to the host."""

    def loss_sums(self, outputs, features):
        tf.print(features["label_ids"])
        return super().loss_sums(outputs, features)


class DynamicTask(ClassificationTask):
    """Has a shape that depends on values."""

    def loss_sums(self, outputs, features):
        kept = tf.boolean_mask(outputs["logits"], features["label_ids"] > 0)
        sums = super().loss_sums(outputs, features)
        extra = tf.reduce_sum(tf.nn.top_k(tf.reshape(kept, [-1]), 1)[0])
        return {k: v + extra for k, v in sums.items()}


def features_of(spec, batch):
    rng = np.random.default_rng(0)
    limits = {"input_ids": VOCAB, "masked_lm_ids": VOCAB}
    limits |= {"masked_lm_positions": LENGTH, "start_positions": LENGTH}
    limits |= {"end_positions": LENGTH}
    return {
        f.name: tf.constant(
            rng.integers(0, limits.get(f.name, 2), (batch, *f.shape)),
            tf.float32 if f.dtype == "float32" else tf.int32,
        )
        for f in spec
    }


def good_tasks():
    """The tasks of the runners, without their data."""
    tasks = {
        "pretraining": PretrainingTask(LENGTH, PREDICTIONS),
        "classification": ClassificationTask(["a", "b"], LENGTH),
        "tagging": TaggingTask(["O", "B-X"], LENGTH),
        "multiple_choice": MultipleChoiceTask(CHOICES, LENGTH),
        "squad": SquadTask(
            SquadSettings(
                max_seq_length=LENGTH, max_query_length=6, doc_stride=4
            )
        ),
    }
    packed = {
        f"packed_{name}": PackedTask(tasks[name])
        for name in ("pretraining", "squad")
    }
    return {**tasks, **packed}


def bad_tasks():
    """Negative controls."""
    return {
        "strings": StringTask(["a", "b"], LENGTH),
        "printing": PrintingTask(["a", "b"], LENGTH),
    }


def all_tasks(batch):
    """Name -> (task, features of a global batch)."""
    return {
        name: (task, features_of(task.feature_spec("train"), batch))
        for name, task in {**good_tasks(), **bad_tasks()}.items()
    }
