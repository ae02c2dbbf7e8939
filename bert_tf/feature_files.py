"""The files that `extract_features.py` writes, a line at a time.

Shape letters: D hidden, K layers, T tokens of all lines.
"""

import contextlib
import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.records import Feature, FeatureSpec, RecordWriter
from bert_tf.tokenization import FullTokenizer

FORMATS = ("json", "npy", "tfrecord")
NO_POOLING = "none"
_DECIMALS = 6  # of JSON values, as in the original


@dataclasses.dataclass(frozen=True)
class ExtractionSettings:
    """What is extracted of each line, and how it is written.

    Attributes:
      input_file: text, one example a line; ` ||| ` between two texts.
      output_file: where to.
      layers: which layers, as checked by `pooling.check_layers`.
      max_seq_length: S; longer lines are cut.
      batch_size: most lines in a batch.
      pooling: `"none"` for a vector of each piece, or one of
        `pooling.STRATEGIES` for a vector of each line.
      normalize: scale the vectors of lines to length 1.
      output_format: `"json"` (lines, as the original's), `"npy"` or
        `"tfrecord"`.
      print_similarity: print how alike the first lines are.
    """

    input_file: str
    output_file: str
    layers: Sequence[int | str] = (-1, -2, -3, -4)
    max_seq_length: int = 128
    batch_size: int = 32
    pooling: str = NO_POOLING
    normalize: bool = False
    output_format: str = "json"
    print_similarity: bool = False

    def __post_init__(self):
        if self.output_format not in FORMATS:
            raise ValueError(
                f"--output_format is {self.output_format!r}, expected one of "
                f"{', '.join(FORMATS)}"
            )
        if self.batch_size < 1:
            raise ValueError(
                f"--batch_size is {self.batch_size}, must be positive"
            )
        for name in ("normalize", "print_similarity"):
            if getattr(self, name) and not self.pools:
                raise ValueError(
                    f"--{name} is for vectors of lines: give --pooling"
                )

    @property
    def pools(self) -> bool:
        """Whether each line becomes one vector."""
        return self.pooling != NO_POOLING

    def size(self, hidden_size: int) -> int:
        """Values of one vector of a line."""
        count = 1 if self.pooling == "pooled" else len(self.layers)
        return hidden_size * count


@dataclasses.dataclass
class Line:
    """One line of the input.

    Attributes:
      index: its number, from 0.
      text: as read, blanks at its ends removed.
      row: `input_ids` and `segment_ids`.
      is_cut: whether pieces were left out.
    """

    index: int
    text: str
    row: dict[str, list[int]]
    is_cut: bool = False


def json_object(
    line: Line,
    values: np.ndarray,
    tokenizer: FullTokenizer,
    settings: ExtractionSettings,
) -> dict[str, Any]:
    """The JSON object of one line.

    Without pooling it is the original's: `linex_index` (so spelt) and
    `features`, each with `token` and `layers` of `index` and `values`.
    """
    rounded = np.round(values.astype(np.float64), _DECIMALS)
    if settings.pools:
        return {
            "linex_index": line.index,
            "pooling": settings.pooling,
            "layers": list(settings.layers),
            "values": rounded.tolist(),
        }
    tokens = tokenizer.convert_ids_to_tokens(line.row["input_ids"])
    features = [
        {
            "token": token,
            "layers": [
                {"index": index, "values": layer}
                for index, layer in zip(settings.layers, vectors, strict=True)
            ],
        }
        for token, vectors in zip(tokens, rounded.tolist(), strict=True)
    ]
    return {"linex_index": line.index, "features": features}


class JsonWriter:
    """Writes one JSON object a line."""

    def __init__(self, settings, tokenizer, hidden_size, num_lines, num_tokens):
        self._settings = settings
        self._tokenizer = tokenizer
        self._context = files.atomic_write(settings.output_file)

    def __enter__(self):
        self._stream = self._context.__enter__()
        return self

    def __exit__(self, *error):
        return self._context.__exit__(*error)

    def write(self, line: Line, values: np.ndarray) -> None:
        found = json_object(line, values, self._tokenizer, self._settings)
        self._stream.write(json.dumps(found) + "\n")


class NpyWriter:
    """Writes one float32 array, without holding it.

    It is [lines, K * D], or without pooling [T, K, D]: the tokens of all
    lines, one after the other. Then `OUTPUT.tokens.jsonl` says for each line
    its `linex_index`, its `first_row` in the array, and its `tokens`.
    """

    def __init__(self, settings, tokenizer, hidden_size, num_lines, num_tokens):
        self._settings = settings
        self._tokenizer = tokenizer
        self._rows = 0
        if settings.pools:
            self._shape = (num_lines, settings.size(hidden_size))
        else:
            self._shape = (num_tokens, len(settings.layers), hidden_size)
        self._stack = contextlib.ExitStack()

    def __enter__(self):
        path = self._settings.output_file
        self._stream = self._stack.enter_context(files.atomic_write(path, "wb"))
        header = {"descr": "<f4", "fortran_order": False, "shape": self._shape}
        np.lib.format.write_array_header_1_0(self._stream, header)
        self._tokens = None
        if not self._settings.pools:
            self._tokens = self._stack.enter_context(
                files.atomic_write(f"{path}.tokens.jsonl")
            )
        return self

    def __exit__(self, *error):
        return self._stack.__exit__(*error)

    def write(self, line: Line, values: np.ndarray) -> None:
        self._stream.write(np.ascontiguousarray(values, "<f4").tobytes())
        if self._tokens is None:
            return
        record = {
            "linex_index": line.index,
            "first_row": self._rows,
            "tokens": self._tokenizer.convert_ids_to_tokens(
                line.row["input_ids"]
            ),
        }
        self._tokens.write(json.dumps(record) + "\n")
        self._rows += len(values)


class RecordsWriter:
    """Writes a `tf.train.Example` for each line to a TFRecord file.

    Features: `linex_index`; `values`, flat, and `shape` of what they make,
    [K * D] or [tokens, K, D]; without pooling also `input_ids` and
    `segment_ids` [tokens].
    """

    def __init__(self, settings, tokenizer, hidden_size, num_lines, num_tokens):
        self._settings = settings
        self._writer = RecordWriter(settings.output_file)
        self._specs: dict[tuple, FeatureSpec] = {}

    def __enter__(self):
        self._writer.__enter__()
        return self

    def __exit__(self, *error):
        return self._writer.__exit__(*error)

    def write(self, line: Line, values: np.ndarray) -> None:
        record = {
            "linex_index": line.index,
            "shape": values.shape,
            "values": values.reshape(-1),
        }
        if not self._settings.pools:
            record |= line.row
        spec = self._spec(values.shape, record)
        self._writer.write(spec.serialize(record))

    def _spec(self, shape, record) -> FeatureSpec:
        if shape not in self._specs:
            self._specs[shape] = FeatureSpec(
                [
                    Feature(
                        name,
                        np.shape(value),
                        "float32" if name == "values" else "int64",
                    )
                    for name, value in record.items()
                ]
            )
        return self._specs[shape]


WRITERS = {"json": JsonWriter, "npy": NpyWriter, "tfrecord": RecordsWriter}
