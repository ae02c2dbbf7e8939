"""Is the first line of a known data set's file what it should be?"""

import logging
from collections.abc import Sequence

from bert_tf.tabular import Column, Table
from bert_tf.tasks.data_sets import DataSet, SplitFile

_log = logging.getLogger("bert_tf")


def check_header(table: Table, data_set: DataSet, split: SplitFile) -> set[str]:
    """Compares the first line with the header of the official file.

    A first line that is plainly data is kept as data, and said. Other names
    are common in files made by hand, so that they only give a warning.

    Args:
      table: just opened, with a header.
      data_set: a known one.
      split: which of its files.

    Returns:
      Roles, such as `"id"`, whose column has another name than expected.

    Raises:
      ValueError: texts stand in other columns than expected.
    """
    header, layout = table.header, split.layout
    _refuse_training_layout(table, data_set, split)
    used = {
        role: (column, layout.names[column])
        for role, column in layout.used().items()
        if -len(header) <= column < len(header)
    }
    wrong = {
        role: (column, name)
        for role, (column, name) in used.items()
        if header[column].strip().lower() != name.lower()
    }
    if not wrong:
        return set()
    known = {*(data_set.labels or ()), *data_set.label_aliases}
    is_data = any(
        header[wrong[role][0]].isdecimal()
        if role == "id"
        else header[wrong[role][0]] in known
        for role in ("id", "label")
        if role in wrong
    )
    if is_data:
        _log.warning(
            "%s, line 1 should be a header but looks like data: it is read "
            "as data%s",
            table.path,
            table.layout,
        )
        table.keep_header_as_row()
        return set()
    names = [cell.strip().lower() for cell in header]
    for role, (column, name) in wrong.items():
        found = header[column]
        message = (
            f"{table.path}, line 1: column {column} is {found!r}, expected "
            f"{name!r} ({role}){table.layout}"
        )
        if role.startswith("text") and name.lower() in names:
            # Reading on would take other cells for texts.
            raise ValueError(message)
        _log.warning("%s", message)
    return set(wrong)


def warn_if_header_is_data(
    table: Table, label_column: Column | None, labels: Sequence[str] | None
) -> None:
    """Warns when the line skipped as header holds one of the labels."""
    if table.header is None or label_column is None or not labels:
        return
    found = table.header[table.find_column(label_column)]
    if found in labels:
        _log.warning(
            "%s, line 1 is skipped as header, but its column %s holds the "
            "label %r; does the file have a header?",
            table.path,
            label_column,
            found,
        )


def _refuse_training_layout(
    table: Table, data_set: DataSet, split: SplitFile
) -> None:
    """Refuses a test file laid out as a headerless training file."""
    train = data_set.splits.get("train")
    if train is None or train.layout.has_header or split is train:
        return
    layout, cells = train.layout, table.header
    if (
        len(cells) == len(layout.names)
        and cells[layout.label] in data_set.labels
    ):
        raise ValueError(
            f"{table.path}, line 1 is laid out as {train.file} "
            f"({layout.describe()}){table.layout}"
        )
