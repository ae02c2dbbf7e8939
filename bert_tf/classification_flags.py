"""Flags of `run_classifier.py`, and the task they describe."""

from typing import Any

from absl import flags

from bert_tf import run_folder
from bert_tf.common_flags import FLAGS, define, in_data_dir, required
from bert_tf.config import BertConfig
from bert_tf.settings import ModelSettings
from bert_tf.tasks import labels as label_lists
from bert_tf.tasks.classification_data import find_labels
from bert_tf.tasks.classification_thresholds import (
    DEFAULT,
    TUNE,
    parse_threshold,
)
from bert_tf.tasks.data_sets import DataSet, custom_data_set
from bert_tf.tasks.known_data_sets import find_data_set
from bert_tf.tokenization import FullTokenizer, check_casing
from bert_tf.tokenization.vocab import check_vocab_size

CUSTOM = "custom"


def define_flags() -> None:
    """Flags of data for `run_classifier.py`."""
    define(
        flags.DEFINE_string,
        "data_dir",
        None,
        "Folder of the task's files (train.tsv, dev.tsv, ...).",
    )
    define(
        flags.DEFINE_string,
        "task_name",
        None,
        "cola, mnli, mrpc, xnli and the other tasks of GLUE; custom for "
        "files of your own, with the --*_file and --*_column flags.",
    )
    _define_custom_flags()
    define(
        flags.DEFINE_string,
        "train_language",
        "zh",
        "xnli: language of the training file.",
    )
    define(
        flags.DEFINE_list,
        "eval_languages",
        None,
        "xnli: languages to evaluate and predict, each apart, or all that the "
        "files hold; by default the language of the training.",
    )
    define(
        flags.DEFINE_enum,
        "on_bad_row",
        "error",
        "Rows that cannot be read stop the run, or are skipped and counted.",
        enum_values=["error", "skip"],
    )
    define(
        flags.DEFINE_bool,
        "glue_submission",
        False,
        "Also write the files that the GLUE site takes.",
    )


def _define_custom_flags() -> None:
    for mode in ("train", "eval", "predict"):
        define(
            flags.DEFINE_string,
            f"{mode}_file",
            None,
            f"custom: file for --do_{mode}, TSV, CSV or JSON lines; relative "
            "to --data_dir.",
        )
    for name, text in (
        ("text_column", "the text"),
        ("text_b_column", "the second text of a pair"),
        ("label_column", "the label"),
        ("id_column", "an identifier to write beside predictions"),
    ):
        define(
            flags.DEFINE_string,
            name,
            None,
            f"custom: column of {text}, by header name or number from 0.",
        )
    define(
        flags.DEFINE_bool,
        "header",
        None,
        "custom: whether the first row names the columns; by default it does "
        "if any column is given by name.",
    )
    define(
        flags.DEFINE_string,
        "delimiter",
        None,
        "custom: separator of columns; by default a tab, or a comma in .csv.",
    )
    define(
        flags.DEFINE_list,
        "labels",
        None,
        "custom: labels in the order of the output columns; by default those "
        "found in the training file, sorted.",
    )
    _define_label_flags()


def _define_label_flags() -> None:
    define(
        flags.DEFINE_enum,
        "label_kind",
        "classification",
        "custom: one label, a number, or several labels.",
        enum_values=["classification", "regression", "multi_label"],
    )
    define(
        flags.DEFINE_string,
        "label_separator",
        ",",
        "custom: between the labels of one cell, for multi_label.",
    )
    define(
        flags.DEFINE_bool,
        "labels_are_numbers",
        False,
        "custom: label cells hold positions in --labels, from 0.",
    )
    define(
        flags.DEFINE_string,
        "threshold",
        str(DEFAULT),
        "multi_label: probability from which a label counts. tune: --do_eval "
        "finds the best one of each label, scores with both, and stores them "
        "with the model, where later predictions take them if this flag is "
        "not given.",
    )


def _path(flag: str) -> str | None:
    path = getattr(FLAGS, flag)
    return in_data_dir(path) if path else path


def _is_custom() -> bool:
    return required("task_name").lower() == CUSTOM


def _data_dir() -> str | None:
    """Where the data set's files are; the paths of custom ones are whole."""
    return None if _is_custom() else FLAGS.data_dir


def data_set() -> DataSet:
    """The data set that --task_name and the other flags describe.

    Raises:
      ValueError: no such task, or a custom one without columns or files.
    """
    if not _is_custom():
        found = find_data_set(FLAGS.task_name)
        required("data_dir")
        return found
    for mode in ("train", "eval", "predict"):
        if getattr(FLAGS, f"do_{mode}") and not getattr(FLAGS, f"{mode}_file"):
            raise ValueError(
                f"--task_name=custom with --do_{mode} needs --{mode}_file"
            )
    return custom_data_set(
        text_a=required("text_column"),
        text_b=FLAGS.text_b_column,
        label=FLAGS.label_column,
        id=FLAGS.id_column,
        train_file=_path("train_file"),
        dev_file=_path("eval_file"),
        test_file=_path("predict_file"),
        has_header=FLAGS.header,
        delimiter=FLAGS.delimiter,
        kind=FLAGS.label_kind,
        label_separator=FLAGS.label_separator,
        labels_are_numbers=FLAGS.labels_are_numbers,
    )


def _labels(source: DataSet) -> list[str] | None:
    """Given, or of the data set, or of the run folder, or of the file."""
    if source.kind == "regression":
        return None
    stored = run_folder.read_run(FLAGS.output_dir).get("labels")
    chosen = label_lists.choose_labels(source, FLAGS.labels, stored)
    if chosen is not None:
        return chosen
    if "train" not in source.splits:
        raise ValueError(
            "the labels are not known: give --labels in the order of the "
            "model's outputs, or --train_file to find them in"
        )
    return find_labels(
        source, _data_dir(), FLAGS.train_language, FLAGS.on_bad_row
    )


def _threshold(source: DataSet) -> float | str | None:
    """The flag's value; None if it is not given.

    Raises:
      ValueError: there is no use for it.
    """
    if not FLAGS["threshold"].present:
        return None
    if source.kind != "multi_label":
        raise ValueError("--threshold is for --label_kind=multi_label")
    value = parse_threshold(FLAGS.threshold)
    if value == TUNE and not FLAGS.do_eval:
        raise ValueError(
            "--threshold=tune needs --do_eval; to predict with thresholds "
            "that an earlier evaluation has stored, leave --threshold out"
        )
    return value


def _check_use(source: DataSet) -> None:
    """Refuses flags that the data set has no use for."""
    splits = source.splits.values()
    if FLAGS.eval_languages and not any(
        split.layout.language is not None for split in splits
    ):
        raise ValueError(
            f"--eval_languages: the files of {source.name} have no column of "
            "languages; those of xnli have one"
        )
    if FLAGS.glue_submission and not any(split.submission for split in splits):
        raise ValueError(
            f"--glue_submission: nothing of {source.name} is submitted to GLUE"
        )


def create_task(config: BertConfig, model: ModelSettings) -> Any:
    """Flags -> a `ClassificationTask` whose inputs have been checked.

    Raises:
      ValueError: casing, vocabulary, labels, files or options do not fit.
    """
    source = data_set()
    _check_use(source)
    threshold = _threshold(source)
    check_casing(model.do_lower_case, model.init_checkpoint)
    tokenizer = FullTokenizer(model.vocab_file, model.do_lower_case)
    check_casing(model.do_lower_case, model.init_checkpoint, tokenizer)
    check_vocab_size(tokenizer.vocab, config)
    labels = _labels(source)

    from bert_tf.tasks.classification import (
        ClassificationSource,
        ClassificationTask,
    )

    return ClassificationTask(
        labels,
        model.max_seq_length,
        source.kind,
        ClassificationSource(
            source,
            tokenizer,
            _data_dir(),
            FLAGS.train_language,
            tuple(dict.fromkeys(FLAGS.eval_languages or ())),
            FLAGS.on_bad_row,
            FLAGS.glue_submission,
        ),
        threshold,
    )
