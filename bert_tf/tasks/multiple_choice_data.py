"""Questions with a fixed number of choices, read from tables and JSONL."""

import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_tf.tabular import Column, Row, Table


@dataclasses.dataclass(frozen=True)
class ChoiceLayout:
    """Where a file has its contexts, choices and labels.

    Attributes:
      context: columns whose texts, joined by a blank, are the context.
      choices: one column for each choice; or one key of JSONL whose value is
        a list of all; or a pattern with `*` for a number, such as `ending*`.
      stem: column of the text that all choices of a row start with.
      label: column of the number, or name, of the right choice.
      id: column of an identifier; None, or where it is absent, rows are
        numbered from 0.
      kind: `"tsv"`, `"csv"` or `"jsonl"`; None tells it by the file's name.
    """

    context: tuple[Column, ...]
    choices: tuple[Column, ...]
    stem: Column | None = None
    label: Column | None = "label"
    id: Column | None = "id"
    kind: str | None = None

    def describe(self) -> str:
        """The columns in words, for messages."""
        columns = [*self.context, self.stem, *self.choices, self.label]
        return ", ".join(str(c) for c in columns if c is not None)

    def with_columns(self, **columns: Any) -> "ChoiceLayout":
        """The same layout with other columns."""
        return dataclasses.replace(self, **columns)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> "ChoiceLayout":
        """The layout that `dataclasses.asdict` gave, read back from JSON."""
        columns = {name: tuple(values[name]) for name in ("context", "choices")}
        return cls(**{**values, **columns})


@dataclasses.dataclass(frozen=True)
class ChoiceDataSet:
    """A known data set: its layout, and the usual names of its files."""

    layout: ChoiceLayout
    train_file: str
    eval_file: str
    predict_file: str


DATA_SETS = {
    # Zellers et al. 2018. The first sentence is the context; an ending goes
    # on from the second one's beginning.
    "swag": ChoiceDataSet(
        ChoiceLayout(
            context=("sent1",),
            stem="sent2",
            choices=("ending*",),
            label="label",
            id="fold-ind",
            kind="csv",
        ),
        "train.csv",
        "val.csv",
        "test.csv",
    ),
    # Argument reasoning comprehension, Habernal et al. 2018.
    "arct": ChoiceDataSet(
        ChoiceLayout(
            context=("reason", "claim"),
            choices=("warrant0", "warrant1"),
            label="correctLabelW0orW1",
            id="#id",
            kind="tsv",
        ),
        "train.tsv",
        "dev.tsv",
        "test.tsv",
    ),
}

CUSTOM_LAYOUT = ChoiceLayout(context=("context",), choices=("choices",))


@dataclasses.dataclass(frozen=True, slots=True)
class ChoiceExample:
    """A context, its choices, and which one is right.

    Attributes:
      context: the text that they follow.
      choices: C texts.
      label: index of the right one; None if unknown, as when predicting.
      id: what identifies it in predictions.
      where: file and line.
    """

    context: str
    choices: tuple[str, ...]
    label: int | None = None
    id: str = ""
    where: str = ""


def _open(path: str, flag: str, layout: ChoiceLayout) -> Table:
    return Table(path, kind=layout.kind, flag=flag, layout=layout.describe())


def _choice_columns(table: Table, choices: Sequence[Column]) -> list[Column]:
    """Replaces a pattern by the columns that it stands for."""
    if len(choices) != 1 or "*" not in str(choices[0]):
        return list(choices)
    pattern = re.escape(choices[0]).replace(r"\*", r"(\d+)")
    matches = [re.fullmatch(pattern, name) for name in table.header or ()]
    found = sorted(
        (m for m in matches if m is not None), key=lambda m: int(m[1])
    )
    if not found:
        raise ValueError(
            f"{table.path} has no column {choices[0]}; found "
            f"{', '.join(map(repr, table.header or ()))}"
        )
    return [m[0] for m in found]


def _has_column(table: Table, column: Column) -> bool:
    """Whether a column is there; JSONL is judged by its first row."""
    try:
        if table.kind == "jsonl":
            next(table.rows([column]))
        else:
            table.find_column(column)
    except ValueError:
        return False
    return True


def _text(value: Any, where: str, what: str) -> str:
    if not isinstance(value, str):
        raise ValueError(
            f"{where}: {what} must be a string, found "
            f"{type(value).__name__} ({value!r})"
        )
    return value


def _choices(values: tuple, is_list: bool, where: str) -> list[str]:
    if is_list:
        (values,) = values
        if not isinstance(values, list):
            raise ValueError(
                f"{where}: the choices must be a list of strings, found "
                f"{type(values).__name__}"
            )
    return [
        _text(value, where, f"choice {i}") for i, value in enumerate(values)
    ]


def parse_label(value: Any, names: Sequence[str], where: str) -> int:
    """Turns a cell into the index of a choice.

    Args:
      value: string or int.
      names: what the file calls the choices.
      where: file and line, for messages.

    Raises:
      ValueError: no such name; lists those allowed.
    """
    if not isinstance(value, bool) and str(value) in names:
        return names.index(str(value))
    raise ValueError(
        f"{where}: found label {value!r}, allowed: {', '.join(names)}"
    )


def read_choices(
    path: str,
    flag: str,
    layout: ChoiceLayout,
    num_choices: int | None = None,
    names: Sequence[str] | None = None,
    with_labels: bool = True,
) -> Iterator[ChoiceExample]:
    """Reads a file example by example.

    Args:
      path: the file.
      flag: name of the flag that sets it, for messages.
      layout: where contexts, choices and labels stand.
      num_choices: C; by default that of the first row.
      names: what the file calls the choices; 0, 1 and so on by default.
      with_labels: whether labels are read.

    Returns:
      An iterator of examples; a missing file or column is refused at once.

    Raises:
      ValueError: names file and line, what was found and expected.
    """
    table = _open(path, flag, layout)
    choices = _choice_columns(table, layout.choices)
    if with_labels and layout.label is None:
        raise ValueError(f"--{flag}: {path}: no column of labels is named")
    row_id = layout.id
    if row_id is not None and not _has_column(table, row_id):
        row_id = None
    columns = [
        *layout.context,
        layout.stem,
        layout.label if with_labels else None,
        row_id,
        *choices,
    ]
    is_list = table.kind == "jsonl" and len(choices) == 1
    rows = table.rows(columns)
    return _examples(rows, layout, table, num_choices, names, is_list)


def _examples(
    rows: Iterator[Row],
    layout: ChoiceLayout,
    table: Table,
    num_choices: int | None,
    names: Sequence[str] | None,
    is_list: bool,
) -> Iterator[ChoiceExample]:
    size = len(layout.context)
    first = 0 if table.header is None else 1
    for row in rows:
        where = row.where()
        stem, label, row_id, *choices = row.values[size:]
        texts = [_text(t, where, "context") for t in row.values[:size]]
        endings = _choices(tuple(choices), is_list, where)
        if num_choices is None:
            num_choices = len(endings)
        if len(endings) != num_choices or num_choices < 2:
            raise ValueError(
                f"{where}: found {len(endings)} choices, expected "
                f"{max(2, num_choices)}"
            )
        if layout.stem is not None:
            stem = _text(stem, where, "beginning of the choices")
            endings = [f"{stem} {ending}".strip(" ") for ending in endings]
        if label is not None:
            known = names or [str(i) for i in range(num_choices)]
            label = parse_label(label, known, where)
        yield ChoiceExample(
            " ".join(text for text in texts if text),
            tuple(endings),
            label,
            str(row.number - first if row_id is None else row_id),
            where,
        )
