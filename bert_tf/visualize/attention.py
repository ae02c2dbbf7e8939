"""What one input looks like inside the model: its pieces, its attention.

Shape letters: S sequence, N heads.
"""

import dataclasses
import logging
import os
from collections.abc import Sequence

import numpy as np

from bert_tf import packing
from bert_tf.inference.model_folder import ModelFolder

# Longest input where nothing else is asked for: more rows fit no screen.
DEFAULT_LENGTH = 128
# All attention values of a page: at 2.7 bytes each this makes 11 megabytes.
MAX_VALUES = 4_000_000

_logger = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True)
class Attention:
    """The attention of all layers over one input.

    Attributes:
      model: name of the model's folder.
      tokens: S pieces, special tokens and padding included.
      segment_ids: S ints, 1 on the second text and its `[SEP]`.
      input_mask: S ints, 0 on padding.
      layers: numbers of the layers shown, from 0.
      values: float32 [layers, N, S, S]; row i holds how much piece i attends
        to each piece, and sums to 1.
    """

    model: str
    tokens: list[str]
    segment_ids: list[int]
    input_mask: list[int]
    layers: list[int]
    values: np.ndarray


def encode(
    folder: ModelFolder,
    text_a: str,
    text_b: str | None = None,
    *,
    cut: bool = False,
    length: int | None = None,
) -> packing.PackedInputs:
    """Cuts one input into pieces.

    Args:
      folder: gives tokenizer and longest input.
      text_a: first text; `[MASK]` in it is taken as the special token.
      text_b: second text, or None.
      cut: shorten what is too long, with a warning; else it is an error.
      length: S, padding included; by default there is no padding.

    Raises:
      ValueError: the input is too long; says how long it is and may be.
    """
    tokenizer = folder.tokenizer
    ids_a = tokenizer.tokenize_to_ids(text_a)
    ids_b = None if text_b is None else tokenizer.tokenize_to_ids(text_b)
    pieces = len(ids_a) + len(ids_b or ()) + (3 if ids_b else 2)
    limit = folder.max_seq_length
    if not cut:
        limit = min(limit, DEFAULT_LENGTH)
    if pieces > limit and not cut:
        raise ValueError(
            f"the input has {pieces} pieces, expected at most {limit}: give "
            "shorter texts, or --max_seq_length, which cuts them"
        )
    if pieces > limit:
        _logger.warning(
            "the input has %d pieces and is cut to %d", pieces, limit
        )
    if length is not None and not min(pieces, limit) <= length <= limit:
        raise ValueError(
            f"--pad_to is {length}, expected {min(pieces, limit)} (the pieces "
            f"of the input) to {limit}"
        )
    return packing.pack(
        ids_a,
        ids_b,
        length or min(pieces, limit),
        tokenizer.cls_id,
        tokenizer.sep_id,
    )


def choose_layers(
    folder: ModelFolder, layers: Sequence[int] | None, length: int
) -> list[int]:
    """Checks the numbers of layers, and that a page can hold them.

    Args:
      folder: gives the architecture.
      layers: numbers from 0, negative ones from the end; None for all.
      length: S.

    Returns:
      The numbers from 0, sorted, each once.

    Raises:
      ValueError: no such layer, or too many values.
    """
    config = folder.config
    count = config.num_hidden_layers
    for layer in layers or ():
        if not -count <= layer < count:
            raise ValueError(
                f"there is no layer {layer}, expected 0 to {count - 1}"
            )
    chosen = sorted({x % count for x in (layers or range(count))})
    values = len(chosen) * config.num_attention_heads * length**2
    if values > MAX_VALUES:
        raise ValueError(
            f"{len(chosen)} layers x {config.num_attention_heads} heads x "
            f"{length} x {length} pieces are {values:,} values, expected at "
            f"most {MAX_VALUES:,}: give shorter texts, or fewer --layers"
        )
    return chosen


def compute_attention(
    folder: ModelFolder,
    inputs: packing.PackedInputs,
    layers: Sequence[int] | None = None,
) -> Attention:
    """Runs the model on one input.

    Args:
      folder: the model.
      inputs: of `encode`.
      layers: see `choose_layers`.

    Raises:
      ValueError: the checkpoint does not fit the model, no such layer, or
        too many values.
    """
    chosen = choose_layers(folder, layers, len(inputs.input_ids))

    from bert_tf.checkpoint import load_checkpoint
    from bert_tf.modeling import BertModel

    model = BertModel(folder.config)
    # Attention does not need the pooler, and some checkpoints have none.
    model.uses_pooler = False
    load_checkpoint(model, folder.checkpoint)
    outputs = model(
        {name: np.array([row]) for name, row in inputs._asdict().items()},
        return_attention_probs=True,
    )
    probs = outputs["attention_probs"]
    values = np.stack([np.float32(probs[layer][0]) for layer in chosen])
    return Attention(
        model=os.path.basename(os.path.abspath(folder.path)),
        tokens=folder.tokenizer.convert_ids_to_tokens(inputs.input_ids),
        segment_ids=list(inputs.segment_ids),
        input_mask=list(inputs.input_mask),
        layers=chosen,
        values=values,
    )
