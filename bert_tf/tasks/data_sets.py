"""What describes a classification data set: files, columns, labels, scores."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

from bert_tf import files
from bert_tf.tabular import Column

KINDS = ("classification", "regression", "multi_label")


@dataclasses.dataclass(frozen=True)
class Layout:
    """The columns of one file, by header name or 0-based number.

    Attributes:
      names: all column names of the official file, in order; empty where
        the user names the columns.
      text_a: column of the first text.
      text_b: column of the second text, if any.
      label: column of the label, if the file has one.
      id: column that identifies a row, if any.
      guid: column whose cell ends the guid; None takes the row's number.
      language: column of the language, where a file mixes several.
      has_header: whether the first row names the columns.
      kind: of the file, told by its name if None; see `tabular.Table`.
      delimiter: tab or comma if None.
    """

    text_a: Column
    text_b: Column | None = None
    label: Column | None = None
    id: Column | None = None
    guid: Column | None = None
    language: Column | None = None
    names: tuple[str, ...] = ()
    has_header: bool = True
    kind: str | None = None
    delimiter: str | None = None

    def used(self) -> dict[str, Column]:
        """Role -> column, for the columns that are read."""
        roles = ("text_a", "text_b", "label", "id", "language")
        return {
            role: getattr(self, role)
            for role in roles
            if getattr(self, role) is not None
        }

    def describe(self) -> str:
        """The layout in words, for messages; empty without names."""
        if not self.names:
            return ""
        header = "a header line" if self.has_header else "no header line"
        columns = []
        for role, column in self.used().items():
            # Counted from the end: the label of MNLI, STS-B.
            place = "last" if column == -1 else column
            columns.append(f"{place} {self.names[column]} ({role})")
        return f"{header}, tab-separated columns (from 0): {', '.join(columns)}"


@dataclasses.dataclass(frozen=True)
class SplitFile:
    """One file of a data set.

    Attributes:
      file: path inside the data folder; may hold `{language}`.
      layout: its columns.
      flag: name of the flag that sets the path.
      guid_prefix: how guids begin, the split's name if None.
      submission: name of its file in a GLUE submission, if it has one.
      submission_rows: rows of the official file, 0 if unknown.
    """

    file: str
    layout: Layout
    flag: str = "data_dir"
    guid_prefix: str | None = None
    submission: str | None = None
    submission_rows: int = 0

    def path(self, data_dir: str | None, language: str = "") -> str:
        """Where the file is expected."""
        name = self.file
        if "{language}" in name:
            name = name.replace("{language}", language)
        if not data_dir:
            return name
        if files.is_remote(data_dir):
            return f"{data_dir.rstrip('/')}/{name}"
        return os.path.join(data_dir, name)


@dataclasses.dataclass(frozen=True)
class DataSet:
    """One data set: its files, labels and scores.

    Attributes:
      name: as given on the command line.
      splits: name -> file; names begin with train, dev or test.
      labels: in the order of the output units; None for regression, and
        where they are found in the training file.
      kind: `"classification"`, `"regression"` or `"multi_label"`.
      metrics: names in `bert_tf.metrics.SCORES`, the official one first.
      label_aliases: spelling in the file -> label.
      label_separator: between the labels of one cell, multi-label only.
      labels_are_numbers: cells hold positions in the label list.
    """

    name: str
    splits: Mapping[str, SplitFile]
    labels: tuple[str, ...] | None = None
    kind: str = "classification"
    metrics: tuple[str, ...] = ("accuracy",)
    label_aliases: Mapping[str, str] = dataclasses.field(default_factory=dict)
    label_separator: str = ","
    labels_are_numbers: bool = False

    def __post_init__(self):
        if self.kind not in KINDS:
            raise ValueError(f"kind {self.kind!r}, expected one of {KINDS}")

    def splits_of(self, part: str) -> list[str]:
        """Names of the splits of `"train"`, `"dev"` or `"test"`, in order.

        The first is the one that the original uses.
        """
        return [name for name in self.splits if name.startswith(part)]

    def split(self, name: str) -> SplitFile:
        """The split of that name; `"dev"` also finds `"dev_matched"`.

        Raises:
          ValueError: the data set has no such split.
        """
        if name in self.splits:
            return self.splits[name]
        found = self.splits_of(name)
        if not found:
            raise ValueError(
                f"data set {self.name} has no {name} part, only "
                f"{', '.join(self.splits)}"
            )
        return self.splits[found[0]]


def custom_data_set(
    text_a: Column,
    text_b: Column | None = None,
    label: Column | None = None,
    id: Column | None = None,
    train_file: str | None = None,
    dev_file: str | None = None,
    test_file: str | None = None,
    has_header: bool | None = None,
    file_kind: str | None = None,
    delimiter: str | None = None,
    kind: str = "classification",
    metrics: Sequence[str] | None = None,
    label_separator: str = ",",
    labels_are_numbers: bool = False,
) -> DataSet:
    """Describes files of the user's own.

    Args:
      text_a: column of the first text, by header name or 0-based number
        (`"2"` is a number unless the header has that name).
      text_b: column of the second text.
      label: column of the label, number or list of labels.
      id: column that identifies a row in the predictions.
      train_file: path, or None if there is no such part.
      dev_file: the same.
      test_file: the same; its label column is not read.
      has_header: by default true if any column has a name.
      file_kind: `"tsv"`, `"csv"`, `"jsonl"`, by default by the file's name.
      delimiter: by default tab or comma.
      kind: `"classification"`, `"regression"` or `"multi_label"`.
      metrics: names in `bert_tf.metrics.SCORES`, by default by kind.
      label_separator: between the labels of one cell, multi-label only.
      labels_are_numbers: cells hold positions in a label list given.

    Returns:
      A data set named `custom` whose splits hold whole paths.

    Raises:
      ValueError: no file, or no label column for a file that needs one.
    """
    columns = [c for c in (text_a, text_b, label, id) if c is not None]
    if has_header is None:
        has_header = not all(str(c).lstrip("-").isdigit() for c in columns)
    layout = Layout(
        text_a,
        text_b,
        label,
        id,
        has_header=has_header,
        kind=file_kind,
        delimiter=delimiter,
    )
    splits = {}
    for part, flag, path in (
        ("train", "train_file", train_file),
        ("dev", "eval_file", dev_file),
        ("test", "predict_file", test_file),
    ):
        if not path:
            continue
        if label is None and part != "test":
            raise ValueError(f"--{flag} is given, but no --label_column")
        splits[part] = SplitFile(path, layout, flag=flag)
    if not splits:
        raise ValueError("no --train_file, --eval_file nor --predict_file")
    default_metrics = {
        "classification": ("accuracy", "macro_f1"),
        "regression": ("pearson", "spearman", "mean_squared_error"),
        "multi_label": (),
    }
    if kind not in default_metrics:
        raise ValueError(f"kind {kind!r}, expected one of {KINDS}")
    return DataSet(
        "custom",
        splits,
        kind=kind,
        metrics=tuple(metrics or default_metrics[kind]),
        label_separator=label_separator,
        labels_are_numbers=labels_are_numbers,
    )
