"""Text to ids on one core: `FullTokenizer` beside the plain algorithm.

`plain` is the published algorithm as it reads, `BasicTokenizer` and then
`WordpieceTokenizer`; `warm` has seen the text before, `cold` includes reading
the vocabulary and starts with empty caches; `transformers` is its fast
tokenizer, where installed. The variants take turns, line by line lists of ids
are compared, and ratios are of medians of this process's processor time.

Without `--input` the English text is the docstrings of Python's standard
library and the Chinese text random ideographs, each with a vocabulary made of
its frequent words:

    python benchmarks/tokenization.py
    python benchmarks/tokenization.py --input=books/ --vocab_file=vocab.txt
"""

import argparse
import ast
import collections
import gc
import os
import pathlib
import random
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator

from bert_tf.tokenization import (
    BasicTokenizer,
    FullTokenizer,
    WordpieceTokenizer,
    load_vocab,
)

SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
VOCABULARY_SIZE = 20_000


def docstring_lines() -> Iterator[str]:
    """Paragraphs of the docstrings of Python's standard library."""
    warnings.simplefilter("ignore")
    root = pathlib.Path(os.__file__).parent
    for path in sorted(root.rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue  # Test data of the library that is no valid Python.
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                docstring = ast.get_docstring(node) or ""
                for paragraph in docstring.split("\n\n"):
                    if paragraph.strip():
                        yield " ".join(paragraph.split())


def chinese_lines(characters: int = 700_000) -> Iterator[str]:
    """Random ideographs, some frequent and most rare, with punctuation."""
    source = random.Random(1)
    alphabet = [chr(0x4E00 + 7 * rank % 5000) for rank in range(5000)]
    weights = [1 / (rank + 10) for rank in range(5000)]
    while characters > 0:
        clauses = [
            "".join(source.choices(alphabet, weights, k=source.randint(3, 14)))
            for _ in range(source.randint(1, 6))
        ]
        line = "，".join(clauses) + "。"
        characters -= len(line)
        yield line


def frequent_pieces(lines: list[str]) -> list[str]:
    """A vocabulary: characters alone and inside, and frequent words."""
    words = collections.Counter(
        word for line in lines for word in BasicTokenizer().tokenize(line)
    )
    characters = sorted({char for word in words for char in word})
    pieces = [*SPECIALS, *characters, *("##" + char for char in characters)]
    room = max(0, VOCABULARY_SIZE - len(pieces))
    pieces += [word for word, _ in words.most_common(room) if len(word) > 1]
    return pieces


def read_lines(path: pathlib.Path) -> list[str]:
    """Lines of one file, or of all files of a folder."""
    paths = sorted(path.iterdir()) if path.is_dir() else [path]
    return [
        line
        for one in paths
        if one.is_file()
        for line in one.read_text(encoding="utf-8").split("\n")
    ]


def variants(vocab_file: str, do_lower_case: bool) -> dict[str, Callable]:
    """Name -> function from a list of lines to a list of lists of ids."""
    vocab = load_vocab(vocab_file)
    basic = BasicTokenizer(do_lower_case)
    wordpiece = WordpieceTokenizer(vocab)
    full = FullTokenizer(vocab_file, do_lower_case)

    def plain(line: str) -> list[int]:
        pieces = []
        for word in basic.tokenize(line):
            pieces.extend(wordpiece.tokenize(word))
        return [vocab[piece] for piece in pieces]

    def cold(lines: list[str]) -> list[list[int]]:
        fresh = FullTokenizer(vocab_file, do_lower_case)
        return list(map(fresh.tokenize_to_ids, lines))

    def offsets(lines: list[str]) -> list[list[int]]:
        return [full.tokenize_with_offsets(line).ids for line in lines]

    result = {
        "plain": lambda lines: list(map(plain, lines)),
        "warm": lambda lines: list(map(full.tokenize_to_ids, lines)),
        "cold": cold,
        "with offsets": offsets,
    }
    try:
        from transformers import BertTokenizerFast
    except ImportError:
        print("transformers is not installed: left out")
    else:
        fast = BertTokenizerFast(vocab_file, do_lower_case=do_lower_case)
        result["transformers"] = lambda lines: fast(
            lines,
            add_special_tokens=False,
            return_attention_mask=False,
            return_token_type_ids=False,
        )["input_ids"]
    return result


def compare(
    title: str, lines: list[str], functions: dict[str, Callable], rounds: int
) -> None:
    """Runs the variants in turns and prints rates, ratios and equality."""
    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    expected = functions["plain"](lines)
    differing = {
        name: sum(a != b for a, b in zip(f(lines), expected, strict=True))
        for name, f in functions.items()
    }
    seconds = collections.defaultdict(list)
    gc.disable()  # As timeit does: it would bill one variant for the others.
    for _ in range(rounds):
        for name, function in functions.items():
            start = time.process_time()
            function(lines)
            seconds[name].append(time.process_time() - start)
    medians = {name: statistics.median(s) for name, s in seconds.items()}
    print(f"{title}: {len(lines)} lines, {megabytes:.1f} MB, {rounds} rounds")
    for name, median in medians.items():
        print(
            f"  {name:13s} {megabytes / median:6.2f} MB/s"
            f" {medians['plain'] / median:6.2f} x plain,"
            f" lines with other ids: {differing[name]}"
        )
    own = {n: d for n, d in differing.items() if n != "transformers" and d}
    if own:
        raise SystemExit(f"ids differ from the plain algorithm's: {own}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", type=pathlib.Path, help="file or folder")
    parser.add_argument("--vocab_file", help="default: made of the text")
    parser.add_argument("--nodo_lower_case", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--megabytes", type=float, default=4.0, help="at most, spread evenly"
    )
    args = parser.parse_args()
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    if args.input:
        texts = {str(args.input): read_lines(args.input)}
    else:
        texts = {
            "English docstrings": list(docstring_lines()),
            "random Chinese": list(chinese_lines()),
        }
    for title, lines in texts.items():
        size = sum(len(line.encode()) for line in lines) / 1e6
        lines = lines[:: max(1, round(size / args.megabytes + 0.5))]
        with tempfile.TemporaryDirectory() as folder:
            vocab_file = args.vocab_file
            if vocab_file is None:
                vocab_file = os.path.join(folder, "vocab.txt")
                text = "\n".join(frequent_pieces(lines)) + "\n"
                pathlib.Path(vocab_file).write_text(text, encoding="utf-8")
            functions = variants(vocab_file, not args.nodo_lower_case)
            compare(title, lines, functions, args.rounds)


if __name__ == "__main__":
    main()
