"""The encoder with a head: pre-training, classification, answers, tags.

Weights lie as in the original: `[classes, hidden]`, at the root for a
classifier, under `cls/` for the rest.

Shape letters: B batch, S sequence, D hidden, V vocabulary, P masked
predictions, L labels, C choices.
"""

import keras
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.layers import (
    LayerNorm,
    Scope,
    dense,
    dropout,
    gather_positions,
    truncated_normal,
)
from bert_tf.modeling import BertBase

# Fixed in run_classifier.py and run_squad.py, whatever the config says.
HEAD_DROPOUT = 0.1
HEAD_STDDEV = 0.02


def _linear(x, weights, bias):
    logits = tf.matmul(x, tf.convert_to_tensor(weights), transpose_b=True)
    return tf.cast(logits + bias, tf.float32)


class LinearHead(keras.layers.Layer):
    """Linear layer with weights `[classes, hidden]`; result in float32."""

    def __init__(self, classes, hidden_size, stddev, name, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.classes = classes
        self.hidden_size = hidden_size
        self.stddev = stddev

    def build(self, input_shape=None):
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(self.classes, self.hidden_size),
            initializer=truncated_normal(self.stddev),
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.classes,), initializer="zeros"
        )
        self.built = True

    def call(self, x):
        return _linear(x, self.output_weights, self.output_bias)


class MaskedLMHead(keras.layers.Layer):
    """Transform, then the word embeddings as output weights."""

    def __init__(self, config: BertConfig, dtype=None):
        super().__init__(name="predictions", dtype=dtype)
        self.config = config
        self.transform = Scope(
            "transform",
            dtype,
            dense=dense(
                config.hidden_size, config, "dense", config.hidden_act, dtype
            ),
            layer_norm=LayerNorm(
                self.compute_dtype, epsilon=config.layer_norm_eps
            ),
        )

    def build(self, input_shape=None):
        self.transform.build((None, self.config.hidden_size))
        self.output_bias = self.add_weight(
            name="output_bias",
            shape=(self.config.vocab_size,),
            initializer="zeros",
        )
        self.built = True

    def call(self, x, word_embeddings):
        """[rows, D] and the table [V, D] give logits [rows, V]."""
        return _linear(self.transform(x), word_embeddings, self.output_bias)


class BertForPreTraining(BertBase):
    """Masked LM and next sentence.

    Beside the encoder's outputs: `masked_lm_logits` [B, P, V] for the input
    `masked_lm_positions` [B, P], or [B, S, V] when that is left out, and
    `next_sentence_logits` [B, 2] (class 1 = random); [B * M, 2] for packed
    rows.
    """

    has_masked_lm = True
    has_next_sentence = True

    @property
    def uses_pooler(self) -> bool:
        """Whether a loss on the head reaches the pooler."""
        return self.has_next_sentence

    def build_head(self):
        parts = {}
        dtype = self.dtype_policy
        if self.has_masked_lm:
            parts["predictions"] = MaskedLMHead(self.config, dtype)
        if self.has_next_sentence:
            parts["seq_relationship"] = LinearHead(
                2,
                self.config.hidden_size,
                self.config.initializer_range,
                "seq_relationship",
                dtype,
            )
        self.cls = Scope("cls", dtype, **parts)
        self.cls.build()

    def apply_head(self, outputs, inputs, seed):
        outputs = dict(outputs)
        if self.has_masked_lm:
            hidden = outputs["sequence_output"]
            positions = inputs.get("masked_lm_positions")
            shape = tf.shape(inputs["input_ids"])
            if positions is not None:
                shape = tf.shape(positions)
                hidden = gather_positions(hidden, positions)
            else:
                hidden = tf.reshape(hidden, [-1, hidden.shape[-1]])
            logits = self.cls.predictions(
                hidden,
                word_embeddings=tf.convert_to_tensor(
                    self.bert.embeddings.word_embeddings
                ),
            )
            outputs["masked_lm_logits"] = tf.reshape(
                logits, [shape[0], shape[1], self.config.vocab_size]
            )
        if self.has_next_sentence:
            outputs["next_sentence_logits"] = self.cls.seq_relationship(
                outputs["pooled_output"]
            )
        return outputs


class BertForMaskedLM(BertForPreTraining):
    """Masked LM alone; see `BertForPreTraining`."""

    has_next_sentence = False


class BertForNextSentencePrediction(BertForPreTraining):
    """Next sentence alone; see `BertForPreTraining`."""

    has_masked_lm = False


class _RootHead(BertBase):
    """A head whose `output_weights` and `output_bias` lie at the root."""

    def __init__(
        self,
        config: BertConfig,
        num_labels: int,
        *,
        head_dropout: float = HEAD_DROPOUT,
        **kwargs,
    ):
        if num_labels < 1:
            raise ValueError(f"num_labels is {num_labels}, must be positive")
        self.num_labels = num_labels
        self.head_dropout = head_dropout
        super().__init__(config, **kwargs)

    def build_head(self):
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(self.num_labels, self.config.hidden_size),
            initializer=truncated_normal(HEAD_STDDEV),
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(self.num_labels,), initializer="zeros"
        )

    def _logits(self, x, seed):
        x = dropout(x, self.head_dropout, seed)
        return _linear(x, self.output_weights, self.output_bias)


class BertForSequenceClassification(_RootHead):
    """Linear on the pooled output: adds `logits` [B, L].

    With packed rows they are [B * M, L].

    Args:
      config: the architecture.
      num_labels: L; 1 for a regression.
      head_dropout: rate in the head, whatever the config says.
      **kwargs: see `BertBase`.
    """

    def apply_head(self, outputs, inputs, seed):
        logits = self._logits(outputs["pooled_output"], seed)
        return {**outputs, "logits": logits}


class BertForTokenClassification(_RootHead):
    """Linear on every token: adds `logits` [B, S, L].

    Args:
      config: the architecture.
      num_labels: L.
      head_dropout: rate in the head, whatever the config says.
      **kwargs: see `BertBase`.
    """

    uses_pooler = False

    def apply_head(self, outputs, inputs, seed):
        hidden = outputs["sequence_output"]
        shape = tf.shape(hidden)
        flat = tf.reshape(hidden, [-1, hidden.shape[-1]])
        logits = tf.reshape(
            self._logits(flat, seed), [shape[0], shape[1], self.num_labels]
        )
        return {**outputs, "logits": logits}


class BertForQuestionAnswering(BertBase):
    """Start and end of an answer: adds two logits [B, S].

    `start_logits` and `end_logits`; no dropout in the head.
    """

    uses_pooler = False

    def build_head(self):
        dtype = self.dtype_policy
        head = LinearHead(
            2, self.config.hidden_size, HEAD_STDDEV, "squad", dtype
        )
        self.cls = Scope("cls", dtype, squad=head)
        self.cls.build()

    def apply_head(self, outputs, inputs, seed):
        hidden = outputs["sequence_output"]
        shape = tf.shape(hidden)
        logits = self.cls.squad(tf.reshape(hidden, [-1, hidden.shape[-1]]))
        logits = tf.reshape(logits, [shape[0], shape[1], 2])
        start, end = tf.unstack(logits, axis=2)
        return {**outputs, "start_logits": start, "end_logits": end}


class BertForMultipleChoice(BertBase):
    """One score for each choice: `logits` [B, C].

    The inputs are [B, C, S]; every other output has B * C rows. The head is
    one vector, as in the paper's SWAG model (arXiv 1810.04805, section 4.4).
    """

    def build_head(self):
        self.output_weights = self.add_weight(
            name="output_weights",
            shape=(1, self.config.hidden_size),
            initializer=truncated_normal(HEAD_STDDEV),
        )
        self.output_bias = self.add_weight(
            name="output_bias", shape=(1,), initializer="zeros"
        )

    def prepare_inputs(self, inputs):
        """Folds the choices into the batch."""
        return {
            name: tf.reshape(x, [-1, x.shape[-1]])
            for name, x in inputs.items()
            if x.shape.rank == 3
        }

    def apply_head(self, outputs, inputs, seed):
        x = dropout(outputs["pooled_output"], HEAD_DROPOUT, seed)
        scores = _linear(x, self.output_weights, self.output_bias)
        choices = inputs["input_ids"].shape[1]
        logits = tf.reshape(scores, [-1, choices])
        return {**outputs, "logits": logits}
