"""What a conversion did with every tensor."""

import dataclasses
import json
import os
from collections.abc import Mapping

from bert_tf import files
from bert_tf.config import BertConfig


@dataclasses.dataclass(frozen=True)
class Row:
    """One tensor.

    Attributes:
      name: the official name.
      source_name: in the input.
      target_name: in the output.
      shape: in the output.
      change: what was done to the values, empty if nothing.
    """

    name: str
    source_name: str
    target_name: str
    shape: tuple[int, ...]
    change: str


@dataclasses.dataclass(frozen=True)
class ConversionReport:
    """What became of every tensor of the input, and what the output lacks.

    Attributes:
      input: as given.
      output: as given.
      input_format: as recognized.
      output_format: as asked for.
      rows: the converted tensors.
      missing: official names that a BERT has and the input has not.
      ignored: names of the input -> why they were left out.
      notes: what a user should know.
      head: kind of the head, or None.
      labels: in the order of the outputs, or None.
      config: the architecture.
    """

    input: str
    output: str
    input_format: str
    output_format: str
    rows: tuple[Row, ...]
    missing: tuple[str, ...]
    ignored: Mapping[str, str]
    notes: tuple[str, ...]
    head: str | None
    labels: list[str] | None
    config: BertConfig

    def summary(self) -> str:
        """Counts, and all that did not go without saying."""
        lines = [
            f"{self.input} ({self.input_format}) -> {self.output} "
            f"({self.output_format})",
            f"{len(self.rows)} tensors converted, {len(self.missing)} missing, "
            f"{len(self.ignored)} ignored; head: {self.head or 'none'}; "
            f"hidden_act {self.config.hidden_act}, layer norm epsilon "
            f"{self.config.layer_norm_eps}",
        ]
        if self.labels:
            lines.append(f"labels: {', '.join(self.labels)}")
        lines += [f"missing: {name}" for name in self.missing]
        reasons: dict[str, list[str]] = {}
        for name, why in self.ignored.items():
            reasons.setdefault(why, []).append(name)
        for why, names in reasons.items():
            shown = ", ".join(names[:4]) + (", ..." if names[4:] else "")
            lines.append(f"ignored, {why} ({len(names)}): {shown}")
        lines += [f"note: {note}" for note in self.notes]
        return "\n".join(lines)

    def table(self) -> str:
        """One line a tensor: names, shape, change."""
        cells = [
            (x.source_name, x.target_name, str(list(x.shape)), x.change)
            for x in self.rows
        ]
        cells.insert(0, ("input", "output", "shape", "change"))
        widths = [max(len(row[i]) for row in cells) for i in range(3)]
        return "\n".join(
            "  ".join(
                [*(row[i].ljust(widths[i]) for i in range(3)), row[3]]
            ).rstrip()
            for row in cells
        )

    def save(self, path: str | os.PathLike) -> None:
        """Writes everything as JSON."""
        values = dataclasses.asdict(
            dataclasses.replace(self, config=None, ignored=dict(self.ignored))
        )
        values["config"] = self.config.to_dict()
        with files.atomic_write(path) as stream:
            json.dump(values, stream, indent=2, ensure_ascii=False)
            stream.write("\n")
