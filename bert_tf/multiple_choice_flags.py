"""Flags of `run_multiple_choice.py`, and the task they describe."""

from typing import Any

from absl import flags

from bert_tf import common_flags, run_folder
from bert_tf.common_flags import FLAGS, define
from bert_tf.config import BertConfig
from bert_tf.settings import ModelSettings
from bert_tf.tasks.labels import check_labels
from bert_tf.tasks.multiple_choice_data import (
    CUSTOM_LAYOUT,
    DATA_SETS,
    ChoiceLayout,
    read_choices,
)

CUSTOM = "custom"


def define_flags() -> None:
    """Flags of data for `run_multiple_choice.py`."""
    define(
        flags.DEFINE_string,
        "task_name",
        None,
        "swag or arct; custom for files of your own, JSON lines or a table "
        "with the --*_column flags.",
    )
    define(
        flags.DEFINE_string, "data_dir", None, "Folder of the --*_file flags."
    )
    for mode in ("train", "eval", "predict"):
        define(
            flags.DEFINE_string,
            f"{mode}_file",
            None,
            f"File for --do_{mode}, relative to --data_dir; swag and arct have "
            "their usual names.",
        )
    define(
        flags.DEFINE_list,
        "context_columns",
        None,
        "custom: columns whose texts, joined, are the context; by default "
        "context.",
    )
    define(
        flags.DEFINE_list,
        "choice_columns",
        None,
        "custom: a column for each choice, or a pattern such as ending*, or a "
        "key of JSON lines that holds a list; by default choices.",
    )
    for name, text in (
        ("stem_column", "the text that all choices of a row start with"),
        ("label_column", "the right choice; by default label"),
        ("id_column", "an identifier to write beside predictions"),
    ):
        define(flags.DEFINE_string, name, None, f"custom: column of {text}.")
    define(
        flags.DEFINE_list,
        "choice_names",
        None,
        "What the label column calls the choices, such as A,B,C,D; by default "
        "0, 1 and so on.",
    )
    define(
        flags.DEFINE_integer,
        "num_choices",
        None,
        "Choices of each example; by default those of the first one.",
    )


def _layout() -> ChoiceLayout:
    given = {
        "context": tuple(FLAGS.context_columns or ()),
        "choices": tuple(FLAGS.choice_columns or ()),
        "stem": FLAGS.stem_column,
        "label": FLAGS.label_column,
        "id": FLAGS.id_column,
    }
    return CUSTOM_LAYOUT.with_columns(
        **{name: column for name, column in given.items() if column}
    )


def _find_layout(stored: dict[str, Any]) -> tuple[str, ChoiceLayout]:
    """Name and layout: of the flags, or of the run folder."""
    name = (FLAGS.task_name or stored.get("data_set") or "").lower()
    if name in DATA_SETS:
        return name, DATA_SETS[name].layout
    if name != CUSTOM:
        found = f"is {name}" if name else "is not given"
        raise ValueError(
            f"--task_name {found}, expected one of "
            f"{', '.join((*DATA_SETS, CUSTOM))}"
        )
    columns = ("context_columns", "choice_columns")
    if "layout" in stored and not any(FLAGS[flag].present for flag in columns):
        return name, ChoiceLayout.from_json(stored["layout"])
    return name, _layout()


def _path(mode: str, name: str) -> str:
    path = getattr(FLAGS, f"{mode}_file")
    if not path and name in DATA_SETS:
        path = getattr(DATA_SETS[name], f"{mode}_file")
        common_flags.required("data_dir")
    if not path:
        raise ValueError(f"--do_{mode} needs --{mode}_file")
    return common_flags.in_data_dir(path)


def _num_choices(
    stored: dict[str, Any], paths: dict[str, str], layout: ChoiceLayout
) -> int:
    """Given, or of the run folder, or of the first example."""
    count = FLAGS.num_choices or stored.get("num_choices")
    if count:
        return count
    mode, path = next(iter(paths.items()))
    examples = read_choices(path, f"{mode}_file", layout, with_labels=False)
    return len(next(examples).choices)


def create_task(config: BertConfig, model: ModelSettings) -> Any:
    """Flags -> a `MultipleChoiceTask`.

    What the command line leaves out is taken from the run folder, where
    training has stored it.

    Raises:
      ValueError: casing, vocabulary, names or files do not fit.
    """
    stored = run_folder.read_run(FLAGS.output_dir)
    tokenizer = common_flags.create_tokenizer(model, config)
    name, layout = _find_layout(stored)
    paths = {
        mode: _path(mode, name)
        for mode in ("train", "eval", "predict")
        if getattr(FLAGS, f"do_{mode}")
    }
    count = _num_choices(stored, paths, layout)
    names = FLAGS.choice_names or stored.get("choice_names")
    if names is not None:
        names = check_labels(names)
        if len(names) != count:
            raise ValueError(
                f"--choice_names has {len(names)} names, but there are "
                f"{count} choices"
            )

    from bert_tf.tasks.multiple_choice import (
        MultipleChoiceSource,
        MultipleChoiceTask,
    )

    source = MultipleChoiceSource(tokenizer, paths, layout, names, name)
    return MultipleChoiceTask(count, model.max_seq_length, source)
