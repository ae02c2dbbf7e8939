"""`python -m bert_tf.export`: arguments, then one call."""

import argparse
import logging
import sys
from collections.abc import Callable, Sequence

TASKS = ("classification", "tagging", "squad", "embedding", "fill_mask")
FORMATS = ("saved_model", "litert", "onnx")
DTYPES = ("float32", "bfloat16")


def create_parser() -> argparse.ArgumentParser:
    """The parser of the command."""
    parser = argparse.ArgumentParser(
        prog="python -m bert_tf.export",
        description="Writes a trained model for serving, and compares what "
        "was written with the model.",
    )
    add = parser.add_argument
    add("--model_dir", required=True, help="run folder, or a released model")
    add(
        "--output",
        required=True,
        help="new folder; a new file for onnx and litert",
    )
    add(
        "--format",
        choices=FORMATS,
        default="saved_model",
        help="saved_model takes text or ids, the others ids "
        " (default: %(default)s)",
    )
    add(
        "--task",
        choices=TASKS,
        help="by default that of the run; embedding for a model without a head",
    )
    add(
        "--dtype",
        choices=DTYPES,
        default="float32",
        help="in which the model computes (default: %(default)s)",
    )
    add(
        "--max_seq_length",
        type=int,
        help="longest input in pieces; by default that of the run",
    )
    add(
        "--fixed_length",
        action="store_true",
        help="pad every input to max_seq_length, for devices whose "
        "programs have fixed shapes",
    )
    _add_model_options(add)
    return parser


def _add_model_options(add: Callable) -> None:
    """Options for what the folder does not say, and of single tasks."""
    add("--checkpoint", help="other than the folder's own")
    add(
        "--do_lower_case",
        type=_boolean,
        help="casing of the model, where the folder does not say it",
    )
    add(
        "--labels",
        type=lambda text: text.split(","),
        help="of a classifier, joined by commas, where the folder does not "
        "say them",
    )
    add(
        "--threshold",
        type=float,
        help="smallest probability of a label in multi-label (default: that "
        "of each label stored in the folder, or 0.5)",
    )
    add(
        "--pooling",
        default="mean",
        choices=("cls", "mean", "max", "pooled"),
        help="how the vectors of pieces become an embedding (default: "
        "%(default)s)",
    )
    add(
        "--top_k",
        type=int,
        default=5,
        help="candidates for each [MASK] (default: %(default)s)",
    )
    add("--normalize", action="store_true", help="scale embeddings to length 1")


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def main(argv: Sequence[str] | None = None) -> None:
    """Exports; errors of input end it with a message, status 1."""
    args = create_parser().parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    logging.getLogger("absl").setLevel(logging.ERROR)
    try:
        from bert_tf.export.writing import export_model

        options = vars(args)
        export_model(options.pop("model_dir"), options.pop("output"), **options)
    except ValueError as error:
        sys.exit(f"python -m bert_tf.export: {error}")
