"""Label lists: checking, finding in a file, storing beside a model."""

import collections
import logging
import math
import os
from collections.abc import Iterable, Sequence
from typing import Any

from bert_tf import files
from bert_tf.tasks.data_sets import DataSet

_log = logging.getLogger("bert_tf")

LABELS_FILE = "labels.txt"


def check_labels(
    labels: Sequence[Any], kind: str = "classification"
) -> list[str]:
    """Makes a list of labels strings and refuses what cannot be one.

    Args:
      labels: strings or ints, in the order of the output units.
      kind: `"classification"` or `"multi_label"`.

    Returns:
      The labels as strings; ints are written in decimal.

    Raises:
      ValueError: no label, one label only, one given twice, or a label
        that is empty or holds a line end.
    """
    if isinstance(labels, (str, bytes)):
        raise ValueError(f"labels are the string {labels!r}, expected a list")
    checked = []
    for label in labels:
        if isinstance(label, bool) or not isinstance(label, (str, int)):
            raise ValueError(
                f"label {label!r} is a {type(label).__name__}, expected a "
                "string or an int"
            )
        text = str(label)
        if not text or "\n" in text or "\r" in text:
            raise ValueError(
                f"label {text!r}: a label must not be empty nor hold line ends"
            )
        checked.append(text)
    if not checked:
        raise ValueError(
            "the list of labels is empty; for numbers as targets choose "
            "regression instead"
        )
    twice = [k for k, n in collections.Counter(checked).items() if n > 1]
    if twice:
        raise ValueError(f"labels given more than once: {', '.join(twice)}")
    if len(checked) == 1 and kind == "classification":
        raise ValueError(
            f"the only label is {checked[0]!r}; a classifier needs two"
        )
    return checked


def sort_labels(labels: Iterable[str]) -> list[str]:
    """Sorts labels, by value if all are whole numbers, else by code point."""
    labels = list(labels)
    try:
        return sorted(labels, key=lambda label: (int(label), label))
    except ValueError:
        return sorted(labels)


def read_labels(path: str | os.PathLike) -> list[str]:
    """Reads a label list, one label a line, in the order of the outputs.

    The last line may lack its line end.

    Raises:
      ValueError: no such file, not UTF-8, or not a valid list.
    """
    if not files.exists(path):
        raise ValueError(f"no file of labels {os.fspath(path)}")
    try:
        text = files.read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8: {error}") from None
    lines = [line.removesuffix("\r") for line in text.split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    try:
        return check_labels(lines, "multi_label")
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)}: {error}") from None


def write_labels(path: str | os.PathLike, labels: Sequence[str]) -> None:
    """Writes a label list, one label a line, in the order of the outputs."""
    labels = check_labels(labels, "multi_label")
    with files.atomic_write(path) as stream:
        stream.write("".join(f"{label}\n" for label in labels))


def choose_labels(
    data_set: DataSet,
    given: Sequence[Any] | None = None,
    stored: Sequence[str] | None = None,
) -> list[str] | None:
    """Chooses the label list: given, of the data set, or of the run folder.

    Args:
      data_set: its labels, if it has any, are used when none are given.
      given: list given by the user.
      stored: list read from the run folder.

    Returns:
      The labels, or None where they must be found in the training file.

    Raises:
      ValueError: the run folder holds other labels, or another order.
    """
    chosen = given if given is not None else data_set.labels
    if chosen is not None:
        chosen = check_labels(chosen, data_set.kind)
        if stored and list(stored) != chosen:
            raise ValueError(
                f"the run folder's {LABELS_FILE} lists {', '.join(stored)}, "
                f"but the labels of this run are {', '.join(chosen)}"
            )
        return chosen
    return check_labels(stored, data_set.kind) if stored else None


def _as_text(value: Any, where: str) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if not isinstance(value, str):
        found = "nothing" if value is None else repr(value)
        raise ValueError(f"{where}: found {found}, expected a label")
    return value


def _check_known(
    label: str, labels: Sequence[str], where: str, hint: str
) -> None:
    if label in labels:
        return
    near = [k for k in labels if k.strip().lower() == label.strip().lower()]
    if near:
        hint = f"; it differs from {near[0]!r} by blanks or case only{hint}"
    shown = ", ".join(map(repr, labels[:50]))
    raise ValueError(
        f"{where}: found label {label!r}, allowed: {shown}"
        f"{', ...' if len(labels) > 50 else ''}{hint}"
    )


def parse_label(
    cell: Any,
    data_set: DataSet,
    labels: Sequence[str] | None,
    where: str,
    hint: str = "",
) -> str | float | tuple[str, ...]:
    """Turns a cell into a label, a number or a tuple of labels.

    Args:
      cell: string, or what a JSON object holds.
      data_set: kind, aliases and separator.
      labels: allowed labels; None allows all.
      where: file and line, for messages.
      hint: appended to the message about an unknown label.

    Raises:
      ValueError: names file, line, the label found and those allowed.
    """
    if data_set.kind == "regression":
        return _parse_number(cell, where)
    if data_set.kind == "multi_label":
        if isinstance(cell, str):
            cell = (
                [part.strip() for part in cell.split(data_set.label_separator)]
                if cell.strip()
                else []
            )
        elif not isinstance(cell, list):
            cell = [] if cell is None else [cell]
        return tuple(
            _one_label(part, data_set, labels, where, hint) for part in cell
        )
    return _one_label(cell, data_set, labels, where, hint)


def _one_label(cell, data_set, labels, where, hint) -> str:
    label = _as_text(cell, where)
    label = data_set.label_aliases.get(label, label)
    if not label:
        raise ValueError(f"{where}: the label is empty{hint}")
    if data_set.labels_are_numbers:
        if labels is None:
            raise ValueError(
                "labels as numbers need a list of labels that they count in"
            )
        if not label.isdecimal() or int(label) >= len(labels):
            raise ValueError(
                f"{where}: found label {label!r}, expected the position of "
                f"one of {len(labels)} labels, from 0"
            )
        return labels[int(label)]
    if labels is not None:
        _check_known(label, labels, where, hint)
    return label


def _parse_number(cell: Any, where: str) -> float:
    try:
        value = float("nan" if isinstance(cell, bool) else cell)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"{where}: found {cell!r}, expected a finite number; for names "
            "as labels choose classification instead"
        )
    return value


def warn_about_labels(
    counts: collections.Counter, first: str | None, where: str
) -> None:
    """Warns about labels found in a file that look like mistakes.

    Args:
      counts: label -> number of rows.
      first: label of the first row, where the file has no header.
      where: the file, for messages.
    """
    total = sum(counts.values())
    if first is not None and counts[first] == 1 and total > 2:
        _log.warning(
            "%s: label %r stands in the first row only; is that row a "
            "header? Then say that the file has one.",
            where,
            first,
        )
    if len(counts) > 20 and len(counts) > total / 2:
        _log.warning(
            "%s: %d different labels in %d rows; is it the right column? "
            "For numbers as targets choose regression.",
            where,
            len(counts),
            total,
        )
    seen: dict[str, str] = {}
    for label in counts:
        key = label.strip().lower()
        if key in seen:
            _log.warning(
                "%s: labels %r and %r differ by blanks or case only",
                where,
                seen[key],
                label,
            )
        seen[key] = label
