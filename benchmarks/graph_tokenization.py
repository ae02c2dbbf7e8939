"""Text to ids with tensorflow-text: exact in the graph, exact on the host.

`FastBertTokenizer` is tensorflow-text's own, which gives other ids than BERT
for many texts; `graph` is `GraphTokenizer` as one function of 1,024 lines;
`host` is `BatchTokenizer`; `plain` is the published algorithm as it reads. The
variants take turns; ratios are of medians of this process's processor time.

Without `--input` the English text is the docstrings of Python's standard
library and the Chinese text random ideographs, each with a vocabulary made of
its frequent words:

    python benchmarks/graph_tokenization.py
    python benchmarks/graph_tokenization.py --input=books/ --vocab_file=v.txt
"""

import argparse
import collections
import os
import pathlib
import statistics
import tempfile
import time
from collections.abc import Callable

from tokenization import (
    chinese_lines,
    docstring_lines,
    frequent_pieces,
    read_lines,
)

from bert_tf.tokenization import (
    FullTokenizer,
)

BATCH = 1024


def variants(vocab_file: str, do_lower_case: bool) -> dict[str, Callable]:
    """Name -> function from a list of lines to sequences of ids."""
    import tensorflow as tf

    from bert_tf.tokenization.fast import BatchTokenizer
    from bert_tf.tokenization.graph import GraphTokenizer

    full = FullTokenizer(vocab_file, do_lower_case)
    basic, wordpiece = full.basic_tokenizer, full.wordpiece_tokenizer
    graph = GraphTokenizer(full)
    fast = graph.create_fast_tokenizer(do_lower_case)
    batch_tokenizer = BatchTokenizer(full)

    def plain(line: str) -> list[int]:
        pieces = []
        for word in basic.tokenize(line):
            pieces.extend(wordpiece.tokenize(word))
        return [full.vocab[piece] for piece in pieces]

    def in_graph(tokenize: Callable) -> Callable:
        function = tf.function(
            tokenize, input_signature=[tf.TensorSpec([None], tf.string)]
        )

        def run(batches: list) -> list:
            return [function(batch) for batch in batches]

        return run

    return {
        "FastBertTokenizer": in_graph(fast.tokenize),
        "graph": in_graph(graph.tokenize),
        "host": batch_tokenizer,
        "plain": lambda lines: list(map(plain, lines)),
    }


def compare(
    title: str, lines: list[str], functions: dict[str, Callable], rounds: int
) -> None:
    """Runs the variants in turns and prints rates, ratios and equality."""
    import tensorflow as tf

    megabytes = sum(len(line.encode()) for line in lines) / 1e6
    batches = [
        tf.constant(lines[i : i + BATCH]) for i in range(0, len(lines), BATCH)
    ]
    inputs = {"FastBertTokenizer": batches, "graph": batches}
    results = {}
    seconds = collections.defaultdict(list)
    for _ in range(rounds + 1):
        for name, function in functions.items():
            start = time.process_time()
            results[name] = function(inputs.get(name, lines))
            seconds[name].append(time.process_time() - start)
    medians = {n: statistics.median(s[1:]) for n, s in seconds.items()}
    print(f"{title}: {len(lines)} lines, {megabytes:.1f} MB, {rounds} rounds")
    for name, median in medians.items():
        rows = results[name]
        if name in inputs:
            rows = [ids for batch in rows for ids in batch.to_list()]
        differing = sum(
            list(a) != b for a, b in zip(rows, results["plain"], strict=True)
        )
        print(
            f"  {name:18s} {megabytes / median:6.2f} MB/s"
            f" {medians['plain'] / median:6.2f} x plain,"
            f" {medians['FastBertTokenizer'] / median:5.2f} x Fast,"
            f" lines with other ids: {differing}"
        )
        if differing and name != "FastBertTokenizer":
            raise SystemExit(f"{name} differs from the plain algorithm")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--input", type=pathlib.Path, help="file or folder")
    parser.add_argument("--vocab_file", help="default: made of the text")
    parser.add_argument("--nodo_lower_case", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--megabytes", type=float, default=2.0, help="at most, spread evenly"
    )
    args = parser.parse_args()
    # One core for all: the plain algorithm has no more.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    os.environ.setdefault("TF_NUM_INTEROP_THREADS", "1")
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
