"""Memory of one training step on each device, by part.

Counts what TensorFlow keeps between operations when nothing is fused, as it
runs without XLA; XLA needs less. Every device holds all weights, gradients
and moments. The peak adds a share for memory that cannot be handed out again
at once, which was measured on a CPU; other devices may need less.

Letters: B micro-batch of a device, S sequence, N heads, D hidden,
I intermediate, V vocabulary, P masked predictions.
"""

import dataclasses
from collections.abc import Mapping

from bert_tf.plan.parameters import (
    count_layer,
    count_parameters,
    count_trained,
    count_word_table,
)
from bert_tf.plan.step import Step

FLOAT = 4
# Tensors of an activation's input shape that its derivative needs, beside
# its result that the next product needs: each factor of each product. The
# encoder layers have gelu's derivative written out.
_KEPT_BY_ACTIVATION = {"gelu": 6, "gelu_erf": 3}
_KEPT_IN_LAYERS = {**_KEPT_BY_ACTIVATION, "gelu": 2}
# Tensors in the size of the largest one that the backward pass of one
# layer holds beside what was kept for it.
_WORKSPACE_TENSORS = 2
# What a running step holds beyond the activations that it needs, as a share
# of them: gaps of the allocator, and results that wait for the products of
# weight gradients. Resident memory of real steps with oneDNN is within 10 per
# cent of the plan with it, for 2 to 8 layers of 128 units and float32 or
# bfloat16, and 15 per cent below it for 256 units. A layer that is computed
# again counts twice, and each leaves some results waiting; with that, steps of
# 2 to 12 such layers are within 20 per cent.
_HELD_SHARE = 0.35
_WAITING_TENSORS = 4
# The optimizer's temporaries, in the size of the variable at hand.
_OPTIMIZER_TENSORS = {"adam": 1, "lamb": 4}


@dataclasses.dataclass(frozen=True)
class Memory:
    """Bytes on one device.

    Attributes:
      parts: by part. Not all of them are there at one time: activations are
        freed while gradients come.
      peak: the most that is there at one time.
    """

    parts: dict[str, int]
    peak: int


def step_memory(step: Step) -> Memory:
    """Bytes of one update on each device."""
    trained = FLOAT * count_trained(step)
    weights = FLOAT * sum(count_parameters(step).values())
    copies = 0
    if step.dtype != "float32":
        copies = step.bytes_per_value * weights // FLOAT
    accumulates = step.gradient_accumulation_steps > 1
    layers = step.config.num_hidden_layers
    kept = _layer_input(step) if step.recompute else _layer(step)
    activations = _embeddings(step) + layers * kept + _head(step)
    parts = {
        "weights": weights,
        "moments": 2 * trained,
        # The sums of the micro-batches before, and those of this one.
        "gradients": trained * (2 if accumulates else 1),
        "copies in low precision": copies,
        "activations": activations,
        "logits": _logits(step),
        "workspace": _workspace(step),
        "held by the allocator": _held(step, activations),
    }
    always = weights + 2 * trained + (trained if accumulates else 0)
    return Memory(parts, always + _peak(step, kept, copies))


def _peak(step: Step, kept: int, copies: int) -> int:
    """The most beside weights, moments and sums of gradients."""
    layers = step.config.num_hidden_layers
    layer_gradient = FLOAT * count_layer(step)
    table = FLOAT * count_word_table(step)
    head_gradient = table if step.task == "pretraining" else 0
    activations = _embeddings(step) + layers * kept + _head(step)
    moments_in_time = [
        copies + activations + _share(activations) + _logits(step)
    ]
    for above in range(layers):
        activations = _embeddings(step) + (layers - above) * kept
        moments_in_time.append(
            copies
            + activations
            + _held(step, activations)
            + _workspace(step)
            + head_gradient
            + above * layer_gradient
        )
    # The word table's gradient is made dense, and added to the head's.
    gradients = FLOAT * count_trained(step)
    moments_in_time.append(gradients + head_gradient)
    largest = max(table, FLOAT * step.config.hidden_size**2)
    moments_in_time.append(
        gradients + _OPTIMIZER_TENSORS[step.optimizer] * largest
    )
    return max(moments_in_time)


def _layer_input(step: Step) -> int:
    """[B * S, D] in the compute dtype."""
    tokens = step.micro_batch_size * step.max_seq_length
    return tokens * step.config.hidden_size * step.bytes_per_value


def _norm(values: int) -> int:
    """Deviations from the mean, float32."""
    return FLOAT * values


def _activation(step: Step, values: int, kept_by: Mapping[str, int]) -> int:
    act = (step.config.hidden_act or "").lower()
    kept = 1 + kept_by.get(act, 0)
    return kept * values * step.bytes_per_value


def _mask(rate: float, values: int) -> int:
    """A byte for each value where there is dropout."""
    return values if rate else 0


def _attention(step: Step) -> int:
    """Probabilities [B, N, S, S]: softmax, mask, and what is left of them."""
    config = step.config
    rate = config.attention_probs_dropout_prob
    values = (
        step.micro_batch_size
        * config.num_attention_heads
        * step.max_seq_length**2
    )
    kept = FLOAT * values + _mask(rate, values)
    if rate or step.dtype != "float32":
        kept += step.bytes_per_value * values
    return kept


def _layer(step: Step) -> int:
    """What one encoder layer keeps for its backward pass, its result in."""
    config = step.config
    tokens = step.micro_batch_size * step.max_seq_length
    values = tokens * config.hidden_size
    # Query, key, value, context, and the results of both norms.
    kept = 6 * values * step.bytes_per_value
    kept += 2 * (_norm(values) + _mask(config.hidden_dropout_prob, values))
    kept += _activation(
        step, tokens * config.intermediate_size, _KEPT_IN_LAYERS
    )
    return kept + _attention(step)


def _embeddings(step: Step) -> int:
    config = step.config
    tokens = step.micro_batch_size * step.max_seq_length
    values = tokens * config.hidden_size
    mask = _mask(config.hidden_dropout_prob, values)
    return _norm(values) + mask + _layer_input(step)


def _head(step: Step) -> int:
    """The masked LM's transform; other heads keep next to nothing."""
    if step.task != "pretraining":
        return 0
    rows = step.micro_batch_size * step.max_predictions_per_seq
    values = rows * step.config.hidden_size
    kept = _activation(step, values, _KEPT_BY_ACTIVATION) + _norm(values)
    return kept + 2 * values * step.bytes_per_value


def _logits(step: Step) -> int:
    """The head's result and its derivative, both float32."""
    rows = step.micro_batch_size
    if step.task == "pretraining":
        values = rows * step.max_predictions_per_seq * step.config.vocab_size
    elif step.task == "classification":
        values = rows * step.num_labels
    else:
        values = 2 * rows * step.max_seq_length
    size = 2 * FLOAT * values
    if step.dtype != "float32":
        size += step.bytes_per_value * values
    return size


def _workspace(step: Step) -> int:
    """Temporaries of one layer's backward pass."""
    config = step.config
    tokens = step.micro_batch_size * step.max_seq_length
    feed_forward = tokens * config.intermediate_size * step.bytes_per_value
    attention = (
        tokens * step.max_seq_length * config.num_attention_heads * FLOAT
    )
    return _WORKSPACE_TENSORS * max(feed_forward, attention) + _again(step)


def _again(step: Step) -> int:
    """What the one layer keeps that is computed again."""
    return _layer(step) if step.recompute else 0


def _share(activations: int) -> int:
    return int(_HELD_SHARE * activations)


def _held(step: Step, activations: int) -> int:
    """What the backward pass holds beyond what it needs."""
    if not step.recompute:
        return _share(activations)
    waiting = _WAITING_TENSORS * _layer_input(step)
    return (
        _share(activations + 2 * _layer(step))
        + step.config.num_hidden_layers * waiting
    )


def changes_that_fit(step: Step, limit: int) -> list[Step]:
    """The smallest changes with which a step fits into `limit` bytes.

    Args:
      step: the step as asked for.
      limit: bytes of one device.

    Returns:
      The step itself if it fits. Else up to two steps with the fewest
      micro-batches that fit: without recomputation, which costs nothing, and
      with it, which costs a third more arithmetic and is listed only if it
      needs fewer micro-batches. Empty: nothing helps.
    """
    if step_memory(step).peak <= limit:
        return [step]
    found: list[Step] = []
    each = step.train_batch_size // step.replicas
    for recompute in sorted({step.recompute, True}):
        for count in range(step.gradient_accumulation_steps, each + 1):
            if each % count:
                continue
            candidate = dataclasses.replace(
                step, gradient_accumulation_steps=count, recompute=recompute
            )
            if step_memory(candidate).peak <= limit:
                if not found or count < found[0].gradient_accumulation_steps:
                    found.append(candidate)
                break
    return found
