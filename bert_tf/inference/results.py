"""How results look: as text, as JSON values, in a notebook."""

import html
from collections.abc import Sequence
from typing import Any

_SHOWN_ROWS = 50


class Result:
    """One result; subclasses are dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """The result in JSON values."""
        raise NotImplementedError

    def to_line(self) -> str:
        """The result in one line of text, without the input."""
        raise NotImplementedError

    def cells(self) -> dict[str, Any]:
        """Column -> what a table shows in it."""
        return self.to_dict()

    def _repr_html_(self) -> str:
        return html_table([self.cells()])


class Results(list):
    """A list of results that a notebook shows as a table."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """The results in JSON values."""
        return [result.to_dict() for result in self]

    def _repr_html_(self) -> str:
        return html_table([result.cells() for result in self])


def html_table(rows: Sequence[dict[str, Any]]) -> str:
    """An HTML table; columns are the keys of the rows, in order met.

    Values are escaped; only colours that both light and dark pages show.
    """
    shown = rows[:_SHOWN_ROWS]
    columns = list(dict.fromkeys(key for row in shown for key in row))
    head = "".join(f"<th>{html.escape(str(key))}</th>" for key in columns)
    body = "".join(
        "<tr>"
        + "".join(f"<td>{_cell(row.get(key, ''))}</td>" for key in columns)
        + "</tr>"
        for row in shown
    )
    more = len(rows) - len(shown)
    note = f"<p>and {more} more</p>" if more else ""
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"{note}"
    )


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4f}"
    if isinstance(value, dict):
        return ", ".join(
            f"{html.escape(str(key))} {_cell(x)}" for key, x in value.items()
        )
    if isinstance(value, (list, tuple)):
        return ", ".join(map(_cell, value))
    return html.escape("" if value is None else str(value))
