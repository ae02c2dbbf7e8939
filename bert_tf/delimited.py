"""The rows of delimited text: tab-separated, comma-separated and JSONL.

Nothing here knows what the columns mean; `tabular` does. Text is UTF-8
whatever the platform says, and a byte-order mark at the start is dropped.
"""

import csv
import json
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from bert_tf import files

_BOM = b"\xef\xbb\xbf"
# The largest value that a C long holds on every platform.
_FIELD_LIMIT = 2**31 - 1


class ParsedRow(NamedTuple):
    """One row as parsed.

    Attributes:
      line: 1-based line on which the row starts.
      cells: list of strings, in JSONL a dict; None if there is nothing.
      problem: why the row could not be parsed, empty if it could.
    """

    line: int
    cells: Any
    problem: str = ""

    def is_blank(self) -> bool:
        """Tells whether the line holds nothing at all."""
        return not self.problem and self.cells in ([], [""], None)


def _lines(path: str) -> Iterator[tuple[int, bytes]]:
    """Numbers the lines of a file from 1; line ends are kept."""
    with files.open_file(path, "rb") as stream:
        for number, line in enumerate(stream, 1):
            if number == 1:
                if line[:2] in (b"\xff\xfe", b"\xfe\xff"):
                    raise ValueError(f"{path} is UTF-16, expected UTF-8")
                line = line.removeprefix(_BOM)
            yield number, line


def _without_end(line: bytes) -> bytes:
    if line.endswith(b"\n"):
        return line[:-2] if line.endswith(b"\r\n") else line[:-1]
    return line


def _encoding_problem(error: UnicodeDecodeError) -> str:
    return (
        f"not UTF-8: found byte 0x{error.object[error.start]:02X} at byte "
        f"{error.start + 1} of the line"
    )


def parse_tsv(path: str, delimiter: str = "\t") -> Iterator[ParsedRow]:
    """Reads lines cut at a delimiter; quotes are plain characters.

    Only LF or CRLF ends a line; a carriage return elsewhere is text.
    """
    for number, line in _lines(path):
        try:
            text = _without_end(line).decode("utf-8")
        except UnicodeDecodeError as error:
            yield ParsedRow(number, None, _encoding_problem(error))
            continue
        yield ParsedRow(number, text.split(delimiter))


def parse_csv(path: str, delimiter: str = ",") -> Iterator[ParsedRow]:
    """Reads rows quoted as in RFC 4180; a quoted field may hold line ends."""
    if csv.field_size_limit() < _FIELD_LIMIT:
        csv.field_size_limit(_FIELD_LIMIT)
    broken: dict[int, str] = {}

    def decoded():
        for number, line in _lines(path):
            try:
                yield line.decode("utf-8")
            except UnicodeDecodeError as error:
                # An exception here would end the reader; rows after this
                # one may still be wanted.
                broken[number] = _encoding_problem(error)
                yield line.decode("utf-8", errors="surrogateescape")

    reader = csv.reader(decoded(), delimiter=delimiter, strict=True)
    while True:
        start, problem, cells = reader.line_num + 1, "", None
        try:
            cells = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            problem = _csv_problem(error, start, reader.line_num)
        if broken:
            start = min(broken)
            problem = broken[start]
            broken.clear()
        yield ParsedRow(start, cells, problem)


def _csv_problem(error: csv.Error, start: int, end: int) -> str:
    reason = str(error)
    if "new-line character" in reason:
        reason = (
            "found a carriage return outside quotes; LF or CRLF ends a line"
        )
    elif "unexpected end" in reason:
        reason = "found an opening quote that is never closed"
    span = f" (the row runs to line {end})" if end > start else ""
    return f"not comma-separated as RFC 4180 has it: {reason}{span}"


def parse_jsonl(path: str) -> Iterator[ParsedRow]:
    """Reads one JSON object a line."""
    for number, line in _lines(path):
        value, problem = None, ""
        try:
            text = line.decode("utf-8").strip()
            if text:
                value = json.loads(text)
                if not isinstance(value, dict):
                    problem = (
                        "expected a JSON object on each line, found "
                        f"{type(value).__name__}"
                    )
        except UnicodeDecodeError as error:
            problem = _encoding_problem(error)
        except ValueError as error:
            problem = f"not JSON: {error}"
        yield ParsedRow(number, value, problem)


def separator_hint(cells: Sequence[str], delimiter: str) -> str:
    """What a line with too few columns tells about its separator."""
    text = delimiter.join(cells)
    hints = [
        f"the line contains {name}"
        for sign, name in ((",", "commas"), ("\t", "tabs"), (";", "semicolons"))
        if sign != delimiter and sign in text
    ]
    if len(cells) == 1 and hints:
        hints.insert(0, "is the separator right?")
    if "\r" in text:
        hints.append("it contains carriage returns; LF or CRLF ends a line")
    return "; " + " ".join(hints) if hints else ""
