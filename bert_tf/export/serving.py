"""What all exported models share: model, tokenizer, the id signature.

Shape letters: B batch, S sequence, L labels, D hidden.
"""

import abc
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from bert_tf.inference.predictor import Predictor
from bert_tf.tokenization.graph import GraphTokenizer

INPUTS = ("input_ids", "input_mask", "segment_ids")
Outputs = dict[str, tf.Tensor]
Signature = tuple[Callable[..., Outputs], list[tf.TensorSpec]]


def strings(name: str, rank: int = 1) -> tf.TensorSpec:
    """A text input of any batch."""
    return tf.TensorSpec([None] * rank, tf.string, name)


class Serving(abc.ABC):
    """Functions of a model for serving.

    Args:
      predictor: the loaded model and its folder.
      model: what computes; `predictor.model`, or the same in another dtype.
      fixed_length: pad every batch to the model's longest input.

    Attributes:
      max_seq_length: S, the longest input.
    """

    def __init__(
        self, predictor: Predictor, model: Any, fixed_length: bool = False
    ):
        self.predictor = predictor
        self.model = model
        self.fixed_length = fixed_length
        self.max_seq_length = predictor.folder.max_seq_length
        self.tokenizer = GraphTokenizer(predictor.tokenizer)

    @abc.abstractmethod
    def select(self, outputs: Outputs, features: Outputs) -> Outputs:
        """What is given of the model's outputs, tensors [B, ...]."""

    @abc.abstractmethod
    def text_signatures(self) -> dict[str, Signature]:
        """Name -> function of texts and its inputs."""

    def predict_ids(self, input_ids, input_mask, segment_ids) -> Outputs:
        """Outputs for int32 inputs [B, S].

        S beyond the longest input stops the call with both lengths.
        """
        length = tf.shape(input_ids)[1]
        check = tf.debugging.Assert(
            length <= self.max_seq_length,
            [
                "input_ids are longer than the model's longest input:",
                length,
                self.max_seq_length,
            ],
        )
        with tf.control_dependencies([] if self.fixed_length else [check]):
            input_ids = tf.identity(input_ids)
        return self.apply(
            {
                "input_ids": input_ids,
                "input_mask": input_mask,
                "segment_ids": segment_ids,
            }
        )

    def apply(self, features: Outputs) -> Outputs:
        """Outputs for the three model inputs, without a check of length."""
        return self.select(self.model(features, training=False), features)

    def id_specs(self) -> list[tf.TensorSpec]:
        """Shapes of the three inputs."""
        length = self.max_seq_length if self.fixed_length else None
        return [tf.TensorSpec([None, length], tf.int32, x) for x in INPUTS]

    def encode(self, texts_a, texts_b=None) -> Outputs:
        """Texts [B] as model inputs."""
        return self.tokenizer.encode(
            texts_a, texts_b, self.max_seq_length, pad=self.fixed_length
        )

    def signatures(self) -> dict[str, Signature]:
        """All functions by name, `serving_default` for one text first."""
        ids = {"ids": (self.predict_ids, self.id_specs())}
        return {**self.text_signatures(), **ids}


class TextServing(Serving):
    """A model that gives one result for a text or a pair."""

    def text_signatures(self):
        return {
            "serving_default": (self.predict_text, [strings("text")]),
            "pair": (
                self.predict_pair,
                [strings("text_a"), strings("text_b")],
            ),
        }

    def predict_text(self, text) -> Outputs:
        """Outputs for texts [B]."""
        return self.name_labels(self.apply(self.encode(text)))

    def predict_pair(self, text_a, text_b) -> Outputs:
        """Outputs for pairs; an empty second text makes a single."""
        return self.name_labels(self.apply(self.encode(text_a, text_b)))

    def name_labels(self, outputs: Outputs) -> Outputs:
        """Adds names of labels; none by default."""
        return outputs


class EmbeddingServing(TextServing):
    """One vector for each text: `embedding` [B, D]."""

    def select(self, outputs, features):
        (vectors,) = self.predictor._select(outputs, features).values()
        return {"embedding": vectors}


class ClassificationServing(TextServing):
    """Labels and probabilities, or the value of a regression.

    For text: `label` [B] (the first of equals, as in the runner) and, in the
    order of the probabilities, `labels` [B, L]. In multi-label `predicted`
    [B, L] tells which labels reach the threshold. A regression has `value`
    [B].
    """

    def select(self, outputs, features):
        (values,) = self.predictor._select(outputs, features).values()
        if self.predictor.kind == "regression":
            return {"value": values[:, 0]}
        return {"probabilities": values, "logits": outputs["logits"]}

    def name_labels(self, outputs):
        if self.predictor.kind == "regression":
            return outputs
        probabilities = outputs["probabilities"]
        labels = tf.constant(self.predictor.labels)
        named = {
            "probabilities": probabilities,
            "labels": tf.broadcast_to(labels, tf.shape(probabilities)),
        }
        if self.predictor.kind == "multi_label":
            named["predicted"] = probabilities >= self.predictor.threshold
        else:
            named["label"] = tf.gather(labels, tf.argmax(probabilities, 1))
        return named
