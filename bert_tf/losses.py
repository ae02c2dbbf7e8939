"""Loss functions: pure functions of tensors, always float32.

Shape letters: B batch, P predictions, V vocabulary, L labels, S sequence,
M sequences in a packed row.
"""

import tensorflow as tf

# Added to the sum of the masked-LM weights (google-research/bert,
# run_pretraining.py), so that a batch without predictions has loss 0.
MASKED_LM_EPSILON = 1e-5
# For positions that cannot be chosen: a softmax gives them 0.
OUTSIDE_LOGIT = -1e4


def softmax_cross_entropy(logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
    """Cross entropy of each row.

    A label outside the classes selects nothing, as a one-hot row of zeros
    would, so its loss is 0.

    Args:
      logits: [..., L].
      labels: int [...].

    Returns:
      float32 [...].
    """
    logits = tf.cast(logits, tf.float32)
    labels = tf.convert_to_tensor(labels)
    classes = tf.shape(logits)[-1]
    inside = (labels >= 0) & (labels < classes)
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=tf.where(inside, labels, 0), logits=logits
    )
    return tf.where(inside, loss, 0.0)


def span_cross_entropy(
    start_logits: tf.Tensor,
    end_logits: tf.Tensor,
    start_positions: tf.Tensor,
    end_positions: tf.Tensor,
) -> tf.Tensor:
    """Mean of the losses of both ends, over all S positions.

    Args:
      start_logits: [B, S]; end_logits likewise.
      end_logits: [B, S].
      start_positions: int [B].
      end_positions: int [B].

    Returns:
      float32 [B].
    """
    start = softmax_cross_entropy(start_logits, start_positions)
    end = softmax_cross_entropy(end_logits, end_positions)
    return (start + end) / 2.0


def logits_by_sequence(
    logits: tf.Tensor, sequence_ids: tf.Tensor, places: int
) -> tf.Tensor:
    """Gives each sequence of a packed row a row of its own.

    Args:
      logits: [B, S].
      sequence_ids: int [B, S], 1 on the first sequence, 0 on padding.
      places: M, most sequences in a row.

    Returns:
      float32 [B * M, S], so low outside the sequence that its softmax is 0.
    """
    numbers = tf.range(1, places + 1)[tf.newaxis, :, tf.newaxis]
    own = tf.equal(sequence_ids[:, tf.newaxis, :], numbers)
    logits = tf.cast(logits, tf.float32)[:, tf.newaxis, :]
    spread = tf.where(own, logits, OUTSIDE_LOGIT)
    return tf.reshape(spread, [-1, logits.shape[-1]])


def weighted_mean(
    values: tf.Tensor, weights: tf.Tensor, epsilon: float = 0.0
) -> tf.Tensor:
    """sum(weights * values) / (sum(weights) + epsilon), a scalar."""
    weights = tf.cast(weights, tf.float32)
    total = tf.reduce_sum(weights * values)
    return total / (tf.reduce_sum(weights) + epsilon)


def sigmoid_cross_entropy(logits: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
    """Mean over the labels of the binary cross entropies.

    Args:
      logits: [B, L].
      targets: float [B, L], 1 where a label holds.

    Returns:
      float32 [B].
    """
    loss = tf.nn.sigmoid_cross_entropy_with_logits(
        labels=tf.cast(targets, tf.float32), logits=tf.cast(logits, tf.float32)
    )
    return tf.reduce_mean(loss, axis=-1)
