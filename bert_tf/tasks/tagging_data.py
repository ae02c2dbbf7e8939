"""Words with labels, one a line: CoNLL-2003 and its relatives.

A line holds a word and its label, and perhaps more columns, separated by
blanks or by tabs; an empty line ends a sentence. A line `-DOCSTART-` starts a
document. In files with tabs, a line without one that starts with `#` is a
comment. Text is UTF-8; LF or CRLF ends a line.
"""

import collections
import dataclasses
import logging
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_tf.delimited import parse_tsv, separator_hint
from bert_tf.tabular import check_file
from bert_tf.tasks.labels import check_labels, sort_labels
from bert_tf.tasks.tagging_entities import EncodingCheck, marks_entities

DOCUMENT_START = "-DOCSTART-"
SEPARATORS = {"tab": "\t", "space": " "}
# Last column of a prediction whose word the model has not seen.
MARKS = {"cut": "[CUT]", "no_pieces": "[NO-PIECES]"}

_BLANKS = re.compile(" +")
_LOGGER = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True)
class ColumnLayout:
    """Where words and labels stand.

    Attributes:
      word_column: number of the column, from 0; negative from the end.
      label_column: likewise; the last one by default.
      separator: `"tab"`, `"space"` (any number of blanks), or None to tell it
        by the first line.
    """

    word_column: int = 0
    label_column: int = -1
    separator: str | None = None

    def __post_init__(self):
        if self.separator not in (None, *SEPARATORS):
            raise ValueError(
                f"separator {self.separator!r}, expected one of "
                f"{', '.join(SEPARATORS)}"
            )
        if self.word_column == self.label_column:
            raise ValueError(
                f"--word_column and --label_column are both {self.word_column}"
            )


class Line(NamedTuple):
    """One line of a file.

    Attributes:
      number: from 1.
      text: without its end.
      cells: its columns; None if it holds no word.
      ends_sentence: whether it is empty, or starts a document.
      separator: between its columns.
    """

    number: int
    text: str
    cells: list[str] | None
    ends_sentence: bool
    separator: str


@dataclasses.dataclass(frozen=True, slots=True)
class Sentence:
    """Words with their labels.

    Attributes:
      number: from 0, in the order of the file.
      words: the words.
      labels: one for each word; None if they were not read.
      lines: the line of each word, from 1.
      path: the file.
    """

    number: int
    words: list[str]
    labels: list[str] | None
    lines: list[int]
    path: str = ""

    def where(self, index: int = 0) -> str:
        """File and line of a word, for messages."""
        return f"{self.path}, line {self.lines[index]}"

    def offsets(self) -> list[tuple[int, int]]:
        """(start, end) of each word in `text`, in code points."""
        spans, start = [], 0
        for word in self.words:
            spans.append((start, start + len(word)))
            start += len(word) + 1
        return spans

    @property
    def text(self) -> str:
        """The words, with a blank between two."""
        return " ".join(self.words)


def _texts(path: str) -> Iterator[tuple[int, str]]:
    # No line holds the delimiter, so each row has the whole line as a cell.
    for row in parse_tsv(path, "\n"):
        if row.problem:
            raise ValueError(f"{path}, line {row.line}: {row.problem}")
        yield row.line, row.cells[0]


def _is_blank(text: str) -> bool:
    # Other blanks of Unicode may be words.
    return not text.strip(" \t")


def _starts_document(text: str) -> bool:
    # Whatever separates the columns of the other lines.
    return text.split(maxsplit=1)[:1] == [DOCUMENT_START]


def _find_separator(path: str) -> str:
    for _, text in _texts(path):
        if not (
            _is_blank(text) or text.startswith("#") or _starts_document(text)
        ):
            return "\t" if "\t" in text else " "
    return " "


def read_lines(path: str, layout: ColumnLayout) -> Iterator[Line]:
    """Reads a file line by line; every word line has as many columns.

    Raises:
      ValueError: names file, line, columns found and expected.
    """
    if layout.separator is None:
        separator = _find_separator(path)
    else:
        separator = SEPARATORS[layout.separator]
    width, first = None, 0
    for number, text in _texts(path):
        if _is_blank(text) or _starts_document(text):
            yield Line(number, text, None, True, separator)
            continue
        if separator == "\t":
            if text.startswith("#") and separator not in text:
                yield Line(number, text, None, False, separator)
                continue
            cells = text.split(separator)
        else:
            cells = _BLANKS.split(text.strip(" "))
        if cells[-1] in MARKS.values() and (
            len(cells) == width + 1 if width else len(cells) > 2
        ):
            cells.pop()
        if width is None:
            width, first = len(cells), number
        if len(cells) != width:
            raise ValueError(
                f"{path}, line {number}: found {_columns(len(cells))}, "
                f"expected {width} as on line {first}"
                f"{separator_hint(cells, separator)}"
            )
        yield Line(number, text, cells, False, separator)


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"


def _cell(line: Line, column: int, what: str, flag: str, path: str) -> str:
    width = len(line.cells)
    if not -width <= column < width:
        raise ValueError(
            f"{path}, line {line.number}: found {_columns(width)}, but "
            f"--{flag} is {column}{separator_hint(line.cells, line.separator)}"
        )
    cell = line.cells[column].strip(" ")
    if not cell:
        raise ValueError(f"{path}, line {line.number}: the {what} is empty")
    return cell


def read_sentences(
    path: str,
    layout: ColumnLayout,
    labels: Sequence[str] | None = None,
    with_labels: bool = True,
) -> Iterator[Sentence]:
    """Reads a file sentence by sentence.

    Args:
      path: the file.
      layout: where words and labels stand.
      labels: those allowed; None allows all.
      with_labels: whether labels are read; a file without them may have one
        column.

    Raises:
      ValueError: names the file, the line, what was found and expected.
    """
    allowed = None if labels is None else set(labels)
    count = 0
    words: list[str] = []
    found: list[str] = []
    lines: list[int] = []

    def finish() -> Sentence:
        return Sentence(
            count, words, found if with_labels else None, lines, path
        )

    for line in read_lines(path, layout):
        if line.cells is not None:
            words.append(
                _cell(line, layout.word_column, "word", "word_column", path)
            )
            lines.append(line.number)
            if with_labels:
                label = _label(line, layout, path)
                if allowed is not None and label not in allowed:
                    _refuse_label(label, labels, f"{path}, line {line.number}")
                found.append(label)
        elif line.ends_sentence and words:
            yield finish()
            count += 1
            words, found, lines = [], [], []
    if words:
        yield finish()


def _label(line: Line, layout: ColumnLayout, path: str) -> str:
    if len(line.cells) == 1:
        raise ValueError(
            f"{path}, line {line.number}: found 1 column, expected a word and "
            f"a label{separator_hint(line.cells, line.separator)}"
        )
    return _cell(line, layout.label_column, "label", "label_column", path)


def _refuse_label(label: str, labels: Sequence[str], where: str) -> None:
    shown = ", ".join(map(repr, labels[:50]))
    more = ", ..." if len(labels) > 50 else ""
    raise ValueError(
        f"{where}: found label {label!r}, allowed: {shown}{more}; --labels "
        "can name others, if the model is not trained yet"
    )


def find_labels(
    path: str, flag: str, layout: ColumnLayout
) -> tuple[list[str], str | None]:
    """Finds the labels of a training file.

    Returns:
      Each label once, sorted, and their encoding, such as IOB1; None where
      the labels do not mark entities.

    Raises:
      ValueError: the file is not there, is malformed, holds no word or not
        two labels.
    """
    check_file(path, flag)
    counts: collections.Counter = collections.Counter()
    check = EncodingCheck()
    for sentence in read_sentences(path, layout):
        counts.update(sentence.labels)
        check.add(sentence.labels)
    if not counts:
        raise ValueError(f"--{flag}: {path} holds no word")
    try:
        labels = check_labels(sort_labels(counts))
        spans = marks_entities(labels)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    encoding = check.encoding if spans else None
    _LOGGER.info(
        "%s: %d labels%s: %s",
        path,
        len(labels),
        f" in encoding {encoding}" if encoding else "",
        ", ".join(f"{label} ({counts[label]})" for label in labels),
    )
    return labels, encoding
