"""absl flags shared by the scripts, and what they become.

Only this module and those named `*_flags.py` see flags. The names, defaults
and meanings of the original's flags are kept. Each `define_*` may be called
more than once in a process.
"""

import os
import sys
import traceback
from collections.abc import Callable, Sequence
from typing import Any

from absl import app, flags, logging

from bert_tf import engine_flags, files, run_folder
from bert_tf.config import BertConfig
from bert_tf.environment import prepare_environment
from bert_tf.settings import (
    OPTIMIZERS,
    STRATEGIES,
    DeviceSettings,
    ModelSettings,
    RunSettings,
)
from bert_tf.tokenization import FullTokenizer, check_casing
from bert_tf.tokenization.vocab import check_vocab_size

FLAGS = flags.FLAGS


def define(
    define_fn, name: str, default: Any, help_text: str, **kwargs
) -> None:
    """Defines a flag unless the process has it already."""
    if name not in FLAGS:
        define_fn(name, default, help=help_text, **kwargs)
    # --help lists the flags of the script alone, and takes this for another
    # module's.
    FLAGS.register_key_flag_for_module(sys.argv[0], FLAGS[name])


def define_model_flags(max_seq_length: int = 128) -> None:
    """Flags of `ModelSettings`."""
    define(
        flags.DEFINE_string,
        "bert_config_file",
        None,
        "bert_config.json of the model; by default the one in --output_dir, "
        "else the one beside --init_checkpoint.",
    )
    define(
        flags.DEFINE_string,
        "vocab_file",
        None,
        "vocab.txt of the model; by default the one in --output_dir, else the "
        "one beside --init_checkpoint.",
    )
    define(
        flags.DEFINE_string,
        "init_checkpoint",
        None,
        "Checkpoint to start from: prefix, one of its files, or a folder.",
    )
    define(
        flags.DEFINE_bool,
        "do_lower_case",
        True,
        "Lower-case the text and strip its accents: true for uncased models, "
        "false (--nodo_lower_case) for cased ones.",
    )
    define(
        flags.DEFINE_integer,
        "max_seq_length",
        max_seq_length,
        "Pieces of an example, special tokens included; longer ones are cut.",
    )


def define_run_flags(modes: Sequence[str] = ("train", "eval", "predict")):
    """Flags of `RunSettings` that all scripts share."""
    define(
        flags.DEFINE_string,
        "output_dir",
        None,
        "Folder for checkpoints and results.",
    )
    help_of = {
        "train": "Whether to train.",
        "eval": "Whether to evaluate on the dev set.",
        "predict": "Whether to predict the test set.",
    }
    for mode in modes:
        define(flags.DEFINE_bool, f"do_{mode}", False, help_of[mode])
        define(
            flags.DEFINE_integer,
            f"{mode}_batch_size",
            32 if mode == "train" else 8,
            f"Global batch size of --do_{mode}.",
        )
    if "train" in modes:
        _define_training_flags()
        engine_flags.define_engine_flags(define)
    if "train" in modes and "eval" in modes:
        engine_flags.define_watch_flags(define)


def _define_training_flags() -> None:
    define(
        flags.DEFINE_float,
        "learning_rate",
        5e-5,
        "Peak learning rate of Adam; 0 at step 0 when there is a warm-up.",
    )
    define(
        flags.DEFINE_enum,
        "optimizer",
        "adam",
        "adam is the original's, without bias correction; lamb is for very "
        "large batches.",
        enum_values=list(OPTIMIZERS),
    )
    define(
        flags.DEFINE_bool,
        "adam_bias_correction",
        False,
        "Correct Adam's moments for their start at 0, which the original does "
        "not: its first steps are several times as large as the rate says.",
    )
    define(
        flags.DEFINE_integer,
        "save_checkpoints_steps",
        1000,
        "Steps between two checkpoints.",
    )
    define(
        flags.DEFINE_integer,
        "keep_checkpoint_max",
        5,
        "Checkpoints to keep; 0 keeps all.",
    )
    define(
        flags.DEFINE_integer,
        "iterations_per_loop",
        1000,
        "Most steps in one call of the compiled loop.",
    )
    define(
        flags.DEFINE_integer,
        "log_every_steps",
        100,
        "Steps between two log lines.",
    )
    define(
        flags.DEFINE_integer,
        "random_seed",
        12345,
        "Seed of new weights, dropout and the order of the data.",
    )


def define_epoch_flags() -> None:
    """Flags of a fine-tuning run's length."""
    define(
        flags.DEFINE_float,
        "num_train_epochs",
        3.0,
        "Passes over the training data; may be a fraction.",
    )
    define(
        flags.DEFINE_float,
        "warmup_proportion",
        0.1,
        "Share of the steps with a rising learning rate.",
    )


def define_device_flags() -> None:
    """Flags of `DeviceSettings`."""
    define(flags.DEFINE_bool, "use_tpu", False, "Whether to use a TPU.")
    define(
        flags.DEFINE_string,
        "tpu_name",
        None,
        "Name or grpc:// address of the TPU; none on a TPU VM.",
    )
    define(flags.DEFINE_string, "tpu_zone", None, "Zone of the TPU.")
    define(flags.DEFINE_string, "gcp_project", None, "Project of the TPU.")
    define(flags.DEFINE_string, "master", None, "Address of a TPU worker.")
    define(
        flags.DEFINE_integer,
        "num_tpu_cores",
        8,
        "Kept for old command lines; the TPU tells its number of cores.",
    )
    define(
        flags.DEFINE_enum,
        "distribution_strategy",
        "auto",
        "How to use the devices; auto takes all GPUs, else the CPU.",
        enum_values=list(STRATEGIES),
    )
    define(
        flags.DEFINE_integer,
        "num_cpu_devices",
        1,
        "Logical CPU devices to split the CPU into, to try strategies.",
    )


def start(argv: Sequence[str]) -> None:
    """Checks that nothing of the command line is left over; starts logging.

    Call it before TensorFlow is imported: it prepares the environment too.

    Raises:
      flags.Error: a stray argument, as the `False` of `--do_train False`.
    """
    if len(argv) > 1:
        raise flags.Error(
            f"unexpected argument {argv[1]!r}: a flag's value is joined by "
            "=, as in --do_lower_case=false (or --nodo_lower_case)"
        )
    prepare_environment()
    logging.set_verbosity(logging.INFO)


def required(name: str) -> Any:
    """The value of a flag that must be given."""
    value = getattr(FLAGS, name)
    if value is None:
        raise flags.Error(f"Flag --{name} must have a value other than None.")
    return value


def in_data_dir(path: str) -> str:
    """The path of a file flag: in --data_dir, unless it is a whole one."""
    whole = not FLAGS.data_dir or os.path.isabs(path) or files.is_remote(path)
    return path if whole else run_folder.path_in(FLAGS.data_dir, path)


def _checkpoint_folder() -> str | None:
    """The folder that `--init_checkpoint` names or lies in."""
    path = FLAGS.init_checkpoint
    if not path or files.is_dir(path):
        return path or None
    return os.path.dirname(path) or "."


def _from_folder(flag: str, name: str) -> str:
    """The flag's path, or that file of the run or the checkpoint's folder."""
    value = getattr(FLAGS, flag)
    if value:
        return value
    found = run_folder.existing(required("output_dir"), name)
    beside = _checkpoint_folder()
    if found is None and beside is not None:
        found = run_folder.existing(beside, name)
    if found is None:
        also = f" or beside --init_checkpoint={FLAGS.init_checkpoint}"
        raise flags.Error(
            f"--{flag} is not given, and there is no {name} in "
            f"--output_dir={FLAGS.output_dir}{also if beside else ''}"
        )
    logging.info("--%s is not given, taking %s", flag, found)
    return found


def model_settings(reads_text: bool = True) -> ModelSettings:
    """Flags -> `ModelSettings`.

    What the command line leaves out is taken from the run folder, where an
    earlier run has stored it. Config and vocabulary, and the casing with the
    vocabulary, are else those of the folder of `--init_checkpoint`.
    """
    config = _from_folder("bert_config_file", run_folder.CONFIG_FILE)
    vocab = ""
    if reads_text:
        vocab = _from_folder("vocab_file", run_folder.VOCAB_FILE)
    stored = run_folder.read_run(FLAGS.output_dir)
    beside = _checkpoint_folder()
    if beside and vocab == run_folder.path_in(beside, run_folder.VOCAB_FILE):
        casing = run_folder.read_run(beside).get("do_lower_case")
        if casing is not None:
            stored.setdefault("do_lower_case", casing)

    def value(name: str) -> Any:
        if not FLAGS[name].present and name in stored:
            return stored[name]
        return getattr(FLAGS, name)

    return ModelSettings(
        bert_config_file=config,
        vocab_file=vocab,
        init_checkpoint=FLAGS.init_checkpoint or None,
        do_lower_case=value("do_lower_case") if reads_text else True,
        max_seq_length=value("max_seq_length"),
    )


def create_tokenizer(model: ModelSettings, config: BertConfig) -> FullTokenizer:
    """Makes the tokenizer of a model.

    Raises:
      ValueError: the casing does not fit the checkpoint, or the vocabulary
        not the config.
    """
    check_casing(model.do_lower_case, model.init_checkpoint)
    tokenizer = FullTokenizer(model.vocab_file, model.do_lower_case)
    check_casing(model.do_lower_case, model.init_checkpoint, tokenizer)
    check_vocab_size(tokenizer.vocab, config)
    return tokenizer


def _settings(cls, left_out: Sequence[str] = ()):
    """Fills a settings class from the flags that carry its fields' names."""
    names = [
        name
        for name in cls.__dataclass_fields__
        if name in FLAGS and name not in left_out
    ]
    return cls(**{name: getattr(FLAGS, name) for name in names})


def run_settings(counts_steps: bool = False) -> RunSettings:
    """Flags -> `RunSettings`.

    Args:
      counts_steps: the script's length is given in steps, not in epochs.
        Another script in the process may have defined the flags for either.
    """
    required("output_dir")
    steps = ("num_train_steps", "num_warmup_steps", "stop_at_step")
    epochs = ("num_train_epochs", "warmup_proportion")
    return _settings(RunSettings, epochs if counts_steps else steps)


def device_settings() -> DeviceSettings:
    """Flags -> `DeviceSettings`."""
    return _settings(DeviceSettings)


def command_line() -> dict[str, Any]:
    """The flags that were given, for the record."""
    return {
        name: FLAGS[name].value for name in sorted(FLAGS) if FLAGS[name].present
    }


def run_main(main: Callable[[Sequence[str]], Any]) -> None:
    """Runs a script's `main` under absl.

    An error that this library raised about the user's input is printed
    without a traceback, exit status 1; any other keeps its traceback.
    """

    def guarded(argv):
        try:
            main(argv)
        except (ValueError, flags.Error) as error:
            if not _is_ours(error):
                raise
            sys.exit(f"error: {error}")

    app.run(guarded)


def _is_ours(error: BaseException) -> bool:
    if isinstance(error, flags.Error):
        return True
    frames = traceback.extract_tb(error.__traceback__)
    return os.path.dirname(__file__) in os.path.dirname(frames[-1].filename)
