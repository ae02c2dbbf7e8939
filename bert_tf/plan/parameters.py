"""Number of parameters by part of the model.

Letters: V vocabulary, D hidden, I intermediate.
"""

from bert_tf.plan.step import Step


def layer_matrices(step: Step) -> int:
    """Weights of one encoder layer's matrices: 4 D^2 + 2 D I."""
    d, i = step.config.hidden_size, step.config.intermediate_size
    return 4 * d * d + 2 * d * i


def count_layer(step: Step) -> int:
    """Parameters of one encoder layer: matrices, biases, two norms."""
    d, i = step.config.hidden_size, step.config.intermediate_size
    return layer_matrices(step) + (5 * d + i) + 4 * d


def count_word_table(step: Step) -> int:
    """Parameters of the word embeddings, which the masked LM shares."""
    return step.config.vocab_size * step.config.hidden_size


def count_parameters(step: Step) -> dict[str, int]:
    """Parameters by part; the sum is that of the model as built."""
    config = step.config
    d = config.hidden_size
    tables = config.type_vocab_size + config.max_position_embeddings
    heads = {
        # Transform, its norm, a bias per word; two classes.
        "pretraining": d * d + 3 * d + config.vocab_size + 2 * d + 2,
        "classification": (d + 1) * step.num_labels,
        "squad": 2 * d + 2,
    }
    return {
        "word embeddings": count_word_table(step),
        "other embeddings": tables * d + 2 * d,
        "encoder layers": config.num_hidden_layers * count_layer(step),
        "pooler": d * d + d,
        "head": heads[step.task],
    }


def count_trained(step: Step) -> int:
    """Parameters that the loss reaches: those with moments."""
    counts = count_parameters(step)
    if not step.uses_pooler:
        del counts["pooler"]
    return sum(counts.values())
