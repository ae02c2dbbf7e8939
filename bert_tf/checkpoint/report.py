"""What a load did, and what to say when it could not."""

import collections
import dataclasses
from collections.abc import Mapping, Sequence

from bert_tf.checkpoint.names import (
    ENCODER_SCOPE,
    is_encoder,
    is_head,
    is_optimizer_state,
)

_SHOWN = 8  # names in a summary's line; the report itself has all
_OBJECT_BASED = ".ATTRIBUTES/VARIABLE_VALUE"


def shorten(names: Sequence[str], shown: int = _SHOWN) -> str:
    """The first names of a list, and how many more there are."""
    text = ", ".join(names[:shown])
    more = len(names) - shown
    return f"{text} and {more} more" if more > 0 else text


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What became of every variable of the model and of the file.

    Attributes:
      path: the checkpoint's prefix.
      loaded: variables that now hold the file's values.
      fresh: variables that the file lacks and that may keep the values they
        had, such as a new head.
      missing: variables that the file should have and lacks. A load that
        succeeded has none.
      unused: names in the file that the model does not have.

    All names are sorted.
    """

    path: str
    loaded: tuple[str, ...] = ()
    fresh: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    unused: tuple[str, ...] = ()

    def summary(self) -> str:
        """Text to print: all counts, and the first names of each kind."""
        state = [x for x in self.unused if is_optimizer_state(x)]
        weights = [x for x in self.unused if not is_optimizer_state(x)]
        lines = [
            f"{self.path}: {len(self.loaded)} variables loaded, "
            f"{len(self.fresh)} fresh, {len(self.missing)} missing, "
            f"{len(self.unused)} in the file unused"
            + (f" ({len(state)} of them optimizer state)" if state else "")
        ]
        for title, names in (
            ("fresh, not in the file", self.fresh),
            ("missing", self.missing),
            ("unused", weights),
        ):
            if names:
                lines.append(f"  {title}: {shorten(names)}")
        return "\n".join(lines)


class CheckpointError(ValueError):
    """A checkpoint that cannot be read, written, or matched to a model.

    Attributes:
      report: the `LoadReport` as far as it got, or None.
    """

    def __init__(self, message: str, report: LoadReport | None = None):
        super().__init__(message)
        self.report = report


def describe_mismatch(
    report: LoadReport,
    wrong_shapes: Mapping[str, tuple[Sequence[int], Sequence[int]]],
    config_source: str = "",
) -> str:
    """Says why a checkpoint does not fit, with all names and both sides.

    Args:
      report: its `missing` are the variables that the file lacks.
      wrong_shapes: name to (shape in the file, shape in the model).
      config_source: the file that the model's config was read from.

    Returns:
      A text of several lines.
    """
    lines = [f"the checkpoint {report.path} does not fit the model"]
    if config_source:
        lines[0] += f" of {config_source}"
    in_file = (*report.loaded, *wrong_shapes, *report.unused)
    if report.missing:
        lines += _describe_missing(report.missing, sorted(in_file))
    for title, names in (
        ("shapes differ", [x for x in wrong_shapes if not is_head(x)]),
        ("shapes of the head differ", [x for x in wrong_shapes if is_head(x)]),
    ):
        if names:
            lines.append(f"{title}, {len(names)} in all:")
        for name in sorted(names):
            found, expected = wrong_shapes[name]
            lines.append(
                f"  {name}: {_shape(found)} in the checkpoint, "
                f"{_shape(expected)} in the model"
            )
    if wrong_shapes and all(is_head(x) for x in wrong_shapes):
        lines.append(
            "The encoder fits, the head does not: it was trained for another "
            "number of classes. Give the labels it was trained with, or start "
            "from a checkpoint without this head."
        )
    return "\n".join(lines)


def _shape(shape: Sequence[int]) -> str:
    return f"[{', '.join(str(x) for x in shape)}]"


def _describe_missing(
    missing: Sequence[str], in_file: Sequence[str]
) -> list[str]:
    """Lines on what the file lacks, and on what it holds in its place."""
    lines = []
    weights = [x for x in in_file if not is_optimizer_state(x)]
    if diagnosis := _diagnose(missing, weights):
        lines.append(diagnosis)
    lines.append(f"missing in the file, {len(missing)} in all:")
    lines += [f"  {name}" for name in missing]
    # Names that end alike say most about what went wrong.
    tails = tuple(name.removeprefix(ENCODER_SCOPE) for name in missing)
    alike = [x for x in weights if x.endswith(tails)] or weights
    lines.append(
        f"For example, the model has {', '.join(missing[:2])}; the checkpoint "
        f"has {', '.join(alike[:2]) or 'no weights at all'}"
    )
    return lines


def _diagnose(missing: Sequence[str], in_file: Sequence[str]) -> str:
    """The kind of the mistake in one sentence, or nothing."""
    if any(x.endswith(_OBJECT_BASED) for x in in_file):
        return (
            "It is an object-based TensorFlow 2 checkpoint (its keys end in "
            f"{_OBJECT_BASED}), not one with the original's names; convert it "
            "to TensorFlow 1 names first."
        )
    if any(
        "/inner_group_" in x or "embedding_hidden_map" in x for x in in_file
    ):
        return "It is an ALBERT checkpoint, not a BERT checkpoint."
    if all(is_optimizer_state(x) for x in missing):
        return "It has no optimizer state, so no run can be resumed from it."
    lacking = [x for x in missing if is_encoder(x)]
    if not lacking:
        return (
            "Its head is another one, or it has none: it may belong to "
            "another task."
        )
    prefix, count = _other_prefix(lacking, in_file)
    if count * 2 > len(lacking):
        return (
            f"Its names begin with {prefix!r} where the model's begin with "
            f"{ENCODER_SCOPE!r}; rename its variables."
        )
    if not any(is_encoder(x) for x in in_file):
        return (
            "It is not a BERT checkpoint: all expected encoder names are "
            "missing."
        )
    return "Part of the encoder is missing; the config may be another model's."


def _other_prefix(
    lacking: Sequence[str], in_file: Sequence[str]
) -> tuple[str, int]:
    """What stands in the file where the encoder's scope should, how often."""
    tails = {x.removeprefix(ENCODER_SCOPE) for x in lacking}
    prefixes: collections.Counter[str] = collections.Counter()
    for name in in_file:
        parts = name.split("/")
        for i in range(len(parts)):
            if "/".join(parts[i:]) in tails:
                head = "/".join(parts[:i])
                prefixes[f"{head}/" if head else ""] += 1
                break
    return prefixes.most_common(1)[0] if prefixes else ("", 0)
