"""Tables read row by row: tab-separated, comma-separated and JSONL files.

All text is UTF-8, whatever the platform says, and a byte-order mark at the
start is dropped. In tab-separated files quotes are plain characters and only
LF or CRLF ends a line, as in the original's reader; comma-separated files
follow RFC 4180, so that a quoted field may hold line ends.
"""

import contextlib
import dataclasses
import logging
import os
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_tf import files
from bert_tf.delimited import (
    ParsedRow,
    parse_csv,
    parse_jsonl,
    parse_tsv,
    separator_hint,
)

_log = logging.getLogger("bert_tf")

KINDS = ("tsv", "csv", "jsonl")

Column = str | int


class Row(NamedTuple):
    """The wanted cells of one row, and where it stands.

    Attributes:
      path: the file.
      line: 1-based line on which the row starts.
      number: 0-based number of the row in its file, a header counted.
      values: one value per wanted column; None where no column was wanted.
    """

    path: str
    line: int
    number: int
    values: tuple

    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.path}, line {self.line}"


def kind_of(path: str | os.PathLike) -> str:
    """Tells the kind of a table by its name; tab-separated unless known."""
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending == ".csv":
        return "csv"
    return "jsonl" if ending in (".jsonl", ".json", ".ndjson") else "tsv"


def check_file(path: str | os.PathLike, flag: str) -> None:
    """Refuses a path that is no file.

    Raises:
      ValueError: names the path looked for, the flag that sets it and what
        the folder holds instead.
    """
    path = os.fspath(path)
    if files.is_dir(path):
        raise ValueError(f"--{flag}: {path} is a folder, expected a file")
    if files.exists(path):
        return
    folder = os.path.dirname(path) or "."
    if files.is_dir(folder):
        names = files.list_dir(folder)
        shown = ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")
        found = f"the folder holds: {shown or 'nothing'}"
    else:
        found = f"there is no folder {folder}"
    raise ValueError(f"--{flag}: no file {path}; {found}")


@dataclasses.dataclass
class _Tally:
    """What was met while reading: rows, and lines of odd ones."""

    rows: int = 0
    skipped: list[int] = dataclasses.field(default_factory=list)
    longer: list[int] = dataclasses.field(default_factory=list)
    blank_at_end: int = 0


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


class Table:
    """One file of rows, read again from the start by each `rows()`.

    Args:
      path: the file, local or remote.
      kind: `"tsv"`, `"csv"` or `"jsonl"`; by default told by the name.
      has_header: whether the first row names the columns; JSONL has keys.
      delimiter: one character; by default tab or comma.
      flag: name of the flag that sets the path, for messages.
      layout: the expected layout in words, added to messages about columns.
      on_bad_row: `"error"` stops at a malformed row, `"skip"` counts it.

    Attributes:
      header: names of the columns, None without a header.

    Raises:
      ValueError: the file is missing or empty, or its header is unreadable.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        kind: str | None = None,
        has_header: bool = True,
        delimiter: str | None = None,
        flag: str = "data_dir",
        layout: str = "",
        on_bad_row: str = "error",
    ):
        self.path = os.fspath(path)
        check_file(self.path, flag)
        self.kind = kind or kind_of(self.path)
        if self.kind not in KINDS:
            raise ValueError(f"table kind {kind!r}, expected one of {KINDS}")
        if on_bad_row not in ("error", "skip"):
            raise ValueError(f"on_bad_row {on_bad_row!r}, not error or skip")
        self.delimiter = delimiter or ("," if self.kind == "csv" else "\t")
        self.layout = f"; expected layout: {layout}" if layout else ""
        self.on_bad_row = on_bad_row
        self.header: list[str] | None = None
        self._header_line = 0
        if has_header and self.kind != "jsonl":
            self._read_header()

    def _parse(self) -> Iterator[ParsedRow]:
        if self.kind == "jsonl":
            return parse_jsonl(self.path)
        parse = parse_csv if self.kind == "csv" else parse_tsv
        return parse(self.path, self.delimiter)

    def _read_header(self) -> None:
        with contextlib.closing(self._parse()) as rows:
            first = next(rows, None)
        if first is None:
            raise ValueError(f"{self.path} is empty, expected a header line")
        if first.problem:
            raise ValueError(f"{self.path}, line {first.line}: {first.problem}")
        self.header = first.cells
        self._header_line = first.line

    def keep_header_as_row(self) -> None:
        """Takes the first row as data after all."""
        self.header = None

    def find_column(self, column: Column) -> Column:
        """Turns a column's name or number into an index (a key in JSONL).

        A string of digits is a number unless the header has that name.
        Negative numbers count from the end of each row.

        Raises:
          ValueError: no such column; lists those there.
        """
        if self.kind == "jsonl":
            return str(column)
        names = self.header or []
        if isinstance(column, str) and names.count(column) == 1:
            return names.index(column)
        if column in names:
            raise ValueError(f"{self.path} has several columns {column!r}")
        try:
            index = int(column)
        except ValueError:
            found = (
                "found " + ", ".join(map(repr, names))
                if self.header is not None
                else "the file is read without a header, so that columns "
                "have numbers, 0 for the first"
            )
            raise ValueError(
                f"{self.path} has no column {column!r}; {found}{self.layout}"
                + separator_hint(names, self.delimiter)
            ) from None
        if self.header is not None and not -len(names) <= index < len(names):
            raise ValueError(
                f"{self.path}, line {self._header_line}: found "
                f"{_plural(len(names), 'column')}, expected at least "
                f"{index + 1 if index >= 0 else -index}"
                + separator_hint(names, self.delimiter)
                + self.layout
            )
        return index

    def rows(self, columns: Sequence[Column | None]) -> Iterator[Row]:
        """Reads the wanted columns of every row.

        Args:
          columns: names or numbers; None gives None in that place.

        Returns:
          An iterator of rows. Values are strings; in JSONL what the object
          holds. Unknown columns are refused at once, bad rows when met.

        Raises:
          ValueError: names file, line, what was found and expected.
        """
        keys = [None if c is None else self.find_column(c) for c in columns]
        return self._rows(keys)

    def _rows(self, keys: list) -> Iterator[Row]:
        tally = _Tally()
        blank: list[int] = []
        pick = self._pick_keys if self.kind == "jsonl" else self._pick_cells
        keeps_blank = self._keeps_blank(keys)
        width = len(self.header) if self.header else sys.maxsize
        with contextlib.closing(self._parse()) as parsed:
            for number, raw in enumerate(parsed):
                if number == 0 and self.header is not None:
                    continue
                if raw.is_blank() and not keeps_blank:
                    # A fault only when more rows follow.
                    blank.append(raw.line)
                    continue
                for line in blank:
                    self._report(line, "the line is blank", tally)
                blank.clear()
                values, problem = pick(raw, keys)
                if problem:
                    self._report(raw.line, problem, tally)
                    continue
                if len(raw.cells) > width:
                    tally.longer.append(raw.line)
                tally.rows += 1
                yield Row(self.path, raw.line, number, values)
        tally.blank_at_end = len(blank)
        self._finish(tally)

    def _keeps_blank(self, keys: list) -> bool:
        """In a table of one column a blank line is an empty text."""
        if self.kind == "jsonl" or (self.header and len(self.header) > 1):
            return False
        return all(key in (None, 0, -1) for key in keys)

    def _pick_cells(self, raw: ParsedRow, keys: list) -> tuple[tuple, str]:
        if raw.problem:
            return (), raw.problem
        cells = raw.cells or [""]
        try:
            return tuple([None if k is None else cells[k] for k in keys]), ""
        except IndexError:
            needed = max(k + 1 if k >= 0 else -k for k in keys if k is not None)
            return (), (
                f"found {_plural(len(cells), 'column')}, expected at least "
                f"{needed}{separator_hint(cells, self.delimiter)}"
                f"{self.layout}"
            )

    def _pick_keys(self, raw: ParsedRow, keys: list) -> tuple[tuple, str]:
        if raw.problem:
            return (), raw.problem
        for key in keys:
            if key is not None and key not in raw.cells:
                found = ", ".join(map(repr, raw.cells))
                return (), f"no key {key!r}; found {found or 'none'}"
        return tuple([None if k is None else raw.cells[k] for k in keys]), ""

    def _report(self, line: int, problem: str, tally: _Tally) -> None:
        message = f"{self.path}, line {line}: {problem}"
        if self.on_bad_row == "error":
            raise ValueError(message)
        if not tally.skipped:
            _log.warning("%s (the row is skipped)", message)
        tally.skipped.append(line)

    def _finish(self, tally: _Tally) -> None:
        """Says what was read; refuses a file that gave nothing."""
        parts = [_plural(tally.rows, "row") + " read"]
        if self.header is not None:
            parts.append("1 header line skipped")
        if tally.blank_at_end:
            blank = _plural(tally.blank_at_end, "blank line")
            parts.append(f"{blank} at the end skipped")
        summary = ", ".join(parts)
        _log.info("%s: %s", self.path, summary)
        for lines, what in (
            (tally.skipped, "malformed and skipped"),
            (tally.longer, "longer than the header line"),
        ):
            if lines:
                shown = ", ".join(map(str, lines[:10]))
                more = ", ..." if len(lines) > 10 else ""
                count = _plural(len(lines), "row")
                _log.warning(
                    "%s: %s %s: line %s%s", self.path, count, what, shown, more
                )
        if not tally.rows:
            hint = separator_hint(self.header or [], self.delimiter)
            raise ValueError(f"{self.path} gives no rows ({summary}){hint}")
