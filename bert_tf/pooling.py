"""Sentence vectors: several token vectors become one.

Shape letters: B batch, S sequence, D hidden, K layers.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_tf.config import BertConfig

if TYPE_CHECKING:
    import tensorflow as tf

EMBEDDINGS = "embeddings"
STRATEGIES = ("cls", "mean", "max", "pooled")
_HIDDEN = -1e30


def check_layers(
    layers: Sequence[int | str], config: BertConfig, flag: str = "layers"
) -> list[int | str]:
    """Checks a choice of layers.

    Args:
      layers: indices into the encoder layers as Python counts, 0 the first
        and -1 the last; the word `embeddings` for what goes into the first.
      config: the architecture.
      flag: name for the error.

    Returns:
      The layers as a list, whole numbers as ints.

    Raises:
      ValueError: no such layer, or none at all.
    """
    if isinstance(layers, (str, int)):
        layers = [layers]
    count = config.num_hidden_layers
    checked: list[int | str] = []
    for layer in layers:
        if layer == EMBEDDINGS:
            checked.append(EMBEDDINGS)
            continue
        try:
            index = int(layer)
        except ValueError:
            raise ValueError(
                f"{flag}: {layer!r} is neither a layer's number nor "
                f"{EMBEDDINGS!r}"
            ) from None
        if not -count <= index < count:
            raise ValueError(
                f"{flag}: the model has no layer {index}; its {count} layers "
                f"are 0 to {count - 1}, or -{count} to -1 from the end"
            )
        checked.append(index)
    if not checked:
        raise ValueError(f"{flag}: no layer given")
    return checked


def check_strategy(strategy: str, flag: str = "pooling") -> str:
    """Returns the strategy; ValueError if there is no such one."""
    if strategy not in STRATEGIES:
        raise ValueError(
            f"{flag} is {strategy!r}, expected one of {', '.join(STRATEGIES)}"
        )
    return strategy


def select_layers(
    outputs: Mapping[str, Any], layers: Sequence[int | str]
) -> "list[tf.Tensor]":
    """Picks layers from a model's outputs; each [B, S, D] in float32."""
    import tensorflow as tf

    return [
        tf.cast(
            outputs["embedding_output"]
            if layer == EMBEDDINGS
            else outputs["all_encoder_layers"][layer],
            tf.float32,
        )
        for layer in layers
    ]


def pool(
    outputs: Mapping[str, Any],
    input_mask: "tf.Tensor",
    layers: Sequence[int | str],
    strategy: str,
    normalize: bool = False,
) -> "tf.Tensor":
    """Makes one vector of each row.

    Args:
      outputs: of a `BertModel`.
      input_mask: int32 [B, S]; padding never counts.
      layers: see `check_layers`; their vectors are joined end to end, as in
        the paper's feature-based runs (arXiv 1810.04805, section 5.3).
        `pooled` does not use them.
      strategy: `cls` takes the vector of `[CLS]`; `mean` and `max` go over
        all pieces of the text, `[CLS]` and `[SEP]` included; `pooled` is the
        pooler's output, a dense layer with tanh on `[CLS]` of the last layer.
      normalize: scale each vector to length 1.

    Returns:
      float32 [B, K * D], or [B, D] for `pooled`.
    """
    import tensorflow as tf

    if strategy == "pooled":
        pooled = tf.cast(outputs["pooled_output"], tf.float32)
    else:
        hidden = tf.concat(select_layers(outputs, layers), axis=-1)
        pooled = _reduce(hidden, input_mask, strategy)
    return tf.math.l2_normalize(pooled, axis=-1) if normalize else pooled


def _reduce(hidden, input_mask, strategy):
    import tensorflow as tf

    if strategy == "cls":
        return hidden[:, 0]
    visible = tf.cast(input_mask, tf.float32)[:, :, tf.newaxis]
    if strategy == "max":
        return tf.reduce_max(hidden + (1.0 - visible) * _HIDDEN, axis=1)
    total = tf.reduce_sum(hidden * visible, axis=1)
    return total / tf.maximum(tf.reduce_sum(visible, axis=1), 1.0)


def cosine_similarities(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Cosine of the angle between each vector of a and each of b.

    Args:
      a: [rows of a, D].
      b: [rows of b, D].

    Returns:
      float32 [rows of a, rows of b]; 0 where a vector has no length.
    """
    a, b = (_unit(np.asarray(x, np.float64)) for x in (a, b))
    return (a @ b.T).astype(np.float32)


def _unit(vectors: np.ndarray) -> np.ndarray:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(
        vectors, lengths, out=np.zeros_like(vectors), where=lengths > 0
    )
