"""Floating-point operations of the matrix products in one step.

A product of [m, k] and [k, n] counts 2 m k n. The backward pass makes two
products for each of the forward pass, which gives the usual 6 x parameters x
tokens (Kaplan et al. 2020, arXiv 2001.08361, section 2.1), to which attention
adds what does not depend on parameters. Everything else (norms, softmax,
activations, the optimizer) is below one per cent of it for usual sizes, and
the lookup of embeddings is no product.

Letters: B batch, S sequence, D hidden, V vocabulary, P masked predictions.
"""

from bert_tf.plan.parameters import layer_matrices
from bert_tf.plan.step import Step


def forward_flops(step: Step) -> dict[str, int]:
    """Of one forward pass over the global batch, by part.

    The masked-LM head is computed on the P gathered positions only.
    """
    config = step.config
    d, layers = config.hidden_size, config.num_hidden_layers
    examples = step.train_batch_size
    tokens = examples * step.max_seq_length
    flops = {
        "layer matrices": 2 * tokens * layers * layer_matrices(step),
        # Scores and weighted sum, each B S^2 D multiplications and additions.
        "attention": 4 * tokens * step.max_seq_length * d * layers,
        "pooler": 2 * examples * d * d if step.uses_pooler else 0,
    }
    if step.task == "pretraining":
        predictions = examples * step.max_predictions_per_seq
        head = 2 * predictions * (d * d + d * config.vocab_size)
        head += 2 * examples * 2 * d
    elif step.task == "classification":
        head = 2 * examples * d * step.num_labels
    else:
        head = 2 * tokens * d * 2
    flops["head"] = head
    return flops


def step_flops(step: Step) -> dict[str, int]:
    """Of one update over the global batch, on all devices together.

    Returns:
      Forward and backward pass by part; `recomputed` is what `--recompute`
      adds, and is 0 without it.
    """
    forward = forward_flops(step)
    flops = {part: 3 * count for part, count in forward.items()}
    flops["recomputed"] = 0
    if step.recompute:
        flops["recomputed"] = forward["layer matrices"] + forward["attention"]
    return flops
