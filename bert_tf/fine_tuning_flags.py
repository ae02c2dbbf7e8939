"""Flags of what a fine-tuning run trains, how fast, and how often."""

from absl import flags

from bert_tf.common_flags import define


def define_flags() -> None:
    """Flags of `RunSettings` that `fine_tuning.py` explains."""
    define(
        flags.DEFINE_string,
        "freeze",
        "",
        "Parts that are not trained: encoder (all but the head), embeddings, "
        "pooler, layers:0-5; several joined by commas.",
    )
    define(
        flags.DEFINE_float,
        "layerwise_lr_decay",
        1.0,
        "Learning rate of a layer beside that of the layer above it; the head "
        "has the full rate, the top layer this share of it.",
    )
    define(
        flags.DEFINE_integer,
        "reinit_top_layers",
        0,
        "Layers, from the top, that take random values and not those of "
        "--init_checkpoint; the pooler then does too.",
    )
    define(
        flags.DEFINE_integer,
        "num_seeds",
        1,
        "Runs to make, with --random_seed and those after it, each in a "
        "sub-folder seed-<seed>; seeds.json gets mean and deviation.",
    )
