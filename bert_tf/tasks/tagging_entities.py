"""Entities in sequences of labels: encodings, spans, scores.

A label is `O`, or a prefix and a type, such as `B-LOC`. The prefixes of all
common encodings are understood: B and I (IOB1, IOB2, "BIO"), E and S
(BIOES), and their other names M for I, L for E, U and W for S.
"""

import collections
import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

OUTSIDE = "O"
# Labels without a type, as those of word segmentation, have this one.
NO_TYPE = "_"

_PREFIXES = {"M": "I", "L": "E", "U": "S", "W": "S"}
_SPAN_LABEL = re.compile(r"O|[BIESMLUW](-.+)?")


class Entity(NamedTuple):
    """A run of words of one type.

    Attributes:
      type: such as `LOC`.
      start: index of its first word.
      end: index after its last word.
    """

    type: str
    start: int
    end: int


def split_label(label: str) -> tuple[str, str]:
    """Cuts a label into prefix (O, B, I, E or S) and type.

    The type ends nowhere but at the end: `B-creative-work` has the type
    `creative-work`.
    """
    prefix, _, kind = label.partition("-")
    if prefix == OUTSIDE:
        return OUTSIDE, ""
    return _PREFIXES.get(prefix, prefix), kind or NO_TYPE


def marks_entities(labels: Iterable[str]) -> bool:
    """Tells whether labels mark spans, or each word on its own.

    Returns:
      True if every label is `O` or has a prefix, False if none but `O` has
      one, as with parts of speech.

    Raises:
      ValueError: some have one and some do not; names both.
    """
    labels = [label for label in labels if label != OUTSIDE]
    spans = [label for label in labels if _SPAN_LABEL.fullmatch(label)]
    if not spans:
        return False
    if len(spans) == len(labels):
        return True
    others = [label for label in labels if label not in spans]
    # Parts of speech may well have an S or an M among them.
    if all("-" not in label for label in spans):
        return False
    raise ValueError(
        f"labels {', '.join(spans[:5])} mark the words of entities, but "
        f"{', '.join(others[:5])} have no prefix B-, I-, E- or S-"
    )


def find_entities(labels: Sequence[str]) -> list[Entity]:
    """Finds the entities of a sentence, in order.

    The rule is that of the CoNLL-2000 scorer `conlleval` and of the package
    seqeval, which takes any sequence: an entity ends before O, B and S, after
    E and S and where the type changes; any label but O starts one where none
    is open.

    Args:
      labels: one for each word, in any encoding.
    """
    found = []
    start, kind, last = None, "", OUTSIDE
    for i, label in enumerate([*labels, OUTSIDE]):
        prefix, new_kind = split_label(label)
        if start is not None and (
            prefix in (OUTSIDE, "B", "S")
            or last in ("E", "S")
            or new_kind != kind
        ):
            found.append(Entity(kind, start, i))
            start = None
        if start is None and prefix != OUTSIDE:
            start, kind = i, new_kind
        last = prefix
    return found


class EncodingCheck:
    """Finds the encoding of many sentences and labels that break it.

    Args:
      encoding: one of IO, IOB1, IOB2 and BIOES; by default the one that fits
        all that is added.
    """

    def __init__(self, encoding: str | None = None):
        self._given = encoding
        self._prefixes: set[str] = set()
        # Faults under each reading, and where the first one stands.
        self._i_after_other: list = [0, ""]
        self._not_closed: list = [0, ""]
        self._b_after_other = 0

    def add(self, labels: Sequence[str], where: Sequence[str] = ()) -> None:
        """Counts the labels of a sentence.

        Args:
          labels: one for each word.
          where: one text for each word, that says where it stands.
        """
        last, last_kind = OUTSIDE, ""
        for i, label in enumerate([*labels, OUTSIDE]):
            prefix, kind = split_label(label)
            self._prefixes.add(prefix)
            at = where[min(i, len(where) - 1)] if where else ""
            same = last != OUTSIDE and kind == last_kind
            if prefix == "I" and not same:
                self._count(self._i_after_other, at)
            self._b_after_other += prefix == "B" and not same
            is_open = last in ("B", "I")
            inside = prefix in ("I", "E")
            if is_open != inside or (is_open and not same):
                self._count(self._not_closed, at)
            last, last_kind = prefix, kind

    @staticmethod
    def _count(fault: list, where: str) -> None:
        fault[0] += 1
        fault[1] = fault[1] or where

    @property
    def encoding(self) -> str:
        """IO, IOB1 (B between neighbours only), IOB2 or BIOES."""
        if self._given:
            return self._given
        if self._prefixes & {"E", "S"}:
            return "BIOES"
        if "B" not in self._prefixes:
            return "IO"
        return "IOB2" if self._b_after_other else "IOB1"

    def inconsistent(self) -> tuple[int, str]:
        """How many labels break the encoding, and where the first one is.

        In IOB2 an I that no entity of its type precedes; in BIOES an entity
        that is not closed, or not opened. Nothing breaks IO and IOB1.
        """
        if self.encoding == "BIOES":
            return tuple(self._not_closed)
        if self.encoding == "IOB2":
            return tuple(self._i_after_other)
        return 0, ""


def encoding_of_labels(labels: Iterable[str]) -> str:
    """The encoding that a list of labels is made for; IOB1 looks like IOB2."""
    prefixes = {split_label(label)[0] for label in labels}
    if prefixes & {"E", "S"}:
        return "BIOES"
    return "IOB2" if "B" in prefixes else "IO"


def _scores(hits: int, predicted: int, actual: int) -> dict[str, float]:
    return {
        "precision": hits / predicted if predicted else 0.0,
        "recall": hits / actual if actual else 0.0,
        "f1": 2 * hits / (predicted + actual) if predicted + actual else 0.0,
        "support": actual,
    }


def score_entities(
    targets: Iterable[Sequence[str]], predictions: Iterable[Sequence[str]]
) -> dict:
    """Precision, recall and F1 of entities: words and type must be equal.

    Args:
      targets: the labels of each sentence.
      predictions: as many labels for as many sentences.

    Returns:
      `precision`, `recall`, `f1` of all entities counted together (0 where
      undefined), `support` (their number), and `types`: the same for each
      type, sorted by name.

    Raises:
      ValueError: the lengths differ.
    """
    hits: collections.Counter = collections.Counter()
    predicted: collections.Counter = collections.Counter()
    actual: collections.Counter = collections.Counter()
    for target, prediction in zip(targets, predictions, strict=True):
        if len(target) != len(prediction):
            raise ValueError(
                f"{len(target)} labels but {len(prediction)} predictions in "
                "one sentence"
            )
        true, found = set(find_entities(target)), find_entities(prediction)
        actual.update(entity.type for entity in true)
        predicted.update(entity.type for entity in found)
        hits.update(entity.type for entity in found if entity in true)
    return {
        **_scores(hits.total(), predicted.total(), actual.total()),
        "types": {
            kind: _scores(hits[kind], predicted[kind], actual[kind])
            for kind in sorted(actual | predicted)
        },
    }


def format_table(rows: dict[str, dict[str, float]]) -> str:
    """A table of precision, recall, F1 and support, one row for each name."""
    width = max(map(len, ("type", *rows)))
    lines = [f"{'type':<{width}}  precision  recall      f1  support"]
    lines += [
        f"{name:<{width}}  {row['precision']:9.4f}  {row['recall']:6.4f}  "
        f"{row['f1']:6.4f}  {row['support']:7d}"
        for name, row in rows.items()
    ]
    return "\n".join(lines)
