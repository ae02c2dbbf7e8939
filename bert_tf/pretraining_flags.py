"""Flags of `create_pretraining_data.py`, and the settings they become."""

import dataclasses
import sys
from collections.abc import Sequence

from absl import flags

from bert_tf.common_flags import FLAGS, define, required
from bert_tf.pretraining_settings import (
    ENCODING_ERRORS,
    MASKINGS,
    MODES,
    PretrainingDataSettings,
)

_STRINGS = {
    "input_file": "Text files, one sentence a line, a blank line between "
    "documents; comma-separated patterns.",
    "output_file": "Record files, comma-separated; name@N stands for N shards.",
    "vocab_file": "Vocabulary, one WordPiece a line.",
    "word_segmenter": "What tells the words of a text without blanks, for "
    "--do_whole_word_mask: jieba, or module:function.",
    "work_dir": "Folder of the temporary files of streaming mode; by default "
    "a hidden one beside the output.",
}
_BOOLS = {
    "do_lower_case": "Lower-case and strip accents: True for uncased models.",
    "do_whole_word_mask": "Mask all pieces of a word together.",
    "dry_run": "Print statistics, write nothing.",
}
_INTEGERS = {
    "max_seq_length": "Length of an instance in tokens, padding included.",
    "max_predictions_per_seq": "Masked tokens in an instance, at most.",
    "random_seed": "Same seed, same records.",
    "dupe_factor": "Passes over the text, each with masks of its own.",
    "auto_threshold_mb": "--mode=auto is exact up to this size of the text, "
    "in units of 1,048,576 bytes.",
    "num_workers": "Processes in streaming mode; 0 takes one for each core. "
    "The records do not depend on it.",
}
_FLOATS = {
    "masked_lm_prob": "Share of tokens that is masked.",
    "short_seq_prob": "Chance of a document to be cut into instances of a "
    "random shorter length.",
}
_ENUMS = {
    "mode": (
        MODES,
        "exact: the original's records, text in memory; streaming: bounded "
        "memory, several processes; auto: by the size of the text.",
    ),
    "masking": (
        MASKINGS,
        "static: masks in the records; dynamic: records without masks, which "
        "run_pretraining.py draws anew in each epoch.",
    ),
    "compression": (("", "GZIP"), "Compression of the record files."),
    "encoding_errors": (
        ENCODING_ERRORS,
        "Bytes that are not UTF-8: error stops, ignore drops and counts them; "
        "by default exact mode ignores them, as the original does, and "
        "streaming mode stops.",
    ),
}


def define_flags() -> None:
    """Flags of `PretrainingDataSettings`, and `--runner`."""
    defaults = {
        field.name: field.default
        for field in dataclasses.fields(PretrainingDataSettings)
    }
    for kind, table in (
        (flags.DEFINE_string, _STRINGS),
        (flags.DEFINE_bool, _BOOLS),
        (flags.DEFINE_integer, _INTEGERS),
        (flags.DEFINE_float, _FLOATS),
    ):
        for name, text in table.items():
            default = defaults[name]
            if default is dataclasses.MISSING:
                default = None
            define(kind, name, default, text)
    for name, (values, text) in _ENUMS.items():
        define(
            flags.DEFINE_enum,
            name,
            defaults[name],
            text,
            enum_values=list(values),
        )
    define(
        flags.DEFINE_string,
        "runner",
        None,
        "Make the records with Apache Beam on this runner, such as "
        "DirectRunner or DataflowRunner; its options follow after --.",
    )


def pretraining_data_settings() -> PretrainingDataSettings:
    """The settings that the flags describe.

    Raises:
      flags.Error: a required flag is not given.
      ValueError: a flag's value cannot be.
    """
    for name in ("input_file", "vocab_file"):
        required(name)
    if not FLAGS.dry_run:
        required("output_file")
    values = {
        field.name: getattr(FLAGS, field.name)
        for field in dataclasses.fields(PretrainingDataSettings)
    }
    values["output_file"] = values["output_file"] or ""
    return PretrainingDataSettings(**values)


def pipeline_options(argv: Sequence[str]) -> list[str]:
    """What the command line holds after `--`, for Beam.

    Args:
      argv: what absl leaves over, the program first.

    Raises:
      flags.Error: an argument is left over that does not stand after `--`,
        as the `False` of `--do_lower_case False`, or there is no `--runner`.
    """
    rest = list(argv[1:])
    after = []
    if "--" in sys.argv:
        after = sys.argv[sys.argv.index("--") + 1 :]
    stray = rest[: len(rest) - len(after)] if after else rest
    if stray:
        raise flags.Error(
            f"unexpected argument {stray[0]!r}: a flag's value is joined by "
            "=, as in --do_lower_case=false (or --nodo_lower_case)"
        )
    if after and not FLAGS.runner:
        raise flags.Error(
            f"unexpected argument {after[0]!r} after --: options of a pipeline "
            "need --runner"
        )
    return after
