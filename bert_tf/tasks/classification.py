"""Classification of a text or a pair of texts.

Shape letters: B batch, S sequence, L labels.
"""

import tensorflow as tf

from bert_tf import losses
from bert_tf.config import BertConfig
from bert_tf.heads import BertForSequenceClassification
from bert_tf.tasks.base import Task


class ClassificationTask(Task):
    """One label of L for each example."""

    name = "classification"

    def __init__(self, labels, max_seq_length):
        self.labels = list(labels)
        self.max_seq_length = max_seq_length

    def create_model(self, config: BertConfig, **kwargs):
        return BertForSequenceClassification(config, len(self.labels), **kwargs)

    def head_shapes(self, config: BertConfig):
        return {"output_weights": (len(self.labels), config.hidden_size)}

    def feature_spec(self, mode): ...
    def splits(self, mode): ...
    def prepare(self, split, output_dir): ...
    def example_outputs(self, outputs, features): ...
    def compute_metrics(self, results, batch_size): ...

    def loss_weights(self, features):
        batch = tf.shape(features["label_ids"])[0]
        return {"loss_classification": tf.cast(batch, tf.float32)}

    def loss_sums(self, outputs, features):
        per_example = losses.softmax_cross_entropy(
            outputs["logits"], features["label_ids"]
        )
        return {"loss_classification": tf.reduce_sum(per_example)}
