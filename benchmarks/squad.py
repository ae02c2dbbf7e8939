"""Featurizing SQuAD questions: this library against the straightforward way.

The straightforward way is written out below: every question cuts its context
into pieces again, the answer is looked for by comparing the joined pieces of
every span within its words, and every piece asks every window for the
context it shows. Both use the same tokenizer; labels, ids and contexts are
checked to be equal. Times are medians of interleaved rounds.

    python benchmarks/squad.py --squad_file=cmrc2018_dev.json \
        --vocab_file=chinese_L-12_H-768_A-12/vocab.txt
"""

import argparse
import random
import statistics
import time

from bert_tf.tasks.squad_data import read_squad_examples
from bert_tf.tasks.squad_windows import (
    FIRST_UNIQUE_ID,
    SquadFeaturizer,
    doc_spans,
)
from bert_tf.tokenization import FullTokenizer


class PiecesByText:
    """Pieces of each distinct word; what a caching tokenizer amounts to."""

    def __init__(self, tokenizer: FullTokenizer):
        self.tokenizer = tokenizer
        self.cache: dict[str, list[str]] = {}

    def tokenize(self, text: str) -> list[str]:
        if text not in self.cache:
            self.cache[text] = self.tokenizer.tokenize(text)
        return self.cache[text]


def search_answer(pieces, start, end, answer):
    """Every span within the answer's words, compared as joined text."""
    wanted = " ".join(answer)
    for new_start in range(start, end + 1):
        for new_end in range(end, new_start - 1, -1):
            if " ".join(pieces[new_start : new_end + 1]) == wanted:
                return new_start, new_end
    return start, end


def is_max_context(spans, current, position):
    """Asks every window how much it shows on both sides of a piece."""
    best_score = best_index = None
    for index, (start, length) in enumerate(spans):
        if not start <= position < start + length:
            continue
        context = min(position - start, start + length - 1 - position)
        score = context + 0.01 * length
        if best_score is None or score > best_score:
            best_score, best_index = score, index
    return best_index == current


def straightforward(examples, tokenizer, options):
    """Windows as (ids, max-context flags, start, end)."""
    windows = []
    for example in examples:
        query = tokenizer.tokenize(example.question_text)
        query = query[: options.max_query_length]
        pieces, first_pieces = [], []
        for word in example.paragraph.words:
            first_pieces.append(len(pieces))
            for piece in tokenizer.tokenize(word):
                pieces.append(piece)
        start = first_pieces[example.start_position]
        end = len(pieces) - 1
        if example.end_position < len(first_pieces) - 1:
            end = first_pieces[example.end_position + 1] - 1
        start, end = search_answer(
            pieces, start, end, tokenizer.tokenize(example.orig_answer_text)
        )
        room = options.max_seq_length - len(query) - 3
        spans = doc_spans(len(pieces), room, options.doc_stride)
        for index, (first, length) in enumerate(spans):
            tokens = ["[CLS]", *query, "[SEP]"]
            offset = len(tokens)
            flags = []
            for position in range(first, first + length):
                flags.append(is_max_context(spans, index, position))
                tokens.append(pieces[position])
            tokens.append("[SEP]")
            is_inside = start >= first and end < first + length
            windows.append(
                (
                    tokenizer.tokenizer.convert_tokens_to_ids(tokens),
                    flags,
                    start - first + offset if is_inside else 0,
                    end - first + offset if is_inside else 0,
                )
            )
    return windows


def ours(examples, tokenizer, options):
    """The library's windows."""
    featurizer = SquadFeaturizer(
        tokenizer,
        options.max_seq_length,
        options.doc_stride,
        options.max_query_length,
        is_training=True,
    )
    return list(featurizer.stream(examples))


def check_equal(plain, windows):
    """Raises AssertionError if the two ways differ."""
    assert len(plain) == len(windows)
    for number, (expected, found) in enumerate(
        zip(plain, windows, strict=True)
    ):
        assert found.unique_id == FIRST_UNIQUE_ID + number
        assert expected == (
            found.input_ids,
            found.is_max_context.tolist(),
            found.start_position,
            found.end_position,
        ), number


def timed(function, *arguments):
    """Seconds and result of one call."""
    start = time.perf_counter()
    result = function(*arguments)
    return time.perf_counter() - start, result


def main():
    """Prints medians and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--squad_file", required=True)
    parser.add_argument("--vocab_file", required=True)
    parser.add_argument("--cased", action="store_true")
    parser.add_argument("--split_cjk_words", action="store_true")
    parser.add_argument("--max_seq_length", type=int, default=384)
    parser.add_argument("--doc_stride", type=int, default=128)
    parser.add_argument("--max_query_length", type=int, default=64)
    parser.add_argument("--questions", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    examples, report = read_squad_examples(
        options.squad_file, True, split_cjk_words=options.split_cjk_words
    )
    print(report.summary())
    # Neighbours share a context: take them as they stand in the file.
    first = random.Random(0).randrange(
        max(1, len(examples) - options.questions)
    )
    examples = examples[first : first + options.questions]
    tokenizer = FullTokenizer(options.vocab_file, not options.cased)
    cached = PiecesByText(tokenizer)
    ours(examples, tokenizer, options)  # fill the tokenizer's word cache
    ways = {
        "straightforward": (straightforward, (examples, cached, options)),
        "bert_tf": (ours, (examples, tokenizer, options)),
    }
    times = {name: [] for name in ways}
    results = {}
    for _ in range(options.rounds):
        for name, (function, arguments) in ways.items():
            seconds, results[name] = timed(function, *arguments)
            times[name].append(seconds)
    check_equal(*results.values())
    medians = {name: statistics.median(found) for name, found in times.items()}
    for name, seconds in medians.items():
        print(f"{name}: {len(examples) / seconds:.0f} questions/s")
    ratio = medians["straightforward"] / medians["bert_tf"]
    print(f"ratio: {ratio:.1f} (windows, labels and contexts equal)")


if __name__ == "__main__":
    main()
