"""`python -m bert_tf.visualize`: one input to a page or a picture."""

import argparse
import io
import logging
import os
import sys
from collections.abc import Sequence

from bert_tf import files
from bert_tf.inference.model_folder import open_model_folder

_ENDINGS = (".html", ".png")


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _numbers(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"{text!r}: expected numbers joined by commas"
        ) from None


def create_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bert_tf.visualize",
        description="Shows the pieces of a text or a pair, and how much each "
        "attends to each, in every layer and head.",
    )
    add = parser.add_argument
    add("--model_dir", required=True, help="run folder, or released model")
    add(
        "--output",
        required=True,
        help="view.html for a page to explore, view.png for a picture",
    )
    add("--layers", type=_numbers, help="only these, from 0: --layers=0,5,-1")
    add("--layer", type=int, help="layer shown first (default: the last)")
    add("--head", type=int, default=0, help="head shown first")
    add("--pad_to", type=int, help="pad to this length, to see the mask")
    add("--max_seq_length", type=int, help="cut the input to this length")
    add(
        "--do_lower_case",
        type=_boolean,
        help="casing of the model, where the folder does not say it",
    )
    add("--checkpoint", help="other than the folder's own")
    add("texts", nargs="+", metavar="TEXT", help="one text, or two")
    return parser


def _check(args: argparse.Namespace) -> None:
    if len(args.texts) > 2:
        raise ValueError(f"expected one or two texts, found {len(args.texts)}")
    if not args.output.endswith(_ENDINGS):
        raise ValueError(
            f"--output is {args.output!r}, expected a name that ends in "
            f"{' or '.join(_ENDINGS)}"
        )


def _choose(name: str, given: int | None, shown: Sequence[int]) -> int:
    value = shown[-1] if given is None else given
    if value < 0:
        value += shown[-1] + 1
    if value not in shown:
        raise ValueError(
            f"--{name} is {given}, expected one of "
            f"{', '.join(str(x) for x in shown)}"
        )
    return value


def run(args: argparse.Namespace) -> None:
    """Reads the model, computes, and writes the output.

    Raises:
      ValueError: arguments, model or texts do not fit together.
    """
    from bert_tf.visualize import attention, page, picture

    _check(args)
    folder = open_model_folder(
        args.model_dir,
        do_lower_case=args.do_lower_case,
        max_seq_length=args.max_seq_length,
        checkpoint=args.checkpoint,
        never_split=("[MASK]",),
    )
    inputs = attention.encode(
        folder,
        *args.texts,
        cut=args.max_seq_length is not None,
        length=args.pad_to,
    )
    layers = attention.choose_layers(folder, args.layers, len(inputs.input_ids))
    layer = _choose("layer", args.layer, layers)
    heads = range(folder.config.num_attention_heads)
    head = _choose("head", args.head, heads)
    files.make_dirs(os.path.dirname(args.output) or ".")
    found = attention.compute_attention(folder, inputs, layers)
    if args.output.endswith(".png"):
        stream = io.BytesIO()
        picture.draw(found, layer, head, stream)
        content = stream.getvalue()
    else:
        content = page.create_page(found, layer, head).encode("utf-8")
    with files.atomic_write(args.output, "wb") as stream:
        stream.write(content)
    print(
        f"{args.output}: {len(content):,} bytes, {len(found.tokens)} pieces, "
        f"{len(layers)} layers x {len(heads)} heads"
    )


def main(argv: Sequence[str] | None = None) -> None:
    """Runs the command; errors of input end it with a message, status 1."""
    args = create_parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    from bert_tf.environment import prepare_environment

    if "tensorflow" not in sys.modules:
        prepare_environment()
    try:
        run(args)
    except ValueError as error:
        sys.exit(f"error: {error}")
