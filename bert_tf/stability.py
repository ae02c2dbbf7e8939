"""Updates that cannot be made: counted, and met by loss scaling.

Micikevicius et al. 2017 (arXiv 1710.03740), section 3.2: the loss is
multiplied by a scale so that small float16 gradients do not vanish. A scale
that makes them overflow is halved, one that has held for long is doubled.
"""

from typing import Any

import tensorflow as tf

INITIAL_SCALE = 2.0**15
GROWTH_STEPS = 2000
_LARGEST_SCALE = 2.0**24


def _counter() -> tf.Variable:
    return tf.Variable(
        0,
        dtype=tf.int64,
        trainable=False,
        aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
    )


class LossScale:
    """The scale of the loss, and how many updates were skipped.

    Make it under the strategy's scope.

    Args:
      dynamic: change the scale as gradients overflow or not, for float16;
        else it stays 1 and updates are only counted.
      growth_steps: updates without overflow before the scale is doubled.
    """

    def __init__(self, dynamic: bool, growth_steps: int = GROWTH_STEPS):
        self.dynamic = dynamic
        self.growth_steps = growth_steps
        self.scale = tf.Variable(
            INITIAL_SCALE if dynamic else 1.0,
            dtype=tf.float32,
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        self.good_steps = _counter()
        self.skipped = _counter()
        self.skipped_in_a_row = _counter()
        self._skipped_before = 0

    def current(self) -> tf.Tensor:
        """The scale, float32 scalar."""
        return self.scale.read_value() if self.dynamic else tf.ones([])

    def update(self, finite: tf.Tensor) -> None:
        """Takes note of one update; runs in the replicas.

        Args:
          finite: bool scalar, the same on all replicas: the update was made.
        """
        skip = tf.cast(tf.logical_not(finite), tf.int64)
        self.skipped.assign_add(skip)
        in_a_row = self.skipped_in_a_row.read_value()
        self.skipped_in_a_row.assign((in_a_row + 1) * skip)
        if not self.dynamic:
            return
        good = (self.good_steps.read_value() + 1) * (1 - skip)
        grow = good >= self.growth_steps
        scale = self.scale.read_value()
        grown = tf.minimum(scale * 2.0, _LARGEST_SCALE)
        kept = tf.where(grow, grown, scale)
        lowered = tf.maximum(scale / 2.0, 1.0)
        self.scale.assign(tf.where(finite, kept, lowered))
        self.good_steps.assign(tf.where(grow, tf.zeros_like(good), good))

    def start_call(self) -> None:
        """Marks the beginning of a call of several steps."""
        self._skipped_before = int(self.skipped.numpy())

    def skipped_in_call(self) -> int:
        """Updates skipped since `start_call`."""
        return int(self.skipped.numpy()) - self._skipped_before

    def check(self, limit: int) -> None:
        """Stops a run whose gradients stay without a finite value.

        Raises:
          ValueError: `limit` updates in a row were skipped.
        """
        in_a_row = int(self.skipped_in_a_row.numpy())
        if in_a_row >= limit:
            raise ValueError(
                f"the gradients of the last {in_a_row} steps were not finite, "
                f"--max_skipped_steps is {limit}: the loss has diverged. Lower "
                "--learning_rate or start from an earlier checkpoint; the "
                "weights have not been changed by these steps"
            )

    def sidecar(self) -> dict[str, Any]:
        """JSON values to keep beside a checkpoint."""
        return {
            "loss_scale": float(self.scale.numpy()),
            "good_steps": int(self.good_steps.numpy()),
            "skipped_steps": int(self.skipped.numpy()),
        }

    def restore(self, values: dict[str, Any]) -> None:
        """Takes up what `sidecar` gave."""
        if self.dynamic and "loss_scale" in values:
            self.scale.assign(values["loss_scale"])
            self.good_steps.assign(values.get("good_steps", 0))
        self.skipped.assign(values.get("skipped_steps", 0))
