"""The training step and the loop round it, for every strategy.

One update, written down. A global batch of `train_batch_size` examples is
divided evenly over the replicas. Each replica computes the sums of its loss
terms; the weights of the terms are summed over all replicas first, so that
the loss, and with it the gradient, is that of the global batch whatever the
number of replicas. Gradients are made dense, summed over the replicas,
clipped to a global norm of 1.0, and applied everywhere alike with the
learning rate of the step before the update; then the step counter moves.

Dropout is stateless: its seed is a function of (run seed, step, replica), and
each place in the model has its own part of it. A step that is replayed drops
the same values again.
"""

import dataclasses
from collections.abc import Callable

import orbit
import tensorflow as tf

from bert_tf.checkpoint import checkpoint_names
from bert_tf.modeling import BertBase
from bert_tf.optimization import AdamWeightDecay, clip_by_global_norm
from bert_tf.tasks.base import Task

GLOBAL_STEP = "global_step"


@dataclasses.dataclass
class TrainState:
    """All that a checkpoint holds.

    Attributes:
      model: the model.
      optimizer: built for the trained variables of the model.
      global_step: int64 scalar, number of updates made.
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
      dataset: global batches.
      run_seed: seed of the dropout.
    """

    def __init__(
        self,
        task: Task,
        state: TrainState,
        schedule: Callable[[tf.Tensor], tf.Tensor],
        strategy: tf.distribute.Strategy,
        dataset: tf.data.Dataset,
        run_seed: int,
    ):
        self.task = task
        self.state = state
        self.schedule = schedule
        self.strategy = strategy
        self.run_seed = run_seed
        self._variables = list(state.optimizer.variables.values())
        self._sums: dict[str, tf.Variable] = {}
        spec = dataset.element_spec
        self._terms = list(_abstract_terms(task, spec))
        with strategy.scope():
            for name in ("loss", *self._terms):
                self._sums[name] = _sum_over_replicas()
            self._norm_sum = _sum_over_replicas()
        self._num_steps = 0
        super().__init__(strategy.experimental_distribute_dataset(dataset))

    def train(self, num_steps) -> dict[str, float]:
        """Makes `num_steps` updates; returns means over them."""
        self._num_steps = int(num_steps)
        return super().train(tf.convert_to_tensor(num_steps, tf.int32))

    def train_loop_begin(self):
        for variable in (*self._sums.values(), self._norm_sum):
            variable.assign(0.0)

    def train_step(self, iterator):
        def step(features):
            self._replica_step(features)

        self.strategy.run(step, args=(next(iterator),))

    def train_loop_end(self) -> dict[str, float]:
        means = {
            name: float(variable.read_value()) / self._num_steps
            for name, variable in (
                *self._sums.items(),
                ("gradient_norm", self._norm_sum),
            )
        }
        if len(self._terms) == 1:
            del means[self._terms[0]]
        return means

    def _replica_step(self, features):
        context = tf.distribute.get_replica_context()
        step = self.state.global_step.read_value()
        weights = self.task.loss_weights(features)
        if self.strategy.num_replicas_in_sync > 1:
            weights = context.all_reduce(tf.distribute.ReduceOp.SUM, weights)
        seed = dropout_seed(
            self.run_seed, step, context.replica_id_in_sync_group
        )
        with tf.GradientTape() as tape:
            outputs = self.state.model(
                features, training=True, dropout_seed=seed
            )
            terms = {
                name: total
                / (weights[name] + self.task.loss_epsilon.get(name, 0.0))
                for name, total in self.task.loss_sums(
                    outputs, features
                ).items()
            }
            loss = tf.add_n(list(terms.values()))
        gradients = tape.gradient(loss, self._variables)
        norm = self.apply_gradients(gradients, step)
        self._sums["loss"].assign_add(loss)
        for name, value in terms.items():
            self._sums[name].assign_add(value)
        self._norm_sum.assign_add(norm / self.strategy.num_replicas_in_sync)
        self.state.global_step.assign_add(1)

    def apply_gradients(self, gradients, step) -> tf.Tensor:
        """Reduces, clips and applies; returns the norm before clipping."""
        names = self.state.optimizer.variables
        without = [
            name for name, g in zip(names, gradients, strict=True) if g is None
        ]
        assert not without, f"no gradient reaches {without}"
        gradients = [tf.convert_to_tensor(g) for g in gradients]
        if self.strategy.num_replicas_in_sync > 1:
            gradients = tf.distribute.get_replica_context().all_reduce(
                tf.distribute.ReduceOp.SUM, gradients
            )
        gradients, norm = clip_by_global_norm(gradients)
        self.state.optimizer.apply(gradients, self.schedule(step), step)
        return norm


def _sum_over_replicas() -> tf.Variable:
    return tf.Variable(
        0.0,
        trainable=False,
        synchronization=tf.VariableSynchronization.ON_READ,
        aggregation=tf.VariableAggregation.SUM,
    )


def _abstract_terms(task: Task, element_spec) -> list[str]:
    """Names of the task's loss terms, found by tracing."""
    names: list[str] = []

    @tf.function
    def trace(features):
        names.extend(task.loss_weights(features))
        return 0

    trace.get_concrete_function(element_spec)
    return names
