"""Flags of how updates are computed, and of evaluations in between.

`common_flags` defines them; `define` is its own function of that name.
"""

from collections.abc import Callable

from absl import flags

from bert_tf.settings import DTYPES, REDUCTIONS


def define_engine_flags(define: Callable[..., None]) -> None:
    """Precision, accumulation, memory and faults of the updates."""
    define(
        flags.DEFINE_enum,
        "dtype",
        "float32",
        "Type of the computation; weights, norms, softmax and losses stay "
        "float32. float16 scales its loss.",
        enum_values=list(DTYPES),
    )
    define(
        flags.DEFINE_integer,
        "gradient_accumulation_steps",
        1,
        "Micro-batches that --train_batch_size is computed in, to save "
        "memory; the updates stay the same.",
    )
    define(
        flags.DEFINE_enum,
        "gradient_reduction",
        "global",
        "global: the update of the whole batch on any number of replicas; "
        "original_tpu: each replica clips, then the sum, as the original on "
        "TPU cores.",
        enum_values=list(REDUCTIONS),
    )
    define(
        flags.DEFINE_bool,
        "jit_compile",
        False,
        "Compile forward and backward pass with XLA, on one device.",
    )
    define(
        flags.DEFINE_bool,
        "recompute",
        False,
        "Compute layers again in the backward pass, to save memory.",
    )
    define(
        flags.DEFINE_bool,
        "pack_sequences",
        False,
        "Put several short examples in one row of --max_seq_length pieces: "
        "the same results, several times as fast where texts are short.",
    )
    define(
        flags.DEFINE_bool,
        "auto_batch",
        False,
        "After an out-of-memory error go on with smaller micro-batches.",
    )
    define(
        flags.DEFINE_integer,
        "max_skipped_steps",
        20,
        "Stop after so many steps in a row without finite gradients.",
    )


def define_watch_flags(define: Callable[..., None]) -> None:
    """Evaluation during the training, and what follows from it."""
    define(
        flags.DEFINE_integer,
        "eval_every",
        0,
        "Steps between two evaluations during the training; 0 for none.",
    )
    define(
        flags.DEFINE_string,
        "best_metric",
        None,
        "Keep the weights with the best value of it (such as eval_accuracy) "
        "in OUTPUT_DIR/best, and go on with them after the training.",
    )
    define(
        flags.DEFINE_integer,
        "early_stopping",
        0,
        "End after so many evaluations without a better value; 0 for never.",
    )
