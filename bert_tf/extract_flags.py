"""Flags of `extract_features.py`, and the settings they make."""

from absl import flags

from bert_tf.common_flags import FLAGS, define, required
from bert_tf.feature_files import FORMATS, NO_POOLING, ExtractionSettings
from bert_tf.pooling import STRATEGIES
from bert_tf.settings import ModelSettings


def define_flags() -> None:
    """Flags of `extract_features.py`, but for those of devices."""
    _define_input_flags()
    _define_output_flags()


def _define_input_flags() -> None:
    for name, text in (
        (
            "input_file",
            "Text, one example a line; ' ||| ' stands between two texts.",
        ),
        ("output_file", "File to write."),
        ("vocab_file", "vocab.txt of the model."),
        ("bert_config_file", "bert_config.json of the model."),
        (
            "init_checkpoint",
            "The model's checkpoint: prefix, one of its files, or a folder.",
        ),
    ):
        define(flags.DEFINE_string, name, None, text)
    define(
        flags.DEFINE_integer,
        "max_seq_length",
        128,
        "Pieces of a line, special tokens included; longer ones are cut. "
        "Shorter ones are not padded to it.",
    )
    define(
        flags.DEFINE_bool,
        "do_lower_case",
        True,
        "Lower-case the text and strip its accents: true for uncased models, "
        "false (--nodo_lower_case) for cased ones.",
    )
    define(flags.DEFINE_integer, "batch_size", 32, "Most lines in a batch.")
    define(
        flags.DEFINE_bool,
        "use_one_hot_embeddings",
        False,
        "Look words up by a matrix product: quicker on a TPU.",
    )


def _define_output_flags() -> None:
    define(
        flags.DEFINE_list,
        "layers",
        "-1,-2,-3,-4",
        "Layers to write, in this order: 0 is the first, -1 the last, and "
        "'embeddings' what goes into the first.",
    )
    define(
        flags.DEFINE_enum,
        "pooling",
        NO_POOLING,
        "none writes a vector for each piece; the others one for each line: "
        "that of [CLS], the mean or maximum over its pieces, or the pooler's "
        "output. The vectors of --layers are joined.",
        enum_values=[NO_POOLING, *STRATEGIES],
    )
    define(
        flags.DEFINE_bool,
        "normalize",
        False,
        "With --pooling: scale the vectors to length 1.",
    )
    define(
        flags.DEFINE_enum,
        "output_format",
        "json",
        "json writes one object a line, as the original; npy one float32 "
        "array (and OUTPUT.tokens.jsonl); tfrecord one tf.train.Example a "
        "line.",
        enum_values=list(FORMATS),
    )
    define(
        flags.DEFINE_bool,
        "print_similarity",
        False,
        "With --pooling: print the cosine similarities of the first lines.",
    )


def model_settings() -> ModelSettings:
    """Flags -> `ModelSettings`."""
    return ModelSettings(
        bert_config_file=required("bert_config_file"),
        vocab_file=required("vocab_file"),
        init_checkpoint=required("init_checkpoint"),
        do_lower_case=FLAGS.do_lower_case,
        max_seq_length=FLAGS.max_seq_length,
    )


def extraction_settings() -> ExtractionSettings:
    """Flags -> `ExtractionSettings`."""
    return ExtractionSettings(
        input_file=required("input_file"),
        output_file=required("output_file"),
        layers=FLAGS.layers,
        max_seq_length=FLAGS.max_seq_length,
        batch_size=FLAGS.batch_size,
        pooling=FLAGS.pooling,
        normalize=FLAGS.normalize,
        output_format=FLAGS.output_format,
        print_similarity=FLAGS.print_similarity,
    )
