"""Counts of text, instances and masks: what `--dry_run` prints."""

import collections
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

# Sizes of what surrounds the values of a static record, in bytes.
_RECORD_OVERHEAD = 190


class Statistics:
    """Counts that are added up over parts of the work.

    Attributes:
      counts: number by name; see `report` for the names.
      lengths: number of instances by length in tokens, specials included.
      places: for what went wrong, the first place where it did.
    """

    def __init__(self):
        self.counts: collections.Counter[str] = collections.Counter()
        self.lengths: collections.Counter[int] = collections.Counter()
        self.places: dict[str, str] = {}

    def note(self, problem: str, place: str) -> None:
        """Counts a problem and keeps the first place where it was met."""
        self.counts[problem] += 1
        self.places.setdefault(problem, place)

    def merge(self, other: "Statistics") -> None:
        """Adds the counts of another part."""
        self.counts.update(other.counts)
        self.lengths.update(other.lengths)
        for problem, place in other.places.items():
            self.places.setdefault(problem, place)

    def add_instances(
        self,
        lengths: np.ndarray,
        labels: np.ndarray,
        max_seq_length: int,
    ) -> None:
        """Counts instances.

        Args:
          lengths: tokens of each, special tokens included, [n].
          labels: next-sentence labels, [n].
          max_seq_length: S.
        """
        histogram = np.bincount(lengths, minlength=max_seq_length + 1)
        self.lengths.update(
            {int(i): int(histogram[i]) for i in np.flatnonzero(histogram)}
        )
        self.counts["instances"] += len(lengths)
        self.counts["random_next"] += int(labels.sum())
        self.counts["instance_tokens"] += int(lengths.sum())
        self.counts["full_length"] += int(histogram[max_seq_length])

    def add_masks(
        self,
        counts: np.ndarray,
        originals: np.ndarray,
        replacements: np.ndarray,
        mask_id: int,
    ) -> None:
        """Counts masked tokens; a random id that hits the original is kept.

        Args:
          counts: predictions of each instance, [n].
          originals: ids to predict, [n, P], padded.
          replacements: ids put in their places, [n, P], padded.
          mask_id: id of `[MASK]`.
        """
        real = np.arange(originals.shape[1]) < counts[:, None]
        masked = int(counts.sum())
        as_mask = int(((replacements == mask_id) & real).sum())
        kept = int(((replacements == originals) & real).sum())
        self.counts["masked"] += masked
        self.counts["masked_as_mask"] += as_mask
        self.counts["masked_kept"] += kept
        self.counts["masked_random"] += masked - as_mask - kept

    def to_json(self) -> dict[str, Any]:
        """A form that `json` can write."""
        return {
            "counts": dict(sorted(self.counts.items())),
            "length_histogram": {
                str(length): self.lengths[length]
                for length in sorted(self.lengths)
            },
            "first_places": self.places,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Statistics":
        """The inverse of `to_json`."""
        statistics = cls()
        statistics.counts.update(data["counts"])
        statistics.lengths.update(
            {int(k): v for k, v in data["length_histogram"].items()}
        )
        statistics.places.update(data["first_places"])
        return statistics

    @classmethod
    def total(cls, parts: Iterable["Statistics"]) -> "Statistics":
        """The sum of several."""
        total = cls()
        for part in parts:
            total.merge(part)
        return total

    def _share(self, part: str, whole: str) -> str:
        of = self.counts[whole]
        return f"{100 * self.counts[part] / of:.2f} %" if of else "none"

    def report(self, max_seq_length: int, max_predictions: int) -> str:
        """The statistics as lines of text.

        Args:
          max_seq_length: S.
          max_predictions: P, 0 for records without masks.
        """
        c = self.counts
        lines = [
            f"documents              {c['documents']:,}"
            f" (of one sentence: {c['one_sentence_documents']:,})",
            f"lines                  {c['lines']:,}"
            f" (blank {c['blank_lines']:,},"
            f" without a token {c['lines_without_tokens']:,},"
            f" not UTF-8 {c['undecodable_lines']:,},"
            f" overlong {c['overlong_lines']:,})",
            f"sentences              {c['sentences']:,}",
            f"tokens                 {c['tokens']:,}"
            f" (unknown: {self._share('unknown_tokens', 'tokens')})",
            f"instances              {c['instances']:,}"
            f" (at full length: {self._share('full_length', 'instances')})",
            f"next sentence random   {self._share('random_next', 'instances')}",
            f"instances truncated    "
            f"{self._share('truncated_instances', 'instances')}"
            f" ({c['truncated_tokens']:,} tokens cut off)",
            f"tokens in instances    {c['instance_tokens']:,} (padding: "
            f"{self._padding(max_seq_length)})",
        ]
        if c["chunks_without_pair"]:
            lines.append(
                f"no second sentence     {c['chunks_without_pair']:,} times"
            )
        if max_predictions:
            lines.append(
                f"masked tokens          {c['masked']:,}"
                f" ({self._share('masked', 'instance_tokens')}; [MASK] "
                f"{self._share('masked_as_mask', 'masked')}, kept "
                f"{self._share('masked_kept', 'masked')}, random "
                f"{self._share('masked_random', 'masked')})"
            )
        size = c["instances"] * record_size(max_seq_length, max_predictions)
        lines.append(f"size of the records    about {size / 1e6:,.1f} MB")
        return "\n".join(lines + self._histogram(max_seq_length))

    def _padding(self, max_seq_length: int) -> str:
        places = self.counts["instances"] * max_seq_length
        if not places:
            return "none"
        return f"{100 - 100 * self.counts['instance_tokens'] / places:.2f} %"

    def _histogram(self, max_seq_length: int) -> list[str]:
        """Ten bars of instance lengths."""
        if not self.lengths:
            return []
        width = -(-max_seq_length // 10)
        bars: collections.Counter[int] = collections.Counter()
        for length, number in self.lengths.items():
            bars[(length - 1) // width] += number
        most = max(bars.values())
        lines = ["length of instances"]
        for bar in range(max(bars) + 1):
            low, high = bar * width + 1, min((bar + 1) * width, max_seq_length)
            mark = "#" * round(40 * bars[bar] / most)
            lines.append(f"  {low:>5}-{high:<5} {bars[bar]:>12,} {mark}")
        return lines


def record_size(max_seq_length: int, max_predictions: int) -> int:
    """Estimated bytes of a record: ids take two bytes, all else one."""
    return (
        _RECORD_OVERHEAD
        + max_seq_length * 4
        + max_predictions * (1 + 2 + 4)
        + 16
    )
