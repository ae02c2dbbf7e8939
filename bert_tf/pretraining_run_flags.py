"""Flags of `run_pretraining.py`, and the task they describe."""

import logging
from typing import Any

from absl import flags

from bert_tf import common_flags, files, run_folder
from bert_tf.common_flags import FLAGS, define, required
from bert_tf.config import BertConfig
from bert_tf.records import shard_paths
from bert_tf.settings import ModelSettings, RunSettings
from bert_tf.tokenization import check_casing
from bert_tf.tokenization.vocab import check_vocab_size, load_vocab

_LISTED_FILES = 20

_logger = logging.getLogger("bert_tf")


def define_flags() -> None:
    """Flags of data, length of training and evaluation."""
    _define_data_flags()
    _define_step_flags()
    _define_eval_flags()


def _define_data_flags() -> None:
    define(
        flags.DEFINE_string,
        "input_file",
        None,
        "Record files of create_pretraining_data.py: comma-separated patterns "
        "or name@N for N shards.",
    )
    define(
        flags.DEFINE_integer,
        "max_predictions_per_seq",
        20,
        "Masked tokens of an example; must be that of the records.",
    )
    define(
        flags.DEFINE_float,
        "masked_lm_prob",
        0.15,
        "Share of tokens to predict, where the records have no masks yet.",
    )
    define(
        flags.DEFINE_integer,
        "shuffle_buffer",
        20_000,
        "Records held in memory for shuffling.",
    )
    define(
        flags.DEFINE_bool,
        "use_next_sentence",
        True,
        "Whether to train next-sentence prediction beside masked LM.",
    )
    define(
        flags.DEFINE_enum,
        "position_init",
        "random",
        "Start values of the position embeddings, without --init_checkpoint: "
        "random as in the original, or sinusoidal, with which a small model "
        "sees neighbouring words much sooner.",
        enum_values=["random", "sinusoidal"],
    )


def _define_step_flags() -> None:
    define(
        flags.DEFINE_integer,
        "num_train_steps",
        100_000,
        "Step at which training ends, steps of earlier runs in --output_dir "
        "counted; the learning rate reaches 0 there.",
    )
    define(
        flags.DEFINE_integer,
        "num_warmup_steps",
        10_000,
        "Steps with a rising learning rate.",
    )
    define(
        flags.DEFINE_integer,
        "stop_at_step",
        None,
        "Ends this run at an earlier step, with the learning rate of a run to "
        "--num_train_steps; for a later phase on other data.",
    )


def _define_eval_flags() -> None:
    define(
        flags.DEFINE_string,
        "eval_input_file",
        None,
        "Record files for --do_eval; by default those of --input_file.",
    )
    define(
        flags.DEFINE_integer,
        "max_eval_steps",
        100,
        "Most batches to evaluate on.",
    )
    define(
        flags.DEFINE_enum,
        "eval_mode",
        "once",
        "once counts each example once, up to --max_eval_steps batches; "
        "repeat is the original's way: exactly --max_eval_steps full batches, "
        "starting over at the end of the data.",
        enum_values=["once", "repeat"],
    )


def model_settings() -> ModelSettings:
    """Flags -> `ModelSettings`; a vocabulary is kept with the model if given.

    Training reads no text, so that `--vocab_file` may be left out, as in the
    original.
    """
    folder = required("output_dir")
    has_vocab = FLAGS.vocab_file or run_folder.existing(
        folder, run_folder.VOCAB_FILE
    )
    return common_flags.model_settings(reads_text=bool(has_vocab))


def _stored(name: str) -> Any:
    """The flag if given, else what an earlier run in the folder used."""
    if FLAGS[name].present:
        return getattr(FLAGS, name)
    return run_folder.read_run(FLAGS.output_dir).get(name, getattr(FLAGS, name))


def _positive(name: str, value: Any) -> Any:
    if value <= 0:
        raise ValueError(f"--{name} is {value}, must be positive")
    return value


def find_files(flag: str) -> list[str]:
    """Expands a flag's patterns and says what was found.

    Raises:
      ValueError: a pattern matches nothing, or the host of a remote TPU could
        not read it; names it.
    """
    patterns = [
        path
        for item in required(flag).split(",")
        for path in shard_paths(item.strip())
    ]
    devices = common_flags.device_settings()
    for pattern in patterns:
        devices.check_paths({flag: pattern})
    paths = files.expand_patterns(",".join(patterns), flag)
    _logger.info("--%s=%s: %d file(s)", flag, getattr(FLAGS, flag), len(paths))
    for path in paths[:_LISTED_FILES]:
        _logger.info("  %s", path)
    if len(paths) > _LISTED_FILES:
        _logger.info("  and %d more", len(paths) - _LISTED_FILES)
    return paths


def _check_vocabulary(config: BertConfig, model: ModelSettings) -> None:
    if model.vocab_file:
        vocab = load_vocab(model.vocab_file)
        check_casing(model.do_lower_case, model.init_checkpoint, vocab)
        check_vocab_size(vocab, config)


def create_task(
    config: BertConfig, model: ModelSettings, run: RunSettings
) -> Any:
    """Flags -> a `PretrainingTask` whose files have been found.

    Raises:
      ValueError: no file matches, or a number is out of range.
    """
    predictions = _stored("max_predictions_per_seq")
    _positive("max_predictions_per_seq", predictions)
    _positive("max_eval_steps", FLAGS.max_eval_steps)
    _positive("shuffle_buffer", FLAGS.shuffle_buffer)
    if not 0 < FLAGS.masked_lm_prob <= 1:
        raise ValueError(
            f"--masked_lm_prob is {FLAGS.masked_lm_prob}, expected above 0, "
            "at most 1"
        )
    if FLAGS.position_init != "random" and model.init_checkpoint:
        raise ValueError(
            f"--position_init is {FLAGS.position_init!r}, for weights that "
            "start afresh; but --init_checkpoint is "
            f"{model.init_checkpoint}, which has its own"
        )
    _check_vocabulary(config, model)
    train_paths = eval_paths = []
    if run.do_train or not FLAGS.eval_input_file:
        train_paths = eval_paths = find_files("input_file")
    if run.do_eval and FLAGS.eval_input_file:
        eval_paths = find_files("eval_input_file")

    from bert_tf.tasks.pretraining import PretrainingSource, PretrainingTask

    return PretrainingTask(
        model.max_seq_length,
        predictions,
        _stored("use_next_sentence"),
        PretrainingSource(
            train_paths,
            eval_paths,
            FLAGS.max_eval_steps * run.eval_batch_size,
            FLAGS.eval_mode == "repeat",
            FLAGS.shuffle_buffer,
            FLAGS.masked_lm_prob,
            run.random_seed,
        ),
        FLAGS.position_init,
    )
