"""Tokenization for pre-training data, and where words begin.

WordPiece tells that a piece continues a word by its `##`. Chinese has no such
pieces: each character is one, so that whole-word masking needs a word
segmenter, given as `jieba` or as `module:function`.
"""

import importlib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.pretraining_corpus import Tokenize
from bert_tf.tokenization import MASK, FullTokenizer

Segment = Callable[[str], Sequence[str]]


class Vocabulary(NamedTuple):
    """What instances need to know of a vocabulary.

    Attributes:
      size: number of ids.
      unk_id: id of `[UNK]`.
      cls_id: id of `[CLS]`.
      sep_id: id of `[SEP]`.
      mask_id: id of `[MASK]`.
      replacements: ids that random replacements are drawn from, one for each
        distinct piece, in file order.
      is_continuation: 1 for pieces that start with `##`, uint8, by id.
    """

    size: int
    unk_id: int
    cls_id: int
    sep_id: int
    mask_id: int
    replacements: list[int]
    is_continuation: np.ndarray

    @classmethod
    def of(cls, tokenizer: FullTokenizer) -> "Vocabulary":
        """Of a tokenizer."""
        is_continuation = np.zeros(tokenizer.vocab_size, np.uint8)
        for piece, i in tokenizer.vocab.items():
            is_continuation[i] = piece.startswith("##")
        return cls(
            tokenizer.vocab_size,
            tokenizer.unk_id,
            tokenizer.cls_id,
            tokenizer.sep_id,
            tokenizer.mask_id,
            list(tokenizer.vocab.values()),
            is_continuation,
        )


def load_tokenizer(vocab_file: str, do_lower_case: bool) -> FullTokenizer:
    """Reads a vocabulary that pre-training can use.

    Raises:
      ValueError: it has no `[MASK]` or lacks another special token.
    """
    return FullTokenizer(vocab_file, do_lower_case, require=(MASK,))


def load_segmenter(name: str) -> Segment | None:
    """Finds the word segmenter that `--word_segmenter` names.

    Args:
      name: empty, `"jieba"`, or `"module:function"`; the function takes a
        text and returns its words in order.

    Raises:
      ValueError: it cannot be imported.
    """
    if not name:
        return None
    module, _, function = name.partition(":")
    if name == "jieba":
        function = "lcut"
    elif not function:
        raise ValueError(
            f"--word_segmenter={name}: expected jieba or module:function"
        )
    try:
        found = getattr(importlib.import_module(module), function)
    except (ImportError, AttributeError) as error:
        hint = "; pip install 'bert-tf[chinese]'" if name == "jieba" else ""
        raise ValueError(f"--word_segmenter={name}: {error}{hint}") from error
    if not callable(found):
        raise ValueError(f"--word_segmenter={name} is not a function")
    if name == "jieba":
        # It reports the loading of its dictionary on stderr.
        importlib.import_module(module).setLogLevel("WARNING")
    return found


def make_tokenize(
    tokenizer: FullTokenizer, segment: Segment | None, name: str = ""
) -> Tokenize:
    """A line of text -> ids, and where words begin if a segmenter says so.

    Args:
      tokenizer: gives the pieces.
      segment: a word segmenter, or None.
      name: of the segmenter, for errors.
    """
    if segment is None:
        to_ids = tokenizer.tokenize_to_ids
        return lambda text: (to_ids(text), None)

    def tokenize(text: str) -> tuple[Sequence[int], Sequence[int]]:
        pieces = tokenizer.tokenize_with_offsets(text)
        borders = _word_borders(text, segment(text), name)
        starts = []
        previous = -1
        for token, (start, _) in zip(
            pieces.tokens, pieces.offsets, strict=True
        ):
            word = bisect_right(borders, start)
            starts.append(word != previous and not token.startswith("##"))
            previous = word
        return pieces.ids, starts

    return tokenize


def _word_borders(text: str, words: Sequence[str], name: str) -> list[int]:
    """Where in the text each word begins."""
    borders = []
    at = 0
    for word in words:
        begin = text.find(word, at)
        if begin < 0:
            raise ValueError(
                f"--word_segmenter={name}: word {word!r} does not stand in "
                f"{text[at : at + 60]!r}; words must come unchanged, in order"
            )
        borders.append(begin)
        at = begin + len(word)
    return borders
