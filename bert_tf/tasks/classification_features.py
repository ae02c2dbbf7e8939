"""Texts with labels, turned into features.

Shape letters: S sequence length, L labels.
"""

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

from bert_tf import packing
from bert_tf.records import Feature, FeatureSpec
from bert_tf.tasks.classification_data import Example, check_text


def feature_spec(
    max_seq_length: int, kind: str = "classification", num_labels: int = 1
) -> FeatureSpec:
    """The features of one record.

    Args:
      max_seq_length: S.
      kind: of the data set.
      num_labels: L, used in multi-label only.

    Returns:
      `input_ids`, `input_mask`, `segment_ids` [S]; then `label_ids` () in
      classification, or `label_values` float32: () in regression, [L]
      multi-hot in multi-label; then `is_real_example` ().
    """
    inputs = [
        Feature(name, (max_seq_length,))
        for name in ("input_ids", "input_mask", "segment_ids")
    ]
    if kind == "classification":
        target = Feature("label_ids")
    else:
        shape = (num_labels,) if kind == "multi_label" else ()
        target = Feature("label_values", shape, "float32")
    return FeatureSpec([*inputs, target, Feature("is_real_example")])


@dataclasses.dataclass
class FeaturizeStats:
    """Counts what was met while texts were turned into features.

    Attributes:
      examples: number of examples.
      truncated: how many of them were cut.
      without_tokens: how many gave no token at all.
      longest: pieces of the longest example, special tokens counted.
      longest_where: where it stands.
      label_counts: label -> number of examples.
    """

    examples: int = 0
    truncated: int = 0
    without_tokens: int = 0
    longest: int = 0
    longest_where: str = ""
    label_counts: collections.Counter = dataclasses.field(
        default_factory=collections.Counter
    )

    def add(self, example: Example, length: int, max_seq_length: int) -> None:
        """Counts one example of `length` pieces, special tokens included."""
        self.examples += 1
        self.truncated += length > max_seq_length
        self.without_tokens += length == 2
        if length > self.longest:
            self.longest, self.longest_where = length, example.where
        if isinstance(example.label, str):
            self.label_counts[example.label] += 1
        elif isinstance(example.label, tuple):
            self.label_counts.update(example.label)

    def summary(self, max_seq_length: int) -> str:
        """One line in words."""
        parts = [
            f"{self.examples:,} examples",
            f"{self.truncated:,} cut to {max_seq_length} pieces",
            f"the longest has {self.longest:,} ({self.longest_where})",
        ]
        if self.without_tokens:
            parts.append(f"{self.without_tokens:,} without any token")
        if self.label_counts:
            counts = self.label_counts.most_common(10)
            shown = ", ".join(f"{label} {n:,}" for label, n in counts)
            rest = ", ..." if len(self.label_counts) > 10 else ""
            parts.append(f"labels: {shown}{rest}")
        return "; ".join(parts)


def _target(
    example: Example, labels: Sequence[str] | None, kind: str
) -> dict[str, Any]:
    label = example.label
    if kind == "regression":
        return {"label_values": 0.0 if label is None else float(label)}
    try:
        if kind == "multi_label":
            hot = [0.0] * len(labels)
            for one in label or ():
                hot[labels.index(one)] = 1.0
            return {"label_values": hot}
        # A row to be predicted has no label; the first holds its place.
        return {"label_ids": 0 if label is None else labels.index(label)}
    except ValueError:
        raise ValueError(
            f"{example.where}: found label {label!r}, allowed: "
            f"{', '.join(labels)}"
        ) from None


def featurize(
    example: Example,
    labels: Sequence[str] | None,
    max_seq_length: int,
    tokenizer,
    kind: str = "classification",
    stats: FeaturizeStats | None = None,
) -> dict[str, Any]:
    """Turns one example into features.

    Args:
      example: text or pair.
      labels: in the order of the output units; None in regression.
      max_seq_length: S.
      tokenizer: a `FullTokenizer`.
      kind: of the data set.
      stats: counts the example if given.

    Returns:
      Values for `feature_spec`: lists of S ints `input_ids`, `input_mask`,
      `segment_ids`; `label_ids` (int) or `label_values`; `is_real_example`.

    Raises:
      ValueError: a text is no string, the label is not in the list, or S
        leaves no room.
    """
    text_b = example.text_b
    ids_a = tokenizer.tokenize_to_ids(check_text(example.text_a, example.where))
    ids_b = []
    if text_b is not None:
        ids_b = tokenizer.tokenize_to_ids(
            check_text(text_b, example.where, "second text")
        )
    packed = packing.pack(
        ids_a, ids_b, max_seq_length, tokenizer.cls_id, tokenizer.sep_id
    )
    if stats is not None:
        specials = 3 if ids_b else 2
        length = len(ids_a) + len(ids_b) + specials
        stats.add(example, length, max_seq_length)
    return {
        **packed._asdict(),
        **_target(example, labels, kind),
        "is_real_example": 1,
    }
