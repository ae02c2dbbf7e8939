"""What a conversion is asked to do."""

import dataclasses

from bert_tf.checkpoint.architecture import HEADS

FORMATS = ("tf1", "huggingface", "model_garden", "saved_model")


@dataclasses.dataclass(frozen=True)
class Conversion:
    """What to convert, and what the input does not say by itself.

    Attributes:
      input: anything that `opening.open_checkpoint` takes, or a .zip or
        .tar.gz archive of it.
      output: a folder; for `tf1` and `model_garden` also a prefix, which has
        `.ckpt` in its name.
      output_format: one of `FORMATS`.
      bert_config_file: instead of the config beside the weights.
      vocab_file: instead of the vocabulary beside the weights.
      do_lower_case: instead of what lies beside the weights.
      head: key of `architecture.HEADS`, where the input does not say what
        its classifier is for.
      keep_optimizer_state: carry slots and step over; only for `tf1`.
      drop_unexpected: leave out weights that no BERT has, instead of stopping.
      new_pooler: give a model without a pooler one of random values, as a
        classifier needs that starts from a masked language model.
      overwrite: replace what is in the output's place.
    """

    input: str
    output: str
    output_format: str
    bert_config_file: str | None = None
    vocab_file: str | None = None
    do_lower_case: bool | None = None
    head: str | None = None
    keep_optimizer_state: bool = False
    drop_unexpected: bool = False
    new_pooler: bool = False
    overwrite: bool = False

    def __post_init__(self):
        if self.output_format not in FORMATS:
            raise ValueError(
                f"--output_format is {self.output_format!r}, expected one of "
                f"{', '.join(FORMATS)}"
            )
        if self.head is not None and self.head not in HEADS:
            raise ValueError(
                f"--head is {self.head!r}, expected one of {', '.join(HEADS)}"
            )
        if self.keep_optimizer_state and self.output_format != "tf1":
            raise ValueError(
                "--keep_optimizer_state needs --output_format=tf1; "
                f"{self.output_format} has no place for it"
            )
