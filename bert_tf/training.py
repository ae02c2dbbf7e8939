"""The training step, for every strategy.

One update, written down:

1. A global batch of `train_batch_size` records is divided evenly over the
   replicas; each divides its share into `gradient_accumulation_steps`
   micro-batches that are computed one after the other.
2. A loss term is a sum over examples divided by a weight. The weights are
   summed over the whole global batch first, so that the loss and its gradient
   are those of the global batch, whatever the number of replicas and
   micro-batches.
3. Gradients are made dense and summed over micro-batches and replicas.
4. Their global norm is clipped to 1.0. If it is not finite, the update is
   skipped: weights and moments stay, the step counter moves on, since its
   examples have been read.
5. The optimizer applies the same gradients everywhere, with the learning rate
   of the step before the update; then the step counter moves.

`gradient_reduction="original_tpu"` does what the original does on N TPU cores
instead: each replica takes the weights of its own share, clips its own
gradient to 1.0, and the clipped gradients are summed, not averaged.

Dropout is stateless: its seed is a function of (run seed, step, replica,
micro-batch), and each place in the model has its own part of it. A step that
is replayed drops the same values again.
"""

import contextlib
import dataclasses
import gc
from collections.abc import Callable, Mapping
from typing import Any

import orbit
import tensorflow as tf

from bert_tf.checkpoint import checkpoint_names
from bert_tf.modeling import BertBase
from bert_tf.optimization import AdamWeightDecay, clip_factor
from bert_tf.stability import LossScale
from bert_tf.tasks.base import Task

GLOBAL_STEP = "global_step"
GRADIENT_REDUCTIONS = ("global", "original_tpu")


@dataclasses.dataclass
class TrainState:
    """All that a checkpoint holds.

    Attributes:
      model: the model.
      optimizer: built for the trained variables of the model.
      global_step: int64 scalar, number of batches taken.
    """

    model: BertBase
    optimizer: AdamWeightDecay
    global_step: tf.Variable

    @classmethod
    def create(
        cls, task: Task, model: BertBase, optimizer: AdamWeightDecay
    ) -> "TrainState":
        """Makes slots and step counter; call under the strategy's scope."""
        optimizer.build(task.trained_variables(model))
        global_step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            name=GLOBAL_STEP,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
        )
        return cls(model, optimizer, global_step)

    def tensors(self) -> dict[str, tf.Variable]:
        """Everything under its checkpoint name."""
        return {
            **checkpoint_names(self.model),
            **self.optimizer.slots,
            GLOBAL_STEP: self.global_step,
        }


@dataclasses.dataclass(frozen=True)
class StepOptions:
    """How an update is computed; see the module's docstring.

    Attributes:
      accumulation: micro-batches of one update.
      reduction: one of `GRADIENT_REDUCTIONS`.
      jit_compile: compile forward and backward pass with XLA; on one device.
    """

    accumulation: int = 1
    reduction: str = "global"
    jit_compile: bool = False

    def __post_init__(self):
        if self.reduction not in GRADIENT_REDUCTIONS:
            raise ValueError(
                f"--gradient_reduction is {self.reduction!r}, expected one of "
                f"{', '.join(GRADIENT_REDUCTIONS)}"
            )


def dropout_seed(
    run_seed: int, step: tf.Tensor, replica: tf.Tensor
) -> tf.Tensor:
    """int32 [2], another for each (seed, step, replica)."""
    fold_in = tf.random.experimental.stateless_fold_in
    seed = tf.constant([run_seed & 0x7FFFFFFF, 0], tf.int32)
    return fold_in(fold_in(seed, tf.cast(step, tf.int32)), replica)


class Trainer(orbit.StandardTrainer):
    """Runs several updates in one traced call.

    Args:
      task: gives the loss.
      state: model, optimizer and step.
      schedule: step -> learning rate.
      strategy: the strategy under which the state was made.
      dataset: batches, distributed by the strategy.
      run_seed: seed of the dropout.
      options: how an update is computed.
      loss_scale: made under the strategy's scope; None without scaling.
    """

    def __init__(
        self,
        task: Task,
        state: TrainState,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        strategy: tf.distribute.Strategy,
        dataset: Any,
        run_seed: int,
        options: StepOptions = StepOptions(),
        loss_scale: LossScale | None = None,
    ):
        self.task = task
        self.state = state
        self.schedule = schedule
        self.strategy = strategy
        self.run_seed = run_seed
        self.options = options
        self._variables = list(state.optimizer.variables.values())
        with strategy.scope():
            self.loss_scale = loss_scale or LossScale(dynamic=False)
            self._sums = {
                name: _sum_over_replicas()
                for name in ("loss", *task.loss_terms, "gradient_norm")
            }
        self._num_steps = 0
        self._is_traced = False
        self._only_cpus = all(
            device.device_type == "CPU"
            for device in tf.config.list_logical_devices()
        )
        self._gradients_fn = self._compute_gradients
        if options.jit_compile:
            self._gradients_fn = tf.function(
                self._compute_gradients, jit_compile=True
            )
        super().__init__(dataset)

    def train(self, num_steps) -> dict[str, float]:
        """Takes `num_steps` batches; returns means over their updates."""
        self._num_steps = int(num_steps)
        num_steps = tf.convert_to_tensor(num_steps, tf.int32)
        with contextlib.ExitStack() as stack:
            if self._only_cpus:
                stack.enter_context(_graph_as_traced())
            if not self._is_traced:
                stack.enter_context(_garbage_kept())
            self._is_traced = True
            return super().train(num_steps)

    def train_loop_begin(self):
        for variable in self._sums.values():
            variable.assign(0.0)
        self.loss_scale.start_call()

    # Nothing in a step needs autograph, which would take longer than the
    # rest of the tracing, and would read the source files again.
    @tf.autograph.experimental.do_not_convert
    def train_step(self, iterator):
        """One update; orbit's loop calls it while it traces."""

        def step(features):
            self._replica_step(features)

        self.strategy.run(step, args=(next(iterator),))

    def train_loop_end(self) -> dict[str, float]:
        updates = self._num_steps - self.loss_scale.skipped_in_call()
        means = {
            name: float(variable.read_value()) / max(updates, 1)
            for name, variable in self._sums.items()
        }
        if len(self.task.loss_terms) == 1:
            del means[self.task.loss_terms[0]]
        return means

    # In the replicas ------------------------------------------------------

    def _replica_step(self, features):
        context = tf.distribute.get_replica_context()
        step = self.state.global_step.read_value()
        seed = dropout_seed(
            self.run_seed, step, context.replica_id_in_sync_group
        )
        gradients, terms = self._gradients_fn(
            features,
            self._term_weights(features),
            seed,
            self.loss_scale.current(),
        )
        norm, finite = self.apply_gradients(gradients, step)
        losses = {**terms, "loss": tf.add_n(list(terms.values()))}
        replicas = self.strategy.num_replicas_in_sync
        share = 1.0 / replicas
        if self.options.reduction == "original_tpu":
            losses = {name: value * share for name, value in losses.items()}
        losses["gradient_norm"] = norm * share
        for name, value in losses.items():
            self._sums[name].assign_add(tf.where(finite, value, 0.0))
        self.state.global_step.assign_add(1)

    def _all_reduce(self, values):
        if self.strategy.num_replicas_in_sync == 1:
            return values
        context = tf.distribute.get_replica_context()
        return context.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _term_weights(self, features) -> dict[str, tf.Tensor]:
        """The divisor of each loss term."""
        weights = self.task.loss_weights(features)
        if self.options.reduction == "global":
            weights = self._all_reduce(weights)
        epsilon = self.task.loss_epsilon
        return {
            name: weight + epsilon.get(name, 0.0)
            for name, weight in weights.items()
        }

    def _compute_gradients(self, features, weights, seed, scale):
        """Gradients and loss terms of this replica's share of the batch."""
        count = self.options.accumulation
        if count == 1:
            return self._one_pass(features, weights, seed, scale)
        parts = {
            name: tf.reshape(x, [count, x.shape[0] // count, *x.shape[1:]])
            for name, x in features.items()
        }
        fold_in = tf.random.experimental.stateless_fold_in

        def body(i, gradients, terms):
            part = {name: x[i] for name, x in parts.items()}
            new, new_terms = self._one_pass(
                part, weights, fold_in(seed, i), scale
            )
            gradients = [a + b for a, b in zip(gradients, new, strict=True)]
            terms = {name: terms[name] + new_terms[name] for name in terms}
            return i + 1, gradients, terms

        _, gradients, terms = tf.while_loop(
            lambda i, *_: i < count,
            body,
            (
                0,
                [tf.zeros(v.shape, tf.float32) for v in self._variables],
                {name: tf.zeros([]) for name in self.task.loss_terms},
            ),
            maximum_iterations=count,
        )
        return gradients, terms

    def _one_pass(
        self, features: Mapping[str, tf.Tensor], weights, seed, scale
    ):
        with tf.GradientTape() as tape:
            outputs = self.state.model(
                features, training=True, dropout_seed=seed
            )
            sums = self.task.loss_sums(outputs, features)
            terms = {name: sums[name] / weights[name] for name in sums}
            loss = tf.add_n(list(terms.values())) * scale
        gradients = tape.gradient(loss, self._variables)
        names = self.state.optimizer.variables
        without = [
            name for name, g in zip(names, gradients, strict=True) if g is None
        ]
        assert not without, f"no gradient reaches {without}"
        return [tf.convert_to_tensor(g) for g in gradients], terms

    def apply_gradients(self, gradients, step) -> tuple[tf.Tensor, tf.Tensor]:
        """Reduces, clips and applies, or skips the update.

        Args:
          gradients: dense, of the scaled loss, of this replica.
          step: batches taken before.

        Returns:
          The norm before clipping, and whether the update was made.
        """
        unscale = 1.0 / self.loss_scale.current()
        if self.options.reduction == "original_tpu":
            # The scale is taken out first: clipping is not linear.
            norm = tf.linalg.global_norm(gradients) * unscale
            factor = unscale * clip_factor(norm)
            gradients = self._all_reduce(
                [tf.math.multiply_no_nan(g, factor) for g in gradients]
            )
            norm = self._all_reduce(norm) / self.strategy.num_replicas_in_sync
            factor = tf.ones([])
        else:
            gradients = self._all_reduce(gradients)
            norm = tf.linalg.global_norm(gradients) * unscale
            factor = unscale * clip_factor(norm)
        finite = tf.math.is_finite(norm)
        factor = tf.where(finite, factor, 0.0)
        gradients = [tf.math.multiply_no_nan(g, factor) for g in gradients]
        self.state.optimizer.apply(gradients, self.schedule(step), step, finite)
        self.loss_scale.update(finite)
        return norm, finite


@contextlib.contextmanager
def _garbage_kept():
    """Collects no garbage: a tenth of the time of tracing goes there."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextlib.contextmanager
def _graph_as_traced():
    """Leaves out TensorFlow's graph optimizer (Grappler).

    On processors a step is as fast without it, and the first one a sixth
    faster.
    """
    option = "disable_meta_optimizer"
    options = tf.config.optimizer
    before = options.get_experimental_options().get(option, False)
    options.set_experimental_options({option: True})
    try:
        yield
    finally:
        options.set_experimental_options({option: before})


def _sum_over_replicas() -> tf.Variable:
    return tf.Variable(
        0.0,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
    )
