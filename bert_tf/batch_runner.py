"""Applies a model to rows of any length; results in the rows' order.

Shape letters: B rows of a batch, S its padded length.
"""

import collections
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.length_batches import (
    BATCH_TOKENS,
    Row,
    length_batches,
    pad_rows,
    padded_lengths,
)
from bert_tf.modeling import BertBase

# Compiling costs as much as some hundred calls gain, so it waits until a
# shape has shown that it comes again and again. The least of some times
# says how fast a program is, whatever else the machine does.
_CALLS_BEFORE_XLA = 32
_TIMED_CALLS = 8
_WINDOW_ROWS = 1024

Outputs = Mapping[str, Any]
Features = Mapping[str, tf.Tensor]


class ProgramTrial:
    """Finds out whether one shape's program is quicker compiled by XLA.

    It is on processors without AVX512 and on most accelerators; where oneDNN
    has better kernels than XLA it is not.
    """

    def __init__(self):
        self._times: dict[bool, list[float]] = {False: [], True: []}
        self._choice: bool | None = None

    def choose(self) -> bool:
        """Whether the next call should run the compiled program."""
        if self._choice is not None:
            return self._choice
        return len(self._times[False]) >= _CALLS_BEFORE_XLA

    def add(self, compiled: bool, seconds: float) -> None:
        """Takes note of a call; enough of them settle the choice."""
        if self._choice is not None:
            return
        times = self._times[compiled]
        times.append(seconds)
        # The first calls of each program include making it.
        if compiled and len(times) > _TIMED_CALLS:
            plain, ours = (
                min(self._times[kind][-_TIMED_CALLS:]) for kind in (False, True)
            )
            self._choice = ours < plain


class BatchRunner:
    """A loaded model, ready for rows of features.

    One graph with free shapes serves all batches; the kernels of oneDNN make
    it quick on a CPU (see `environment.py`). A single row is so small a
    computation that a program compiled by XLA for its length may be quicker.
    Both give the same values but for rounding.

    Args:
      model: all of its variables loaded.
      select: (outputs, features) -> dict of tensors [B, ...]: what is wanted
        of each row. Runs on the device.
      max_seq_length: longest row, and the longest padded length.
      xla: compile the program for single rows: True at once, False never,
        None tries both when rows of one length have come many times, and
        stays with the quicker one.
      strategy: devices to share each batch; the current one by default. XLA
        is not used with several replicas.
      fixed_length: pad every batch to `max_seq_length` and `max_rows`, for
        devices whose programs have fixed shapes.
      max_rows: most rows of a batch (of all replicas together).
      batch_tokens: most pieces of a batch, padding included.
    """

    def __init__(
        self,
        model: BertBase,
        select: Callable[[Outputs, Features], dict[str, tf.Tensor]],
        max_seq_length: int,
        *,
        xla: bool | None = None,
        strategy: tf.distribute.Strategy | None = None,
        fixed_length: bool = False,
        max_rows: int | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ):
        if fixed_length and not max_rows:
            raise ValueError("fixed_length needs max_rows")
        self.model = model
        self.max_seq_length = max_seq_length
        self.xla = xla
        self.strategy = strategy or tf.distribute.get_strategy()
        self.fixed_length = fixed_length
        self.max_rows = max_rows
        self.batch_tokens = batch_tokens
        self.lengths = (
            (max_seq_length,)
            if fixed_length
            else padded_lengths(max_seq_length)
        )
        self._select = select
        self._graphs: dict[str, Callable] = {}
        self._trials = collections.defaultdict(ProgramTrial)

    def map(self, rows: Sequence[Row]) -> list[dict[str, np.ndarray]]:
        """Computes rows, batches of like lengths at a time.

        Args:
          rows: features of each row without padding; see `pad_rows`.

        Returns:
          For each row its outputs, in the order of `rows`. What has a value
          for each piece has values for the padding too.
        """
        results: list[Any] = [None] * len(rows)
        for indices, length in length_batches(
            [len(row["input_ids"]) for row in rows],
            self.lengths,
            self.max_rows,
            self.batch_tokens,
        ):
            outputs = self.run([rows[i] for i in indices], length)
            for place, index in enumerate(indices):
                results[index] = {k: v[place] for k, v in outputs.items()}
        return results

    def stream(
        self, rows: Iterable[Row], window: int = _WINDOW_ROWS
    ) -> Iterator[dict[str, np.ndarray]]:
        """Computes any number of rows, holding `window` of them at a time."""
        rows = iter(rows)
        while chunk := list(itertools.islice(rows, window)):
            yield from self.map(chunk)

    def run(self, rows: Sequence[Row], length: int) -> dict[str, np.ndarray]:
        """Computes one batch; arrays [rows, ...], in the rows' order."""
        count = len(rows)
        replicas = self.strategy.num_replicas_in_sync
        missing = self.max_rows - count if self.fixed_length else 0
        missing += -(count + missing) % replicas
        features = pad_rows([*rows, *[rows[0]] * missing], length)
        if replicas > 1 or self.fixed_length:
            outputs = self._run_on_replicas(features, replicas)
        else:
            outputs = self._run_here(features)
        return {name: value[:count] for name, value in outputs.items()}

    def _run_here(self, features) -> dict[str, np.ndarray]:
        trial = None
        compiled = bool(self.xla) and len(features["input_ids"]) == 1
        if self.xla is None and len(features["input_ids"]) == 1:
            trial = self._trials[tuple(x.shape for x in features.values())]
            compiled = trial.choose()
        start = time.perf_counter()
        outputs = self._graph(features, compiled)(features)
        outputs = {name: value.numpy() for name, value in outputs.items()}
        if trial is not None:
            trial.add(compiled, time.perf_counter() - start)
        return outputs

    def _graph(self, features, compiled: bool) -> Callable:
        """The function for all shapes; XLA compiles it for each one."""
        kind = "xla" if compiled else "plain"
        if kind not in self._graphs:
            signature = {
                name: tf.TensorSpec((None, None), tf.int32, name)
                for name in features
            }
            # TensorFlow counts traces by code, and would warn of retracing
            # where a process has several models; a partial has no code.
            self._graphs[kind] = tf.function(
                functools.partial(self._compute),
                input_signature=[signature],
                jit_compile=compiled,
            )
        return self._graphs[kind]

    def _compute(self, features):
        return self._select(self.model(features, training=False), features)

    def _run_on_replicas(self, features, replicas) -> dict[str, np.ndarray]:
        """Gives each replica its share of the rows, and joins the results."""
        share = len(features["input_ids"]) // replicas

        def part(context):
            first = context.replica_id_in_sync_group * share
            return {
                name: tf.constant(value[first : first + share])
                for name, value in features.items()
            }

        local = self.strategy.experimental_distribute_values_from_function
        if "replicas" not in self._graphs:
            self._graphs["replicas"] = tf.function(
                lambda x: self.strategy.run(self._compute, args=(x,))
            )
        outputs = self._graphs["replicas"](local(part))
        return {
            name: np.concatenate(
                [
                    one.numpy()
                    for one in self.strategy.experimental_local_results(value)
                ]
            )
            for name, value in outputs.items()
        }
