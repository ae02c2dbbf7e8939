"""`python -m bert_tf.inference`: the classes as commands.

Texts are arguments or, without any, lines of the standard input; the output
has one line for each. TensorFlow is loaded when the arguments are in order.
"""

import argparse
import json
import logging
import sys
from collections.abc import Callable, Iterator, Sequence

from bert_tf.pooling import STRATEGIES

_INTERACTIVE_WINDOW = 1
_WINDOW = 1024


def _boolean(text: str) -> bool:
    if text.lower() in ("true", "1", "yes"):
        return True
    if text.lower() in ("false", "0", "no"):
        return False
    raise argparse.ArgumentTypeError(f"{text!r} is neither true nor false")


def _layer(text: str) -> int | str:
    return int(text) if text.lstrip("-").isdecimal() else text


def _common(parser: argparse.ArgumentParser, input_help: str) -> None:
    parser.add_argument(
        "--model_dir",
        required=True,
        help="run folder, or folder of a released model",
    )
    parser.add_argument(
        "--do_lower_case",
        type=_boolean,
        help="casing of the model, where the folder does not say it",
    )
    parser.add_argument(
        "--max_seq_length", type=int, help="longest input in pieces"
    )
    parser.add_argument("--checkpoint", help="other than the folder's own")
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object a line"
    )
    parser.add_argument("texts", nargs="*", metavar="TEXT", help=input_help)


def _pair_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--separator",
        default=" ||| ",
        help="stands between the two texts of a pair (default: %(default)r); "
        "the last one in a line counts",
    )


def _add_fill_mask(commands) -> None:
    one = commands.add_parser("fill-mask", help="words for [MASK] in a text")
    _common(one, "a text with [MASK] in it")
    one.add_argument("--top_k", type=int, default=5, help="words for each mask")
    one.add_argument(
        "--target",
        dest="targets",
        action="append",
        metavar="PIECE",
        help="judge only this piece of the vocabulary; repeatable",
    )


def _add_next_sentence(commands) -> None:
    one = commands.add_parser(
        "next-sentence", help="whether the second text follows the first"
    )
    _common(one, "first text ||| second text")
    _pair_option(one)


def _add_classify(commands) -> None:
    one = commands.add_parser("classify", help="the label of a text or pair")
    _common(one, "a text, or: first text ||| second text")
    _pair_option(one)
    one.add_argument(
        "--labels",
        type=lambda text: text.split(","),
        help="in the order of the outputs, joined by commas, where the folder "
        "does not say them",
    )
    one.add_argument(
        "--threshold",
        type=float,
        help="smallest probability of a label, in multi-label (default: that "
        "of each label stored in the folder, or 0.5)",
    )


def _add_tag(commands) -> None:
    one = commands.add_parser("tag", help="a label for each word")
    _common(one, "a sentence")


def _add_answer(commands) -> None:
    one = commands.add_parser("answer", help="the answer to a question")
    _common(one, "question ||| context, or a question with --context_file")
    _pair_option(one)
    one.add_argument(
        "--context_file", help="UTF-8 text that answers every question"
    )


def _add_embed(commands) -> None:
    one = commands.add_parser("embed", help="a vector for each text")
    _common(one, "a text, or: first text ||| second text")
    _pair_option(one)
    one.add_argument(
        "--pooling",
        default="mean",
        choices=STRATEGIES,
        help="how vectors of pieces become one (default: %(default)s)",
    )
    one.add_argument(
        "--layers",
        default=[-1],
        type=lambda text: [_layer(x) for x in text.split(",")],
        help="joined by commas, -1 the last, or embeddings; write "
        "--layers=-1,-2",
    )
    one.add_argument(
        "--normalize", action="store_true", help="scale vectors to length 1"
    )
    one.add_argument("--output", help="write the vectors to this .npy file")
    one.add_argument(
        "--similarity",
        action="store_true",
        help="print how alike the texts are in place of the vectors",
    )


def create_parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="python -m bert_tf.inference",
        description="Uses a model on texts given as arguments or, without "
        "any, as lines of the standard input. Prints one line for each.",
    )
    commands = parser.add_subparsers(dest="command", required=True)
    for add in (
        _add_fill_mask,
        _add_next_sentence,
        _add_classify,
        _add_tag,
        _add_answer,
        _add_embed,
    ):
        add(commands)
    return parser


def _create_predictor(args: argparse.Namespace):
    from bert_tf import inference

    common = {
        name: getattr(args, name)
        for name in ("do_lower_case", "max_seq_length", "checkpoint")
    }
    # A process that ends soon has no time to compile.
    common["xla"] = False
    classes: dict[str, tuple[str, tuple[str, ...]]] = {
        "fill-mask": ("FillMask", ("top_k", "targets")),
        "next-sentence": ("NextSentence", ()),
        "classify": ("Classifier", ("labels", "threshold")),
        "tag": ("Tagger", ()),
        "answer": ("QuestionAnswerer", ()),
        "embed": ("Embedder", ("pooling", "layers", "normalize")),
    }
    name, options = classes[args.command]
    own = {option: getattr(args, option) for option in options}
    return getattr(inference, name)(args.model_dir, **common, **own)


def _lines(stream) -> Iterator[str]:
    for line in stream:
        yield line.decode("utf-8", "ignore").rstrip("\r\n")


def _inputs(args: argparse.Namespace) -> Iterator[str | tuple[str, str]]:
    texts = args.texts or _lines(sys.stdin.buffer)
    separator = getattr(args, "separator", None)
    context = None
    if getattr(args, "context_file", None):
        from bert_tf import files

        context = files.read_bytes(args.context_file).decode("utf-8-sig")
    for text in texts:
        if context is not None:
            yield text, context
        elif separator and separator in text:
            first, _, second = text.rpartition(separator)
            yield first, second
        else:
            yield text


def _print_results(args: argparse.Namespace, predictor) -> None:
    typed = not args.texts and sys.stdin.isatty()
    window = _INTERACTIVE_WINDOW if typed else _WINDOW
    for result in predictor.stream(_inputs(args), window):
        if args.json:
            print(json.dumps(result.to_dict(), ensure_ascii=False))
        else:
            print(result.to_line())


def _print_vectors(args: argparse.Namespace, embedder) -> None:
    if args.similarity:
        print(embedder.similarity(_inputs(args)))
        return
    if args.output:
        import numpy as np

        from bert_tf import files

        vectors = embedder(_inputs(args))
        with files.atomic_write(args.output, "wb") as stream:
            np.save(stream, vectors)
        return
    for vector in embedder.stream(_inputs(args)):
        values = vector.tolist()
        if args.json:
            print(json.dumps(values))
        else:
            print("\t".join(f"{value:.6f}" for value in values))


def main(argv: Sequence[str] | None = None) -> None:
    """Runs one command; errors of input end it with a message, status 1."""
    args = create_parser().parse_args(argv)
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    sys.stdout.reconfigure(encoding="utf-8", errors="surrogateescape")
    show: Callable = (
        _print_vectors if args.command == "embed" else _print_results
    )
    try:
        show(args, _create_predictor(args))
    except ValueError as error:
        sys.exit(f"error: {error}")
