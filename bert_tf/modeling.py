"""`BertModel`: the encoder as a Keras model, and the base of all heads.

The path of every variable, without the root model's own name, is the name it
has in an official checkpoint: `bert/encoder/layer_0/output/dense/kernel`.

Shape letters: B batch, S sequence, N heads, D hidden.
"""

from collections.abc import Callable, Mapping
from typing import Any

import keras
import tensorflow as tf

from bert_tf import derivatives
from bert_tf.config import BertConfig
from bert_tf.layers import (
    Embeddings,
    ResidualOutput,
    Scope,
    SelfAttention,
    attention_penalty,
    dense,
    gather_positions,
    gelu,
    get_activation,
)

# Dropout sites: one after the embeddings, three in each encoder layer, one
# that a head may use. Each has its own random stream.
_SITES_PER_LAYER = 3


class EncoderLayer(keras.layers.Layer):
    """One transformer layer: self-attention, then the feed-forward part."""

    def __init__(self, config: BertConfig, index: int, dtype=None):
        super().__init__(name=f"layer_{index}", dtype=dtype, autocast=False)
        self.config = config
        self.self_attention = SelfAttention(config, dtype)
        self.attention_output = ResidualOutput(
            config, config.hidden_size, dtype
        )
        self.attention = Scope(
            "attention",
            dtype,
            self_attention=self.self_attention,
            attention_output=self.attention_output,
        )
        self.intermediate = Scope(
            "intermediate",
            dtype,
            dense=dense(config.intermediate_size, config, "dense", dtype=dtype),
        )
        self.activation = get_activation(config.hidden_act)
        self.feed_forward_output = ResidualOutput(
            config, config.intermediate_size, dtype
        )

    def build(self, input_shape=None):
        shape = (None, self.config.hidden_size)
        self.attention.build(shape)
        self.intermediate.build(shape)
        self.feed_forward_output.build()
        self.built = True

    def call(self, x, shape, mask_penalty, seeds=None):
        """[B * S, D] in; the same out, with the probabilities."""
        seeds = seeds or (None,) * _SITES_PER_LAYER
        activation = self.activation
        if activation is gelu and seeds[0] is not None:
            activation = derivatives.gelu
        context, probs = self.self_attention(
            x, shape=shape, mask_penalty=mask_penalty, seed=seeds[0]
        )
        x = self.attention_output(context, residual=x, seed=seeds[1])
        inner = self.intermediate(x)
        if activation is not None:
            inner = activation(inner)
        x = self.feed_forward_output(inner, residual=x, seed=seeds[2])
        return x, probs


class BertEncoder(keras.layers.Layer):
    """Embeddings, encoder layers and pooler: everything under `bert/`.

    Args:
      config: the architecture.
      use_one_hot_embeddings: look words up by a matrix product, which is
        faster on TPU, in place of a gather.
      dtype: Keras dtype policy or its name, such as `"mixed_bfloat16"`.
      recompute: in training, compute the inside of each layer again for the
        backward pass instead of keeping it: a third more time, memory for
        one layer at a time (Chen et al. 2016, arXiv 1604.06174).
    """

    def __init__(
        self,
        config: BertConfig,
        use_one_hot_embeddings: bool = False,
        dtype=None,
        recompute: bool = False,
    ):
        super().__init__(name="bert", dtype=dtype, autocast=False)
        self.config = config
        self.recompute = recompute
        self.embeddings = Embeddings(config, use_one_hot_embeddings, dtype)
        self.encoder_layers = [
            EncoderLayer(config, i, dtype)
            for i in range(config.num_hidden_layers)
        ]
        self.encoder = Scope(
            "encoder", dtype, **{x.name: x for x in self.encoder_layers}
        )
        self.pooler = Scope(
            "pooler",
            dtype,
            dense=dense(config.hidden_size, config, "dense", "tanh", dtype),
        )

    def build(self, input_shape=None):
        self.embeddings.build()
        self.encoder.build()
        self.pooler.build((None, self.config.hidden_size))
        self.built = True

    def call(self, inputs, seeds=None, return_attention_probs=False):
        """Runs the encoder.

        Args:
          inputs: int32 tensors [B, S] under `input_ids` and, optional,
            `input_mask`, `segment_ids`, `position_ids`, `sequence_ids`; and
            `sequence_starts` [B, M], the offsets of packed sequences.
          seeds: int32 [sites, 2], one for each dropout; None switches all
            dropout off.
          return_attention_probs: adds the list of [B, N, S, S].

        Returns:
          Dict of outputs, all float32 or the compute dtype. With
          `sequence_starts` [B, M] among the inputs `pooled_output` has B * M
          rows, one for each sequence of each row.
        """
        input_ids = inputs["input_ids"]
        segment_ids = inputs.get("segment_ids")
        if segment_ids is None:
            segment_ids = tf.zeros_like(input_ids)
        sites = 1 + _SITES_PER_LAYER * len(self.encoder_layers)
        split = [None] * sites if seeds is None else tf.unstack(seeds)[:sites]
        embedding_output = self.embeddings(
            input_ids,
            segment_ids=segment_ids,
            position_ids=inputs.get("position_ids"),
            seed=split[0],
        )
        shape = _static_or_dynamic_shape(input_ids)
        penalty = attention_penalty(
            input_ids, inputs.get("input_mask"), inputs.get("sequence_ids")
        )
        hidden_size = self.config.hidden_size
        x = tf.reshape(embedding_output, [-1, hidden_size])
        layers, attention = [], []
        train_layer = None
        if seeds is not None and not return_attention_probs:
            train_layer = self._training_pass(shape, penalty)
        for i, layer in enumerate(self.encoder_layers):
            first = 1 + _SITES_PER_LAYER * i
            sites = tuple(split[first : first + _SITES_PER_LAYER])
            if train_layer is not None:
                x = train_layer(layer, x, sites)
            else:
                x, probs = layer(
                    x, shape=shape, mask_penalty=penalty, seeds=sites
                )
                attention.append(probs)
            layers.append(tf.reshape(x, [*shape, hidden_size]))
        outputs = {
            "embedding_output": embedding_output,
            "all_encoder_layers": layers,
            "sequence_output": layers[-1],
            "pooled_output": self.pooler(
                _first_tokens(layers[-1], inputs.get("sequence_starts"))
            ),
        }
        if return_attention_probs:
            outputs["attention_probs"] = attention
        return outputs

    def _training_pass(self, shape, mask_penalty) -> Callable:
        """(layer, x, seeds) -> x of one layer, as training needs it.

        All layers are alike: in a graph each is a call of one function with
        its own variables as arguments, so that tracing hardly takes longer
        for 24 layers than for one.
        """

        def run(layer, x, seeds):
            # The probabilities would be kept, as a gradient of zeros.
            return layer(
                x, shape=shape, mask_penalty=mask_penalty, seeds=seeds
            )[0]

        if self.recompute:
            # Weights that are arguments would be copied for each layer.
            return lambda layer, x, seeds: tf.recompute_grad(
                lambda x: run(layer, x, seeds)
            )(x)
        # The TPU bridge loses the shapes of variables on the way into a call.
        if not tf.inside_function() or _on_tpu():
            return run
        first = self.encoder_layers[0]

        @tf.function(autograph=False)
        def run_first(x, seeds, values):
            given = zip(first.variables, values, strict=True)
            with keras.StatelessScope(given):
                return run(first, x, seeds)

        def call(layer, x, seeds):
            values = [tf.convert_to_tensor(v) for v in layer.variables]
            with tf.name_scope(layer.name):
                return run_first(x, seeds, values)

        return call


def _on_tpu() -> bool:
    strategy = tf.distribute.get_strategy()
    return isinstance(strategy, tf.distribute.TPUStrategy)


def _first_tokens(hidden: tf.Tensor, starts: tf.Tensor | None) -> tf.Tensor:
    """[B, S, D] -> [B, D], or [B * M, D] for starts [B, M]."""
    if starts is None:
        return hidden[:, 0, :]
    return gather_positions(hidden, starts)


def _static_or_dynamic_shape(x):
    # Keras takes no mixture of both in one argument.
    if x.shape.is_fully_defined():
        return tuple(x.shape)
    return tuple(tf.unstack(tf.shape(x)))


class BertBase(keras.Model):
    """What `BertModel` and the models with heads share.

    A subclass adds its head's variables in `build_head` and its outputs in
    `apply_head`.

    Args:
      config: the architecture.
      use_one_hot_embeddings: see `BertEncoder`.
      dtype: Keras dtype policy or its name; float32 by default.
      recompute: see `BertEncoder`.
      name: the root's name; it is no part of checkpoint names.
    """

    # Whether a loss on the head's outputs reaches the pooler; variables that
    # no gradient reaches get neither update nor slots.
    uses_pooler = True

    def __init__(
        self,
        config: BertConfig,
        *,
        use_one_hot_embeddings: bool = False,
        dtype=None,
        recompute: bool = False,
        name: str | None = None,
    ):
        super().__init__(name=name, dtype=dtype)
        self.config = config
        self.bert = BertEncoder(
            config, use_one_hot_embeddings, dtype, recompute
        )
        self.build(None)

    def build(self, input_shape=None):
        self.bert.build()
        self.build_head()
        self.built = True

    def __call__(self, inputs, *args, **kwargs):
        # Plain lists, which Keras would take apart, are tensors here.
        if isinstance(inputs, Mapping):
            inputs = {
                name: tf.convert_to_tensor(value)
                if isinstance(value, (list, tuple))
                else value
                for name, value in inputs.items()
            }
        elif isinstance(inputs, (list, tuple)):
            inputs = tf.convert_to_tensor(inputs)
        return super().__call__(inputs, *args, **kwargs)

    def build_head(self) -> None:
        """Makes the head's variables; none by default."""

    def prepare_inputs(self, inputs):
        """Reshapes int32 inputs to [B, S]; nothing to do by default."""
        return inputs

    def apply_head(
        self,
        outputs: dict[str, Any],
        inputs: Mapping[str, tf.Tensor],
        seed: tf.Tensor | None,
    ) -> dict[str, Any]:
        """Adds the head's outputs.

        Args:
          outputs: of the encoder.
          inputs: the model's int32 inputs, before `prepare_inputs`.
          seed: int32 [2] for the head's dropout, or None.
        """
        return outputs

    def call(
        self,
        inputs,
        training=False,
        return_attention_probs=False,
        dropout_seed=None,
    ):
        """Runs the model.

        Args:
          inputs: int tensors [B, S] under `input_ids` and, optional,
            `input_mask` (default ones), `segment_ids` (default zeros),
            `position_ids`, `sequence_ids` and `sequence_starts` [B, M] (up
            to M sequences packed in a row, see `sequence_packing`); what the
            head needs beside. One tensor is taken as `input_ids`.
          training: switches dropout on.
          return_attention_probs: adds `attention_probs`.
          dropout_seed: int32 [2]; the same seed drops the same values. None
            draws one.

        Returns:
          Dict with `embedding_output` [B, S, D], `all_encoder_layers` (list
          of [B, S, D]), `sequence_output` [B, S, D], `pooled_output` [B, D]
          ([B * M, D] with `sequence_starts`), the head's outputs and, when
          asked for, `attention_probs` (list of [B, N, S, S]).
        """
        inputs = _int32_inputs(inputs)
        seeds = None
        if training:
            seeds = self._dropout_seeds(dropout_seed)
        outputs = self.bert(
            self.prepare_inputs(inputs),
            seeds=seeds,
            return_attention_probs=return_attention_probs,
        )
        head_seed = None if seeds is None else seeds[-1]
        return self.apply_head(outputs, inputs, head_seed)

    def _dropout_seeds(self, dropout_seed):
        if dropout_seed is None:
            dropout_seed = tf.random.uniform(
                [2], maxval=tf.int32.max, dtype=tf.int32
            )
        sites = 2 + _SITES_PER_LAYER * self.config.num_hidden_layers
        return tf.random.experimental.stateless_split(dropout_seed, sites)


def _int32_inputs(inputs) -> dict[str, tf.Tensor]:
    if not isinstance(inputs, Mapping):
        inputs = {"input_ids": inputs}
    out = {
        name: tf.cast(value, tf.int32)
        for name, value in inputs.items()
        if value is not None
    }
    if "input_ids" not in out:
        raise ValueError(f"no input_ids among the inputs {sorted(out)}")
    return out


class BertModel(BertBase):
    """The encoder with pooler and no head."""
