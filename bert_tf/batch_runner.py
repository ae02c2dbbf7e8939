"""Applies a model to rows of any length; results in the rows' order.

Shape letters: B rows of a batch, S its padded length.
"""

import collections
import functools
import itertools
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
# shape has shown that it comes again and again.
_CALLS_BEFORE_XLA = 32
_WINDOW_ROWS = 1024

Outputs = Mapping[str, Any]
Features = Mapping[str, tf.Tensor]


class BatchRunner:
    """A loaded model, ready for rows of features.

    One graph with free shapes serves all batches. A single row is a small
    computation, for which programs compiled by XLA are quicker on a CPU; for
    large batches the kernels of oneDNN are (see `environment.py`). Both give
    the same values but for rounding.

    Args:
      model: all of its variables loaded.
      select: (outputs, features) -> dict of tensors [B, ...]: what is wanted
        of each row. Runs on the device.
      max_seq_length: longest row, and the longest padded length.
      xla: compile the program for single rows: True at once, False never,
        None when one of a length has come many times.
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
        self._calls: collections.Counter = collections.Counter()

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
            graph = self._graph(features, self._worth_compiling(features))
            outputs = {
                name: value.numpy() for name, value in graph(features).items()
            }
        return {name: value[:count] for name, value in outputs.items()}

    def _worth_compiling(self, features: Mapping[str, np.ndarray]) -> bool:
        if len(features["input_ids"]) > 1 or self.xla is not None:
            return bool(self.xla) and len(features["input_ids"]) == 1
        shape = tuple(x.shape[1] for x in features.values())
        self._calls[shape] += 1
        return self._calls[shape] > _CALLS_BEFORE_XLA

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
