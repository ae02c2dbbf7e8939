"""Flags of `run_squad.py`, and the task they describe."""

from typing import Any

from absl import flags, logging

from bert_tf import run_folder
from bert_tf.common_flags import FLAGS, create_tokenizer, define, required
from bert_tf.config import BertConfig
from bert_tf.settings import ModelSettings
from bert_tf.tasks.squad_settings import COUNTS, STORED, SquadSettings


def define_flags() -> None:
    """Flags of data and answers for `run_squad.py`."""
    for name, text in (
        ("train_file", "SQuAD JSON for --do_train, such as train-v1.1.json."),
        ("predict_file", "SQuAD JSON for --do_predict; answers are ignored."),
        (
            "eval_file",
            "SQuAD JSON with answers for --do_eval; by default --predict_file.",
        ),
    ):
        define(flags.DEFINE_string, name, None, text)
    for name, default, text in (
        (
            "doc_stride",
            128,
            "Distance between the starts of two windows of a long context, "
            "in pieces.",
        ),
        (
            "max_query_length",
            64,
            "Pieces of a question; longer ones are cut.",
        ),
        (
            "n_best_size",
            20,
            "Starts and ends tried in each window, and entries of an n-best "
            "list.",
        ),
        (
            "max_answer_length",
            30,
            "Longest answer, in pieces.",
        ),
    ):
        define(flags.DEFINE_integer, name, default, text)
    _define_switches()
    define(
        flags.DEFINE_float,
        "null_score_diff_threshold",
        0.0,
        "There is no answer if its score exceeds that of the best span by "
        "more than this. By default the best one that --do_eval has found "
        "for the checkpoint, 0 without it.",
    )
    define(
        flags.DEFINE_enum,
        "count_steps_by",
        "questions",
        "What an epoch counts: questions, as the original does, or their "
        "windows, of which there are more.",
        enum_values=list(COUNTS),
    )


def _define_switches() -> None:
    for name, text in (
        (
            "version_2_with_negative",
            "Whether some questions have no answer, as in SQuAD 2.0.",
        ),
        (
            "verbose_logging",
            "Log every predicted span that cannot be mapped back exactly.",
        ),
        (
            "split_cjk_words",
            "Make each Chinese, Japanese or Korean ideograph of a context a "
            "word, so that an answer in a text without blanks resolves to "
            "its characters; scores split answers likewise.",
        ),
        (
            "split_unicode_blanks",
            "Split contexts at no-break and all other Unicode blanks, as "
            "answers are; without it such answers are never found.",
        ),
    ):
        define(flags.DEFINE_bool, name, False, text)


def squad_settings(model: ModelSettings) -> SquadSettings:
    """Flags -> `SquadSettings`, checked.

    What the command line leaves out is taken from the run folder, where
    training has stored it.

    Raises:
      ValueError: a file is missing or not named, or lengths leave no room.
    """
    stored = run_folder.read_run(required("output_dir"))
    values = {
        name: getattr(FLAGS, name)
        for name in SquadSettings.__dataclass_fields__
        if name in FLAGS
    }
    for name in STORED:
        if FLAGS[name].present or name not in stored:
            continue
        if stored[name] != values[name]:
            logging.info(
                "--%s is %s, as in the run of %s",
                name,
                stored[name],
                FLAGS.output_dir,
            )
        values[name] = stored[name]
    if not FLAGS["null_score_diff_threshold"].present:
        values["null_score_diff_threshold"] = None
    values["eval_file"] = FLAGS.eval_file or FLAGS.predict_file
    values["max_seq_length"] = model.max_seq_length
    settings = SquadSettings(**values)
    for mode in ("train", "eval", "predict"):
        if getattr(FLAGS, f"do_{mode}"):
            settings.file_of(mode)
    return settings


def create_task(
    config: BertConfig, model: ModelSettings, settings: SquadSettings
) -> Any:
    """Flags -> a `SquadTask`.

    Raises:
      ValueError: casing or vocabulary do not fit.
    """
    tokenizer = create_tokenizer(model, config)

    from bert_tf.tasks.squad import SquadTask

    return SquadTask(settings, tokenizer)
