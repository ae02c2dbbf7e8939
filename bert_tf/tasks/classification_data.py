"""Texts with labels, read from files or taken from memory."""

import collections
import dataclasses
import logging
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from bert_tf.tabular import Row, Table
from bert_tf.tasks import labels as label_lists
from bert_tf.tasks.data_sets import DataSet, SplitFile
from bert_tf.tasks.header_check import check_header, warn_if_header_is_data

# In place of a language: each that a file holds.
ALL_LANGUAGES = "all"

_log = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True, slots=True)
class Example:
    """One text or pair of texts with its label.

    Attributes:
      guid: split and number, as the original forms it.
      text_a: first text.
      text_b: second text; None or empty makes a single text.
      label: a label, a number in regression, a tuple of labels in
        multi-label; None if unknown, as when predicting.
      id: what identifies the row in predictions: the cell of the id column,
        or the number of the row from 0, a header not counted.
      where: file and line.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | float | tuple[str, ...] | None = None
    id: str = ""
    where: str = ""

    @property
    def has_label(self) -> bool:
        """Whether the label is real; if not, features get a placeholder."""
        return self.label is not None


def check_text(text: Any, where: str, role: str = "text") -> str:
    """Refuses a text that is no string, such as a data frame's empty cell.

    Raises:
      ValueError: names the place, what was found and what was expected.
    """
    if isinstance(text, str):
        return text
    raise ValueError(
        f"{where}: {role} must be a string, found {type(text).__name__} "
        f"({text!r})"
    )


def examples_from_texts(
    texts_a: Sequence[str],
    texts_b: Sequence[str | None] | None = None,
    labels: Sequence[Any] | None = None,
) -> list[Example]:
    """Makes examples from texts in memory.

    Args:
      texts_a: first texts.
      texts_b: second texts, one each, or None.
      labels: labels, one each, or None; ints become strings.

    Raises:
      ValueError: lengths differ, or a text is no string; names the row.
    """
    count = len(texts_a)
    for name, values in (("second texts", texts_b), ("labels", labels)):
        if values is not None and len(values) != count:
            raise ValueError(f"{count} texts but {len(values)} {name}")
    examples = []
    for i, text_a in enumerate(texts_a):
        text_b = texts_b[i] if texts_b is not None else None
        label = labels[i] if labels is not None else None
        if isinstance(label, int):
            label = str(label)
        examples.append(
            Example(
                f"text-{i}",
                check_text(text_a, f"row {i}"),
                None
                if text_b is None
                else check_text(text_b, f"row {i}", "second text"),
                label,
                id=str(i),
                where=f"row {i}",
            )
        )
    return examples


def _open_split(
    data_set: DataSet,
    split: SplitFile,
    name: str,
    data_dir: str | None,
    language: str,
    on_bad_row: str,
) -> Table:
    layout = split.layout
    words = layout.describe()
    return Table(
        split.path(data_dir, language),
        kind=layout.kind or ("tsv" if layout.names else None),
        has_header=layout.has_header,
        delimiter=layout.delimiter,
        flag=split.flag,
        layout=f"{data_set.name} {name}: {words}" if words else "",
        on_bad_row=on_bad_row,
    )


def read_split(
    data_set: DataSet,
    split: str,
    data_dir: str | None = None,
    labels: Sequence[str] | None = None,
    with_labels: bool | None = None,
    language: str = "zh",
    on_bad_row: str = "error",
) -> Iterator[Example]:
    """Reads one file of a data set, row by row.

    Args:
      data_set: which one.
      split: name of the file's split, as `"train"` or `"dev_matched"`.
      data_dir: folder of the files; None where splits hold whole paths.
      labels: allowed labels; by default those of the data set, if any.
      with_labels: whether labels are read; by default in all but test
        files, which need no valid label.
      language: of XNLI: which training file, which rows of the others.
      on_bad_row: `"error"` stops at a row that cannot be read, `"skip"`
        leaves it out with a counted warning. A wrong label always stops.

    Returns:
      An iterator of examples in file order.

    Raises:
      ValueError: at once if the file or a column is missing; while reading
        with file, line, what was found and what was expected.
    """
    part = data_set.split(split)
    layout = part.layout
    if with_labels is None:
        with_labels = layout.label is not None and not split.startswith("test")
    if with_labels and layout.label is None:
        raise ValueError(f"{data_set.name}: {part.file} has no labels")
    table = _open_split(data_set, part, split, data_dir, language, on_bad_row)
    allowed = data_set.labels if labels is None else labels
    misnamed = set()
    if layout.names and table.header is not None:
        misnamed = check_header(table, data_set, part)
    elif with_labels:
        warn_if_header_is_data(table, layout.label, allowed)
    # A labelled file under a test file's name has no ids in that column,
    # and nobody asks for the ids of a training file.
    needs_id = "id" not in misnamed and split != "train"
    rows = table.rows(
        (
            layout.text_a,
            layout.text_b,
            layout.label if with_labels else None,
            layout.id if needs_id else None,
            layout.guid,
            layout.language,
        )
    )
    if layout.language is not None:
        rows = _only_language(rows, language, table.path)
    return _examples(rows, data_set, split, table, with_labels, allowed)


def _only_language(
    rows: Iterable[Row], language: str, path: str
) -> Iterator[Row]:
    seen: collections.Counter = collections.Counter()
    for row in rows:
        seen[row.values[-1]] += 1
        if row.values[-1] == language:
            yield row
    if not seen[language]:
        raise ValueError(
            f"{path} has no row in language {language!r}; found "
            f"{', '.join(seen)}"
        )
    _log.info(
        "%s: %d rows in %s used, %d in other languages left out",
        path,
        seen[language],
        language,
        seen.total() - seen[language],
    )


def _examples(
    rows: Iterable[Row],
    data_set: DataSet,
    name: str,
    table: Table,
    with_labels: bool,
    labels: Sequence[str] | None,
) -> Iterator[Example]:
    split = data_set.split(name)
    layout = split.layout
    prefix = split.guid_prefix or name
    first = 0 if table.header is None else 1
    for row in rows:
        text_a, text_b, label, row_id, guid, _ = row.values
        where = row.where()
        if with_labels:
            hint = table.layout
            if row.number == 0 and not layout.has_header:
                hint = f"; is line 1 a header?{hint}"
            label = label_lists.parse_label(
                label, data_set, labels, where, hint
            )
        yield Example(
            f"{prefix}-{row.number if guid is None else guid}",
            check_text(text_a, where),
            None
            if text_b is None
            else check_text(text_b, where, "second text"),
            label,
            id=str(row.number - first if row_id is None else row_id),
            where=where,
        )


def find_labels(
    data_set: DataSet,
    data_dir: str | None = None,
    language: str = "zh",
    on_bad_row: str = "error",
) -> list[str]:
    """Finds the labels of the training file, sorted.

    Returns:
      Each label once: by value if all are whole numbers, else by code point.

    Raises:
      ValueError: a row cannot be read or has no label, or there are not two
        labels.
    """
    counts: collections.Counter = collections.Counter()
    first = None
    path = data_set.split("train").path(data_dir, language)
    for example in read_split(
        data_set,
        "train",
        data_dir,
        with_labels=True,
        language=language,
        on_bad_row=on_bad_row,
    ):
        found = example.label
        counts.update([found] if isinstance(found, str) else found)
        if first is None and isinstance(found, str):
            first = found
    has_header = data_set.split("train").layout.has_header
    label_lists.warn_about_labels(counts, None if has_header else first, path)
    try:
        found = label_lists.check_labels(
            label_lists.sort_labels(counts), data_set.kind
        )
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
    _log.info("%s: %d labels found: %s", path, len(found), ", ".join(found))
    return found


def find_languages(
    data_set: DataSet,
    split: str,
    data_dir: str | None = None,
    on_bad_row: str = "error",
) -> list[str]:
    """Lists the languages of a file that mixes several, in file order.

    Args:
      data_set: which one.
      split: name of the file's split.
      data_dir: folder of the files.
      on_bad_row: see `read_split`.

    Raises:
      ValueError: the file has no column of languages, or no row.
    """
    part = data_set.split(split)
    if part.layout.language is None:
        raise ValueError(f"{data_set.name}: {part.file} has one language")
    table = _open_split(data_set, part, split, data_dir, "", on_bad_row)
    rows = table.rows([part.layout.language])
    found = list(dict.fromkeys(row.values[0] for row in rows))
    if not found:
        raise ValueError(f"{table.path}: the file has no data row")
    _log.info("%s: languages %s", table.path, ", ".join(found))
    return found
