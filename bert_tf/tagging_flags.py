"""Flags of `run_tagging.py`, and the task they describe."""

from typing import Any

from absl import flags

from bert_tf import common_flags, run_folder
from bert_tf.common_flags import FLAGS, define
from bert_tf.config import BertConfig
from bert_tf.settings import ModelSettings
from bert_tf.tasks.labels import check_labels
from bert_tf.tasks.tagging_data import SEPARATORS, ColumnLayout, find_labels
from bert_tf.tasks.tagging_features import LONG_SENTENCES, TaggingFeaturizer


def define_flags() -> None:
    """Flags of data for `run_tagging.py`."""
    define(
        flags.DEFINE_string, "data_dir", None, "Folder of the --*_file flags."
    )
    for mode in ("train", "eval", "predict"):
        define(
            flags.DEFINE_string,
            f"{mode}_file",
            None,
            f"File for --do_{mode}, a word and its label on each line; "
            "relative to --data_dir.",
        )
    define(
        flags.DEFINE_integer,
        "word_column",
        0,
        "Column of the word, from 0; negative from the end.",
    )
    # A string, as in other scripts, which one process may import too.
    define(
        flags.DEFINE_string,
        "label_column",
        None,
        "Column of the label, from 0; negative from the end; by default the "
        "last one.",
    )
    define(
        flags.DEFINE_enum,
        "separator",
        None,
        "What separates columns; by default told by the first line.",
        enum_values=list(SEPARATORS),
    )
    define(
        flags.DEFINE_list,
        "labels",
        None,
        "Labels in the order of the outputs; by default those found in the "
        "training file, sorted.",
    )
    define(
        flags.DEFINE_enum,
        "long_sentences",
        "window",
        "Sentences of more than --max_seq_length pieces are seen in windows "
        "that overlap, or cut.",
        enum_values=list(LONG_SENTENCES),
    )
    define(
        flags.DEFINE_integer,
        "window_stride",
        None,
        "Pieces between the starts of two windows; by default half a window.",
    )


def _path(mode: str) -> str:
    path = getattr(FLAGS, f"{mode}_file")
    if not path:
        raise ValueError(f"--do_{mode} needs --{mode}_file")
    return common_flags.in_data_dir(path)


def _column_number(column: str | int | None) -> int:
    try:
        return -1 if column is None else int(column)
    except ValueError:
        raise ValueError(
            f"--label_column is {column!r}, expected the number of a column"
        ) from None


def _labels(
    stored: dict[str, Any], paths: dict[str, str], layout: ColumnLayout
) -> tuple[list[str], str | None]:
    """Given, or of the run folder, or of the training file."""
    given = check_labels(FLAGS.labels) if FLAGS.labels else None
    if stored.get("labels"):
        if given and given != stored["labels"]:
            raise ValueError(
                f"--output_dir={FLAGS.output_dir} holds a model with labels "
                f"{', '.join(stored['labels'])}, but --labels has "
                f"{', '.join(given)}"
            )
        return stored["labels"], stored.get("encoding")
    if "train" in paths:
        found, encoding = find_labels(paths["train"], "train_file", layout)
        return given or found, encoding
    if given:
        return given, None
    raise ValueError(
        f"the labels are not known: there is no {run_folder.RUN_FILE} in "
        f"--output_dir={FLAGS.output_dir}; give --labels in the order of the "
        "model's outputs"
    )


def create_task(config: BertConfig, model: ModelSettings) -> Any:
    """Flags -> a `TaggingTask`.

    What the command line leaves out is taken from the run folder, where
    training has stored it.

    Raises:
      ValueError: casing, vocabulary, labels or files do not fit.
    """
    stored = run_folder.read_run(FLAGS.output_dir)

    def value(name: str) -> Any:
        if not FLAGS[name].present and name in stored:
            return stored[name]
        return getattr(FLAGS, name)

    tokenizer = common_flags.create_tokenizer(model, config)
    featurizer = TaggingFeaturizer(
        tokenizer,
        model.max_seq_length,
        value("long_sentences"),
        value("window_stride"),
    )
    layout = ColumnLayout(
        value("word_column"),
        _column_number(value("label_column")),
        value("separator"),
    )
    paths = {
        mode: _path(mode)
        for mode in ("train", "eval", "predict")
        if getattr(FLAGS, f"do_{mode}")
    }
    labels, encoding = _labels(stored, paths, layout)

    from bert_tf.tasks.tagging import TaggingSource, TaggingTask

    source = TaggingSource(featurizer, paths, layout, encoding)
    return TaggingTask(labels, model.max_seq_length, source)
