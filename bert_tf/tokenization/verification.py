"""Does the tokenizer in the graph give the ids of the Python tokenizer?

Compared are every code point between two letters, pieces of the vocabulary in
each other's company, and the user's own text.
"""

import itertools
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

from bert_tf.tokenization.code_points import CODE_POINTS
from bert_tf.tokenization.tokenizer import FullTokenizer

_CHUNK = 4096
_BEFORE, _AFTER = "a", "b"


class Difference(NamedTuple):
    """A text of which the two tokenizers think differently.

    Attributes:
      source: where the text comes from.
      text: the text.
      expected: ids of the Python tokenizer.
      found: ids of the tokenizer in the graph.
    """

    source: str
    text: str | bytes
    expected: list[int]
    found: list[int]


def code_point_texts() -> Iterator[tuple[str, str]]:
    """Every code point but the surrogates, between two letters."""
    for code in range(CODE_POINTS):
        if not 0xD800 <= code < 0xE000:
            name = unicodedata.name(chr(code), "unassigned or without a name")
            yield f"U+{code:04X} {name}", f"{_BEFORE}{chr(code)}{_AFTER}"


def vocabulary_texts(tokenizer: FullTokenizer) -> Iterator[tuple[str, str]]:
    """Each line of the vocabulary, alone and as the end of a word."""
    for piece, i in tokenizer.vocab.items():
        text = piece.removeprefix("##")
        source = f"line {i + 1} of the vocabulary"
        yield source, f"{piece} {text} {_BEFORE}{text} {text.upper()}"


def file_texts(path: str) -> Iterator[tuple[str, bytes]]:
    """The lines of a file."""
    with open(path, "rb") as stream:
        for number, line in enumerate(stream, 1):
            yield f"{path}, line {number}", line.rstrip(b"\r\n")


def find_differences(
    tokenizer: FullTokenizer,
    texts: Iterable[tuple[str, str | bytes]],
    count: Callable[[int], None] = lambda number: None,
) -> Iterator[Difference]:
    """Compares the two tokenizers text by text.

    Args:
      tokenizer: the Python tokenizer.
      texts: (source, text) pairs.
      count: told how many texts were compared, each time some were.
    """
    import tensorflow as tf

    from bert_tf.tokenization.graph import GraphTokenizer

    graph = tf.function(
        GraphTokenizer(tokenizer).tokenize,
        input_signature=[tf.TensorSpec([None], tf.string)],
    )
    texts = iter(texts)
    while chunk := list(itertools.islice(texts, _CHUNK)):
        rows = graph(tf.constant([text for _, text in chunk])).to_list()
        for (source, text), found in zip(chunk, rows, strict=True):
            expected = tokenizer.tokenize_to_ids(text)
            if found != expected:
                yield Difference(source, text, expected, found)
        count(len(chunk))


def report(tokenizer: FullTokenizer, paths: Iterable[str]) -> int:
    """Prints every difference and a summary; returns their number."""
    total = 0
    parts = {
        f"code points of Unicode {unicodedata.unidata_version}": (
            code_point_texts()
        ),
        "lines of the vocabulary": vocabulary_texts(tokenizer),
        **{path: file_texts(path) for path in paths},
    }
    for title, texts in parts.items():
        compared: list[int] = []
        number = 0
        for difference in find_differences(tokenizer, texts, compared.append):
            number += 1
            names = tokenizer.convert_ids_to_tokens
            print(
                f"{difference.source}: {difference.text!a}: Python gives "
                f"{' '.join(names(difference.expected))}, the graph "
                f"{' '.join(names(difference.found))}"
            )
        print(f"{title}: {sum(compared)} compared, {number} differ")
        total += number
    return total
