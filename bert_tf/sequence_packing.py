"""Several short sequences in one row, and their results taken apart again.

A row of S pieces holds up to M sequences one after the other. Each sees
itself alone and has positions from 0 on, so that the model computes what it
would compute for the sequence in a row of its own (Krell et al. 2021, arXiv
2107.02027, which packs by length too).

Shape letters: S row length, M sequences in a row, P predictions, R rows, n
examples.
"""

import bisect
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from bert_tf.records import Feature, FeatureSpec

# M is one for so many pieces. Each costs a row of the pooler and the head,
# little beside the encoder's S rows.
_PIECES_PER_SEQUENCE = 8
_EXAMPLES_AT_ONCE = 64
# Features of a row that say which example lies where.
PACKING_FEATURES = ("sequence_starts", "sequence_lengths", "example_numbers")


def best_fit_rows(
    sizes: Sequence[tuple[int, int]],
    room: tuple[int, int],
    max_sequences: int,
) -> list[list[int]]:
    """Puts sequences into rows: longest first, each where it fits best.

    Args:
      sizes: pieces and predictions of each sequence.
      room: pieces and predictions that a row takes.
      max_sequences: most sequences in a row, M.

    Returns:
      For each row the numbers of its sequences, ascending.

    Raises:
      ValueError: a sequence is larger than a row.
    """
    rows: list[list[int]] = []
    # Open rows by the pieces that they have left, the fullest first.
    open_rows: list[tuple[int, int]] = []
    predictions_left: list[int] = []
    order = sorted(range(len(sizes)), key=lambda i: (-sizes[i][0], i))
    for number in order:
        pieces, predictions = sizes[number]
        if pieces > room[0] or predictions > room[1]:
            raise ValueError(
                f"sequence {number} has {pieces} pieces and {predictions} "
                f"predictions; a row takes {room[0]} and {room[1]}"
            )
        at = bisect.bisect_left(open_rows, (pieces, -1))
        while at < len(open_rows):
            if predictions_left[open_rows[at][1]] >= predictions:
                break
            at += 1
        if at < len(open_rows):
            left, row = open_rows.pop(at)
        else:
            left, row = room[0], len(rows)
            rows.append([])
            predictions_left.append(room[1])
        rows[row].append(number)
        predictions_left[row] -= predictions
        left -= pieces
        if left and len(rows[row]) < max_sequences:
            bisect.insort(open_rows, (left, row))
    return [sorted(row) for row in rows]


@dataclasses.dataclass(frozen=True)
class RowLayout:
    """How the features of single sequences become those of rows.

    Features of `tokens` are laid end to end; those of `predictions` too, the
    ones without weight left out, the last of them being the weight; all
    others get an axis M. Values of `positions` move with their sequence.

    Attributes:
      spec: features of one sequence.
      tokens: names of features [S]; `input_mask` is one of them.
      predictions: names of features [P], the weight last.
      positions: names of features that hold offsets into the sequence.
    """

    spec: FeatureSpec
    tokens: tuple[str, ...] = ("input_ids", "input_mask", "segment_ids")
    predictions: tuple[str, ...] = ()
    positions: tuple[str, ...] = ()

    def _feature(self, name: str) -> Feature:
        return next(f for f in self.spec if f.name == name)

    @property
    def length(self) -> int:
        """S."""
        return self._feature("input_mask").size

    @property
    def max_sequences(self) -> int:
        """M."""
        return max(1, self.length // _PIECES_PER_SEQUENCE)

    @property
    def num_predictions(self) -> int:
        """P; 0 without predictions."""
        if not self.predictions:
            return 0
        return self._feature(self.predictions[-1]).size

    def is_per_sequence(self, name: str) -> bool:
        """Whether a feature has an axis M in a row."""
        return name not in self.tokens + self.predictions

    def row_spec(self) -> FeatureSpec:
        """Features of a row.

        Beside those of the sequences: `position_ids` and `sequence_ids` [S],
        the latter 1 on the first sequence and 0 on padding; `sequence_starts`
        and `sequence_lengths` [M], and `example_numbers` [M], counted over
        all files. Where there is no sequence the length is 0.
        """
        features = [
            Feature(f.name, (self.max_sequences, *f.shape), f.dtype, f.padding)
            if self.is_per_sequence(f.name)
            else f
            for f in self.spec
        ]
        s, m = (self.length,), (self.max_sequences,)
        features += [
            Feature("position_ids", s),
            Feature("sequence_ids", s),
            *(Feature(name, m) for name in PACKING_FEATURES),
        ]
        return FeatureSpec(features)

    def rows(
        self, chunk: Mapping[str, np.ndarray], first_number: int
    ) -> Iterator[dict[str, np.ndarray]]:
        """Packs a chunk of examples.

        Args:
          chunk: for each feature of `spec` an array [n, *shape].
          first_number: number of the chunk's first example.

        Yields:
          Features of `row_spec`, flat; rows in the order of their first
          examples.

        Raises:
          ValueError: `input_mask` is not ones followed by zeros.
        """
        mask = chunk["input_mask"]
        lengths = mask.sum(axis=1)
        expected = np.arange(self.length) < lengths[:, np.newaxis]
        broken = np.flatnonzero((mask != expected).any(axis=1) | (lengths < 1))
        if len(broken):
            raise ValueError(
                f"example {first_number + broken[0]}: the input_mask is not "
                "ones followed by zeros, as packing needs it"
            )
        counts = np.zeros_like(lengths)
        if self.predictions:
            counts = (chunk[self.predictions[-1]] > 0).sum(axis=1)
        sizes = list(zip(lengths.tolist(), counts.tolist(), strict=True))
        room = (self.length, self.num_predictions)
        row_spec = self.row_spec()
        for members in sorted(best_fit_rows(sizes, room, self.max_sequences)):
            row = {
                f.name: np.full(
                    f.shape,
                    f.padding,
                    np.int64 if f.dtype == "int64" else np.float32,
                )
                for f in row_spec
            }
            self._fill(row, chunk, members, lengths)
            for place, member in enumerate(members):
                row["example_numbers"][place] = first_number + member
            yield {name: value.reshape(-1) for name, value in row.items()}

    def _fill(self, row, chunk, members, lengths) -> None:
        start = done = 0
        for place, member in enumerate(members):
            length = int(lengths[member])
            end = start + length
            row["position_ids"][start:end] = np.arange(length)
            row["sequence_ids"][start:end] = place + 1
            row["sequence_starts"][place] = start
            row["sequence_lengths"][place] = length
            kept = slice(0, 0)
            if self.predictions:
                kept = chunk[self.predictions[-1]][member] > 0
            for feature in self.spec:
                name = feature.name
                value = chunk[name][member]
                if name in self.predictions:
                    value = value[kept]
                if name in self.positions:
                    value = value + start
                if name in self.tokens:
                    row[name][start:end] = value[:length]
                elif name in self.predictions:
                    row[name][done : done + len(value)] = value
                else:
                    row[name][place] = value
            if self.predictions:
                done += int(np.count_nonzero(kept))
            start = end


def examples_in_order(
    batches: Iterable[Mapping[str, np.ndarray]],
    token_outputs: Mapping[str, float],
    num_examples: int,
) -> Iterator[dict[str, np.ndarray]]:
    """Takes the results of rows apart, in the order of the examples.

    Args:
      batches: results [R, M, ...] of each sequence, or [R, S, ...] of each
        piece for the names in `token_outputs`; with `PACKING_FEATURES`
        [R, M].
      token_outputs: name -> value of the pieces beyond a sequence's end.
      num_examples: how many there must be.

    Yields:
      Results [n, ...] or [n, S, ...], as those of unpacked examples, each
      example once and in order; n is at most 64.
    """
    waiting: dict[int, dict[str, np.ndarray]] = {}
    expected = 0
    length = 0
    for batch in batches:
        for name in token_outputs:
            length = batch[name].shape[1]
        waiting.update(_examples(batch, token_outputs))
        while expected in waiting:
            ready = []
            while expected in waiting and len(ready) < _EXAMPLES_AT_ONCE:
                ready.append(waiting.pop(expected))
                expected += 1
            yield {
                name: _stack(
                    [results[name] for results in ready],
                    token_outputs.get(name),
                    length,
                )
                for name in ready[0]
            }
    assert not waiting and expected == num_examples, (
        f"example {expected} of {num_examples} is in no row"
    )


def _stack(values: list[np.ndarray], fill: float | None, length: int):
    """[n, ...] of sequences, or [n, S, ...] of pieces padded with `fill`."""
    if fill is None:
        return np.stack(values)
    first = values[0]
    out = np.full((len(values), length, *first.shape[1:]), fill, first.dtype)
    for row, value in zip(out, values, strict=True):
        row[: len(value)] = value
    return out


def _examples(batch, token_outputs):
    starts, lengths, numbers = (batch[name] for name in PACKING_FEATURES)
    names = [name for name in batch if name not in PACKING_FEATURES]
    for row, place in zip(*np.nonzero(lengths), strict=True):
        pieces = slice(
            starts[row, place], starts[row, place] + lengths[row, place]
        )
        # Copies: a view would hold the whole batch.
        yield (
            int(numbers[row, place]),
            {
                name: batch[name][row, pieces].copy()
                if name in token_outputs
                else batch[name][row, place].copy()
                for name in names
            },
        )
