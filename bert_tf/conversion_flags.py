"""Flags of `convert_checkpoint.py`, and the conversion they describe."""

from absl import flags

from bert_tf.common_flags import FLAGS, define, required
from bert_tf.conversion_request import FORMATS, HEADS, Conversion


def define_flags() -> None:
    """Flags of one conversion."""
    define(
        flags.DEFINE_string,
        "input",
        None,
        "What to convert: a checkpoint's prefix or folder (official names, or "
        "Model Garden), a Hugging Face folder or its weights, a SavedModel, "
        "or a .zip or .tar.gz archive with one of these.",
    )
    define(
        flags.DEFINE_string,
        "output",
        None,
        "Folder to write to; with .ckpt in its name, the prefix of a "
        "checkpoint.",
    )
    define(
        flags.DEFINE_enum,
        "output_format",
        None,
        "tf1: official names. model_garden: object-based TensorFlow 2. "
        "saved_model: an encoder as on TF-Hub and Kaggle.",
        enum_values=list(FORMATS),
    )
    define(
        flags.DEFINE_string,
        "bert_config_file",
        None,
        "bert_config.json of the model, by default the one beside --input.",
    )
    define(
        flags.DEFINE_string,
        "vocab_file",
        None,
        "vocab.txt of the model, by default the one beside --input.",
    )
    define(
        flags.DEFINE_bool,
        "do_lower_case",
        None,
        "Casing of the tokenizer, by default what lies beside --input says.",
    )
    define(
        flags.DEFINE_enum,
        "head",
        None,
        "What the head is for, where the input leaves it open.",
        enum_values=list(HEADS),
    )
    define(
        flags.DEFINE_bool,
        "keep_optimizer_state",
        False,
        "Carry the optimizer's slots and the step over; for tf1 only.",
    )
    define(
        flags.DEFINE_bool,
        "drop_unexpected",
        False,
        "Leave out weights that have no place in a BERT, instead of stopping.",
    )
    define(
        flags.DEFINE_bool,
        "overwrite",
        False,
        "Replace a checkpoint that is in the output's place.",
    )
    define(
        flags.DEFINE_string,
        "report",
        None,
        "File to write the report on every tensor to, as JSON.",
    )


def conversion() -> Conversion:
    """Flags -> `Conversion`."""
    required("input")
    required("output")
    required("output_format")
    names = Conversion.__dataclass_fields__
    return Conversion(**{name: getattr(FLAGS, name) for name in names})
