"""The update: seeds, several steps a call, what it reports."""

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import optimization, training
from bert_tf.config import BertConfig
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.training import Trainer, TrainState

CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=8,
    type_vocab_size=2,
)
STEPS = 6


def make(rate=1e-2, dataset=None):
    keras.utils.set_random_seed(2)
    rng = np.random.default_rng(4)
    task = ClassificationTask(["a", "b"], 8)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = task.create_model(CONFIG)
        state = TrainState.create(task, model, optimization.AdamWeightDecay())
    if dataset is None:
        ids = rng.integers(5, 40, (4 * STEPS, 8)).astype("int32")
        dataset = tf.data.Dataset.from_tensor_slices(
            {
                "input_ids": ids,
                "label_ids": (ids[:, 0] > 20).astype("int32"),
            }
        ).batch(4, drop_remainder=True)

    def schedule(step):
        return optimization.learning_rate_at(step, rate, STEPS, 0)

    return Trainer(task, state, schedule, strategy, dataset, run_seed=1)


def weights(trainer):
    return {n: v.numpy() for n, v in trainer.state.tensors().items()}


def test_steps_per_call_do_not_change_the_result():
    many, few = make(), make()
    many.train(STEPS)
    for count in (1, 2, 3):
        few.train(count)
    one, two = weights(many), weights(few)
    assert one["global_step"] == two["global_step"] == STEPS
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)


def test_one_trace_serves_all_calls():
    trainer = make()
    for count in (1, 2, 3):
        trainer.train(count)
    assert trainer._train_loop_fn.experimental_get_tracing_count() == 1


def test_reported_loss_is_the_mean_over_the_calls_steps():
    single, joint = make(), make()
    losses = [single.train(1)["loss"] for _ in range(STEPS)]
    assert joint.train(STEPS)["loss"] == pytest.approx(np.mean(losses), 1e-5)


def test_slots_only_for_trained_variables():
    trainer = make()
    names = trainer.state.tensors()
    slots = [n for n in names if n.endswith("/adam_m")]
    assert len(slots) == len(trainer.state.optimizer.variables)
    assert len(names) == 3 * len(slots) + 1


def test_dropout_seed_depends_on_everything():
    seeds = {
        tuple(training.dropout_seed(run, tf.constant(step), replica).numpy())
        for run in (1, 2)
        for step in (0, 1)
        for replica in (0, 1)
    }
    assert len(seeds) == 8


def test_missing_gradient_is_our_own_fault():
    trainer = make()
    gradients = [None] * len(trainer.state.optimizer.variables)
    with pytest.raises(AssertionError, match="no gradient reaches"):
        trainer.apply_gradients(gradients, tf.constant(0))
