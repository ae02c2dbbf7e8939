"""The vocabulary file: one WordPiece a line, its id the line's number."""

import logging
import os
from collections.abc import Iterable
from typing import Protocol

from bert_tf import files

logger = logging.getLogger("bert_tf")

PAD, UNK, CLS, SEP, MASK = "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"
REQUIRED = (UNK, CLS, SEP)


class Vocabulary(dict):
    """Piece -> id, in file order, as read by `load_vocab`.

    Attributes:
      path: the file it came from.
      line_count: number of physical lines. Larger than `len` where lines are
        equal after stripping; this, not `len`, is what the rows of the
        embedding table must equal.
    """

    def __init__(self, pieces: Iterable[str], path: str = ""):
        super().__init__()
        self.path = path
        self.line_count = 0
        for piece in pieces:
            # An equal earlier piece loses its id, as in the original.
            self[piece] = self.line_count
            self.line_count += 1


class _HasVocabSize(Protocol):
    vocab_size: int


def load_vocab(path: str | os.PathLike) -> Vocabulary:
    """Reads a vocabulary file by the original's rules.

    Only LF and CRLF end a line: the Chinese release holds U+2028, which
    `splitlines` would take for another. Lines are UTF-8 whatever the locale,
    a byte-order mark is dropped, each line is stripped of blanks, an empty
    line uses up an id, and of two equal lines the later one counts.

    Raises:
      ValueError: the path is a folder or no file at all, or bytes are not
        UTF-8 (the line is named).
    """
    path = os.fspath(path)
    if files.is_dir(path):
        raise ValueError(
            f"vocabulary file {path!r} is a folder; expected the file in it, "
            "such as vocab.txt"
        )
    if not files.exists(path):
        raise ValueError(f"vocabulary file {path!r} does not exist")
    content = files.read_bytes(path)
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"vocabulary file {path!r}, line {line}: byte "
            f"0x{content[error.start]:02x} is not UTF-8"
        ) from error
    lines = text.removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    return Vocabulary((line.strip() for line in lines), path)


def check_special_tokens(
    vocab: Vocabulary, require: Iterable[str] = ()
) -> None:
    """Stops on a vocabulary that BERT cannot work with.

    Args:
      vocab: what `load_vocab` gave.
      require: pieces needed besides `[UNK]`, `[CLS]` and `[SEP]`, such as
        `[MASK]` for pre-training data.

    Raises:
      ValueError: pieces are missing; all missing ones are named.
    """
    required = dict.fromkeys((*REQUIRED, *require))
    missing = [piece for piece in required if piece not in vocab]
    if missing:
        first = next(iter(vocab), None)
        hint = ""
        if not any(p in vocab for p in (PAD, *REQUIRED, MASK)):
            hint = "; it does not look like a BERT vocabulary"
            if first is not None:
                hint += f" (its first line is {first[:40]!r})"
        raise ValueError(
            f"vocabulary file {vocab.path!r} ({vocab.line_count} lines) has "
            f"no {', '.join(missing)}{hint}"
        )
    if vocab.get(PAD) != 0:
        found = f"id {vocab[PAD]}" if PAD in vocab else "missing"
        logger.warning(
            "vocabulary file %r: [PAD] is %s, but padding always has id 0",
            vocab.path,
            found,
        )


def check_vocab_size(
    vocab: Vocabulary, config: _HasVocabSize, allow_smaller: bool = False
) -> None:
    """Stops where the vocabulary and the embedding table differ in size.

    Args:
      vocab: what `load_vocab` gave.
      config: has `vocab_size` and, for the message, `source`, its file.
      allow_smaller: accept a vocabulary with fewer lines than the table has
        rows, as tables padded to a round number have.

    Raises:
      ValueError: the sizes differ; names both and both files.
    """
    lines, rows = vocab.line_count, config.vocab_size
    if lines == rows or (allow_smaller and lines < rows):
        return
    source = getattr(config, "source", "")
    where = f" in {source!r}" if source else " of the config"
    what = (
        "ids beyond the table have no embedding"
        if lines > rows
        else "they do not belong together"
    )
    raise ValueError(
        f"vocabulary file {vocab.path!r} has {lines} lines, but vocab_size"
        f"{where} is {rows}: {what}"
    )
