"""Flags of `convert_checkpoint.py`, and the conversion they describe."""

from absl import flags

from bert_tf.common_flags import FLAGS, define, required
from bert_tf.conversion_request import FORMATS, HEADS, Conversion

_PATHS = {
    "input": "What to convert: a checkpoint's prefix or folder (official "
    "names, or Model Garden), a Hugging Face folder or its weights, a "
    "SavedModel, or a .zip or .tar.gz archive with one of these.",
    "output": "Folder to write to; with .ckpt in its name, the prefix of a "
    "checkpoint.",
    "bert_config_file": "bert_config.json of the model, by default the one "
    "beside --input.",
    "vocab_file": "vocab.txt of the model, by default the one beside --input.",
    "report": "File to write the report on every tensor to, as JSON.",
}
_SWITCHES = {
    "keep_optimizer_state": "Carry the optimizer's slots and the step over; "
    "for tf1 only.",
    "drop_unexpected": "Leave out weights that have no place in a BERT, "
    "instead of stopping.",
    "new_pooler": "Give a model without a pooler a new one of random values, "
    "to start a classifier from.",
    "overwrite": "Replace a checkpoint that is in the output's place.",
}


def define_flags() -> None:
    """Flags of one conversion."""
    for name, text in _PATHS.items():
        define(flags.DEFINE_string, name, None, text)
    for name, text in _SWITCHES.items():
        define(flags.DEFINE_bool, name, False, text)
    define(
        flags.DEFINE_enum,
        "output_format",
        None,
        "tf1: official names. model_garden: object-based TensorFlow 2. "
        "saved_model: an encoder as on TF-Hub and Kaggle, and in its folder "
        "preprocess the tokenizer for it.",
        enum_values=list(FORMATS),
    )
    define(
        flags.DEFINE_bool,
        "do_lower_case",
        True,
        "Casing of the tokenizer; not given, what lies beside --input counts.",
    )
    define(
        flags.DEFINE_enum,
        "head",
        None,
        "What the head is for, where the input leaves it open.",
        enum_values=list(HEADS),
    )


def conversion() -> Conversion:
    """Flags -> `Conversion`."""
    required("input")
    required("output")
    required("output_format")
    names = Conversion.__dataclass_fields__
    values = {name: getattr(FLAGS, name) for name in names}
    if not FLAGS["do_lower_case"].present:
        values["do_lower_case"] = None
    return Conversion(**values)
