"""Building blocks of the encoder: activation, dropout, norm, attention.

A layer's name is its TensorFlow 1 variable scope.

Shape letters: B batch, S sequence, N heads, H size per head, D hidden,
I intermediate.

Source of all formulas: Devlin et al. 2018 (arXiv 1810.04805) and Vaswani et
al. 2017 (arXiv 1706.03762), in the form of google-research/bert,
`modeling.py`: post-layer-norm, tanh gelu, additive mask of -10000.
"""

import math
from collections.abc import Callable

import keras
import numpy as np
import tensorflow as tf

from bert_tf import derivatives
from bert_tf.config import LAYER_NORM_EPS, BertConfig

MASK_PENALTY = -10000.0


def gelu(x: tf.Tensor) -> tf.Tensor:
    """Gaussian error linear unit, tanh form (Hendrycks and Gimpel 2016)."""
    inner = math.sqrt(2.0 / math.pi) * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1.0 + tf.tanh(inner))


def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """Gaussian error linear unit, exact form, as PyTorch models have it."""
    return 0.5 * x * (1.0 + tf.math.erf(x * math.sqrt(0.5)))


_ACTIVATIONS: dict[str, Callable | None] = {
    "gelu": gelu,
    "gelu_erf": gelu_erf,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": None,
    "": None,
}


def get_activation(name: str | Callable | None) -> Callable | None:
    """Looks up an activation by the name a config gives it.

    Args:
      name: one of `config.ACTIVATIONS`, in any case; a callable passes
        through.

    Returns:
      A function of one tensor, or None for the identity.

    Raises:
      ValueError: an unknown name.
    """
    if name is None or callable(name):
        return name
    if name.lower() not in _ACTIVATIONS:
        raise ValueError(
            f"unknown activation {name!r}, expected one of "
            f"{', '.join(filter(None, _ACTIVATIONS))}"
        )
    return _ACTIVATIONS[name.lower()]


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Normal values of mean 0, cut at two standard deviations."""
    return keras.initializers.TruncatedNormal(stddev=stddev)


def sinusoidal_positions(rows: int, size: int, amplitude: float) -> np.ndarray:
    """Start values of position embeddings that lie near for near positions.

    Sines in the first half of a row, cosines in the second, of wavelengths
    from 2 pi to 10000 * 2 pi (Vaswani et al. 2017, arXiv 1706.03762, section
    3.5, with the columns in another order).

    Args:
      rows: number of positions.
      size: D.
      amplitude: of each sine.

    Returns:
      float32 [rows, D].
    """
    half = (size + 1) // 2
    rates = 10000.0 ** (-np.arange(half) / half)
    angles = np.arange(rows)[:, np.newaxis] * rates
    waves = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
    return (amplitude * waves[:, :size]).astype(np.float32)


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor | None) -> tf.Tensor:
    """Zeroes values at random and scales the rest by 1 / (1 - rate).

    Args:
      x: any shape.
      rate: chance of a value to be dropped.
      seed: int32 [2], the whole source of randomness; None switches off.

    Returns:
      Tensor of the shape and dtype of `x`.
    """
    if seed is None or not rate:
        return x
    return tf.nn.experimental.stateless_dropout(x, rate=rate, seed=seed)


def dense(
    units: int, config: BertConfig, name: str, activation=None, dtype=None
) -> keras.layers.Dense:
    """A dense layer with the model's initializer; works on 2-D matrices."""
    return keras.layers.Dense(
        units,
        activation=get_activation(activation),
        kernel_initializer=truncated_normal(config.initializer_range),
        name=name,
        dtype=dtype,
    )


class LayerNorm(keras.layers.Layer):
    """Layer normalization over the last axis, computed in float32.

    Ba et al. 2016 (arXiv 1607.06450); population variance, epsilon inside
    the square root. The result has the dtype `output_dtype`.
    """

    def __init__(
        self,
        output_dtype: str = "float32",
        name: str = "LayerNorm",
        epsilon: float = LAYER_NORM_EPS,
    ):
        super().__init__(name=name, dtype="float32")
        self.output_dtype = output_dtype
        self.epsilon = epsilon

    def build(self, input_shape):
        size = input_shape[-1]
        self.beta = self.add_weight(
            name="beta", shape=(size,), initializer="zeros"
        )
        self.gamma = self.add_weight(
            name="gamma", shape=(size,), initializer="ones"
        )
        self.built = True

    def call(self, x, training=False):
        """Normalizes; `training` chooses a form that is quicker to derive."""
        x = tf.cast(x, tf.float32)
        if training:
            gamma, beta = map(tf.convert_to_tensor, (self.gamma, self.beta))
            x = derivatives.layer_norm(x, gamma, beta, self.epsilon)
            return tf.cast(x, self.output_dtype)
        centred = x - tf.reduce_mean(x, axis=-1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), axis=-1, keepdims=True)
        scale = tf.math.rsqrt(variance + self.epsilon) * self.gamma
        return tf.cast(centred * scale + self.beta, self.output_dtype)


class Embeddings(keras.layers.Layer):
    """Word, segment and position embeddings, summed and normalized."""

    def __init__(self, config: BertConfig, use_one_hot: bool, dtype=None):
        super().__init__(name="embeddings", dtype=dtype)
        self.config = config
        self.use_one_hot = use_one_hot
        self.layer_norm = LayerNorm(
            self.compute_dtype, epsilon=config.layer_norm_eps
        )

    def build(self, input_shape=None):
        config = self.config
        for name, rows in (
            ("word_embeddings", config.vocab_size),
            ("token_type_embeddings", config.type_vocab_size),
            ("position_embeddings", config.max_position_embeddings),
        ):
            table = self.add_weight(
                name=name,
                shape=(rows, config.hidden_size),
                initializer=truncated_normal(config.initializer_range),
            )
            setattr(self, name, table)
        self.layer_norm.build((None, config.hidden_size))
        self.built = True

    def call(self, input_ids, segment_ids, position_ids=None, seed=None):
        """Embeds ids; all inputs int32 [B, S], the result [B, S, D]."""
        config = self.config
        words = tf.convert_to_tensor(self.word_embeddings)
        types = tf.convert_to_tensor(self.token_type_embeddings)
        positions = tf.convert_to_tensor(self.position_embeddings)
        length = _length(input_ids)
        if input_ids.shape[1] is not None:
            _check_length(length, config)
        if self.use_one_hot:
            hot = tf.one_hot(input_ids, config.vocab_size, dtype=words.dtype)
            x = tf.einsum("bsv,vd->bsd", hot, words)
        else:
            x = tf.gather(words, input_ids)
        # A one-hot product, so that a type outside the table adds nothing.
        hot = tf.one_hot(segment_ids, config.type_vocab_size, dtype=x.dtype)
        x += tf.einsum("bst,td->bsd", hot, types)
        if position_ids is None:
            x += positions[:length]
        else:
            x += tf.gather(positions, position_ids)
        x = self.layer_norm(x, training=seed is not None)
        return dropout(x, config.hidden_dropout_prob, seed)


class SelfAttention(keras.layers.Layer):
    """Scaled dot-product attention with N heads (scope `self`)."""

    def __init__(self, config: BertConfig, dtype=None):
        # No automatic cast: the mask penalty stays float32.
        super().__init__(name="self", dtype=dtype, autocast=False)
        self.config = config
        for name in ("query", "key", "value"):
            layer = dense(config.hidden_size, config, name, dtype=dtype)
            setattr(self, name, layer)

    def build(self, input_shape=None):
        for layer in (self.query, self.key, self.value):
            layer.build((None, self.config.hidden_size))
        self.built = True

    def _heads(self, x, shape):
        config = self.config
        size = config.hidden_size // config.num_attention_heads
        x = tf.reshape(x, [*shape, config.num_attention_heads, size])
        return tf.transpose(x, [0, 2, 1, 3])

    def call(self, x, shape, mask_penalty, seed=None):
        """Attends.

        Args:
          x: [B * S, D].
          shape: (B, S).
          mask_penalty: float32 [B, 1, 1 or S, S], added to the scores.
          seed: int32 [2] or None.

        Returns:
          The context [B * S, D] and the probabilities [B, N, S, S] (float32,
          before dropout).
        """
        config = self.config
        size = config.hidden_size // config.num_attention_heads
        query = self._heads(self.query(x), shape)
        key = self._heads(self.key(x), shape)
        value = self._heads(self.value(x), shape)
        scores = tf.matmul(query, key, transpose_b=True)
        scores = tf.cast(scores, tf.float32) * (1.0 / math.sqrt(size))
        probs = tf.nn.softmax(scores + mask_penalty, axis=-1)
        dropped = dropout(
            tf.cast(probs, value.dtype),
            config.attention_probs_dropout_prob,
            seed,
        )
        context = tf.transpose(tf.matmul(dropped, value), [0, 2, 1, 3])
        return tf.reshape(context, [-1, config.hidden_size]), probs


class ResidualOutput(keras.layers.Layer):
    """Dense, dropout, residual, layer norm (scope `output`)."""

    def __init__(self, config: BertConfig, input_size: int, dtype=None):
        super().__init__(name="output", dtype=dtype)
        self.config = config
        self.input_size = input_size
        self.dense = dense(config.hidden_size, config, "dense", dtype=dtype)
        self.layer_norm = LayerNorm(
            self.compute_dtype, epsilon=config.layer_norm_eps
        )

    def build(self, input_shape=None):
        self.dense.build((None, self.input_size))
        self.layer_norm.build((None, self.config.hidden_size))
        self.built = True

    def call(self, x, residual, seed=None):
        x = dropout(self.dense(x), self.config.hidden_dropout_prob, seed)
        return self.layer_norm(x + residual, training=seed is not None)


class Scope(keras.layers.Layer):
    """A name scope round other layers, each an attribute of its own name."""

    def __init__(self, name: str, dtype=None, **layers: keras.layers.Layer):
        super().__init__(name=name, dtype=dtype)
        for attribute, layer in layers.items():
            setattr(self, attribute, layer)
        self._children = list(layers.values())

    def build(self, input_shape=None):
        for layer in self._children:
            if not layer.built:
                layer.build(input_shape)
        self.built = True

    def call(self, x):
        """Applies the layers one after the other."""
        for layer in self._children:
            x = layer(x)
        return x


def gather_positions(x: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """Picks rows of each sequence.

    Args:
      x: [B, S, D].
      positions: int32 [B, P].

    Returns:
      [B * P, D].
    """
    shape = tf.shape(x)
    offsets = tf.range(shape[0])[:, tf.newaxis] * shape[1]
    flat = tf.reshape(positions + offsets, [-1])
    return tf.gather(tf.reshape(x, [-1, x.shape[-1]]), flat)


def attention_penalty(
    input_ids: tf.Tensor,
    input_mask: tf.Tensor | None,
    sequence_ids: tf.Tensor | None = None,
) -> tf.Tensor:
    """What is added to the attention scores: 0, or -10000 where masked.

    The mask is that of the keys alone; padding queries attend too.

    Args:
      input_ids: [B, S], for the shape.
      input_mask: [B, S], 1 visible, 0 hidden; None shows all.
      sequence_ids: [B, S]; tokens see only those of the same number. None:
        one sequence a row.

    Returns:
      float32 [B, 1, 1, S], or [B, 1, S, S] with `sequence_ids`.
    """
    if input_mask is None:
        input_mask = tf.ones_like(input_ids)
    # LiteRT has no slice that adds two axes to a tensor of free shape.
    visible = tf.cast(input_mask, tf.float32)[:, tf.newaxis]
    visible = tf.expand_dims(visible, axis=1)
    if sequence_ids is not None:
        same = tf.equal(
            sequence_ids[:, :, tf.newaxis], sequence_ids[:, tf.newaxis, :]
        )
        visible = visible * tf.cast(same, tf.float32)[:, tf.newaxis]
    return (1.0 - visible) * MASK_PENALTY


def _length(input_ids):
    return input_ids.shape[1] or tf.shape(input_ids)[1]


def _check_length(length: int, config: BertConfig) -> None:
    if length > config.max_position_embeddings:
        raise ValueError(
            f"sequence length {length} is above max_position_embeddings "
            f"{config.max_position_embeddings}"
            + (f" of {config.source}" if config.source else "")
        )
