"""A context with choices -> one sequence for each choice.

Shape letters: C choices, S sequence.
"""

import dataclasses
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from bert_tf import packing
from bert_tf.records import Feature, FeatureSpec
from bert_tf.tasks.multiple_choice_data import ChoiceExample

_INPUTS = ("input_ids", "input_mask", "segment_ids")
_PROGRESS_LINE_EVERY = 10_000

_LOGGER = logging.getLogger("bert_tf")


def feature_spec(num_choices: int, max_seq_length: int) -> FeatureSpec:
    """The features of one example.

    Returns:
      `input_ids`, `input_mask`, `segment_ids` [C, S]; `label_ids` (), the
      index of the right choice; `is_real_example` ().
    """
    shape = (num_choices, max_seq_length)
    return FeatureSpec(
        [
            *(Feature(name, shape) for name in _INPUTS),
            Feature("label_ids"),
            Feature("is_real_example"),
        ]
    )


@dataclasses.dataclass
class ChoiceStats:
    """Counts what was met while examples were turned into features.

    Attributes:
      examples: number of examples.
      truncated: sequences that were cut.
      empty: choices that give no piece.
      first_empty: where the first of them stands.
      repeated: examples two choices of which are the same.
      first_repeated: where the first of them stands.
      longest: pieces of the longest sequence, special tokens included.
      longest_where: where it stands.
    """

    examples: int = 0
    truncated: int = 0
    empty: int = 0
    first_empty: str = ""
    repeated: int = 0
    first_repeated: str = ""
    longest: int = 0
    longest_where: str = ""

    def log(self, name: str, max_seq_length: int) -> None:
        """Says what was counted."""
        _LOGGER.info(
            "%s: %d examples; %d sequences cut to %d pieces; the longest has "
            "%d (%s)",
            name,
            self.examples,
            self.truncated,
            max_seq_length,
            self.longest,
            self.longest_where,
        )
        if self.empty:
            _LOGGER.warning(
                "%s: %d choice(s) without pieces, the first in %s",
                name,
                self.empty,
                self.first_empty,
            )
        if self.repeated:
            _LOGGER.warning(
                "%s: %d example(s) with the same choice twice, the first in %s",
                name,
                self.repeated,
                self.first_repeated,
            )


def featurize(
    example: ChoiceExample,
    max_seq_length: int,
    tokenizer,
    stats: ChoiceStats | None = None,
) -> dict[str, Any]:
    """Makes `[CLS] context [SEP] choice [SEP]` for each choice.

    Args:
      example: context and choices.
      max_seq_length: S.
      tokenizer: a `FullTokenizer`.
      stats: counts the example if given.

    Returns:
      Values for `feature_spec`, flat lists of C * S ints; `label_ids` is 0
      where the label is unknown.

    Raises:
      ValueError: S leaves no room.
    """
    context = tokenizer.tokenize_to_ids(example.context)
    values: dict[str, Any] = {name: [] for name in _INPUTS}
    for choice in example.choices:
        ids = tokenizer.tokenize_to_ids(choice)
        packed = packing.pack(
            context, ids, max_seq_length, tokenizer.cls_id, tokenizer.sep_id
        )
        for name in _INPUTS:
            values[name] += getattr(packed, name)
        if stats is not None:
            length = len(context) + len(ids) + (3 if ids else 2)
            stats.truncated += length > max_seq_length
            if length > stats.longest:
                stats.longest, stats.longest_where = length, example.where
            if not ids:
                stats.empty += 1
                stats.first_empty = stats.first_empty or example.where
    if stats is not None:
        stats.examples += 1
        if len(set(example.choices)) < len(example.choices):
            stats.repeated += 1
            stats.first_repeated = stats.first_repeated or example.where
    values["label_ids"] = example.label or 0
    values["is_real_example"] = 1
    return values


def records(
    examples: Iterable[ChoiceExample],
    max_seq_length: int,
    tokenizer,
    stats: ChoiceStats,
    name: str,
) -> Iterator[dict[str, Any]]:
    """Streams the features of examples, and says how far it is."""
    for i, example in enumerate(examples):
        if i and i % _PROGRESS_LINE_EVERY == 0:
            _LOGGER.info("%s: %d examples", name, i)
        yield featurize(example, max_seq_length, tokenizer, stats)
