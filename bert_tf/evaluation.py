"""Running a model over a whole data set, each example once.

Shape letters: B global batch.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf.distribution import is_multi_worker
from bert_tf.modeling import BertBase
from bert_tf.tasks.base import Task


class Evaluator:
    """Applies a model to batches on all replicas; results in record order.

    Args:
      task: says what is wanted of each example.
      model: made under the strategy's scope.
      strategy: the devices.
    """

    def __init__(
        self, task: Task, model: BertBase, strategy: tf.distribute.Strategy
    ):
        self.task = task
        self.model = model
        self.strategy = strategy
        self._is_multi_worker = is_multi_worker(strategy)
        self._batch_fn = tf.function(self._run_batch)

    def _run_batch(self, features):
        def step(features):
            outputs = self.model(features, training=False)
            return self.task.example_outputs(outputs, features)

        return self.strategy.run(step, args=(features,))

    def batches(
        self, dataset: Any, num_records: int, progress=None
    ) -> Iterator[dict[str, np.ndarray]]:
        """Yields the task's `example_outputs` of one global batch a time.

        Args:
          dataset: distributed batches, padding rows last.
          num_records: number of real rows; what follows them is cut off.
          progress: counts batches if given.

        Yields:
          Arrays [rows, ...], padding rows left out.
        """
        left = num_records
        for features in dataset:
            results = {
                name: self._join(value)
                for name, value in self._batch_fn(features).items()
            }
            yield {name: value[:left] for name, value in results.items()}
            if progress is not None:
                progress.update(1)
            left -= min(left, len(next(iter(results.values()))))

    def _join(self, value) -> np.ndarray:
        """Rows of all replicas, those of other workers included."""
        if self._is_multi_worker:
            return self.strategy.gather(value, axis=0).numpy()
        parts = self.strategy.experimental_local_results(value)
        return np.concatenate([part.numpy() for part in parts])
