"""The update: seeds, several steps a call, what it reports."""

import dataclasses

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import optimization, stability, training
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


def make(
    dataset=None,
    task=ClassificationTask,
    with_unreached_variable=False,
    dropout=True,
    dtype=None,
    accumulation=1,
    reduction="global",
    jit=False,
):
    keras.utils.set_random_seed(2)
    rng = np.random.default_rng(4)
    task = task(["a", "b"], 8)
    config = CONFIG
    head = {}
    if not dropout:
        config = dataclasses.replace(
            CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
        )
        head = {"head_dropout": 0.0}
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = task.create_model(config, dtype=dtype, **head)
        optimizer = optimization.AdamWeightDecay()
        state = TrainState.create(task, model, optimizer)
        if with_unreached_variable:
            left_out = {"left_out": tf.Variable(1.0)}
            optimizer.build({**optimizer.variables, **left_out})
        scale = stability.LossScale(dynamic=dtype == "mixed_float16")
    if dataset is None:
        ids = rng.integers(5, 40, (4 * STEPS, 8)).astype("int32")
        dataset = tf.data.Dataset.from_tensor_slices(
            {
                "input_ids": ids,
                "label_ids": (ids[:, 0] > 20).astype("int32"),
            }
        ).batch(4, drop_remainder=True)

    def schedule(step):
        return optimization.learning_rate_at(step, 1e-2, STEPS, 0)

    return Trainer(
        task,
        state,
        schedule,
        strategy,
        strategy.experimental_distribute_dataset(dataset),
        run_seed=1,
        options=training.StepOptions(accumulation, reduction, jit),
        loss_scale=scale,
    )


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


@pytest.mark.parametrize("before", [False, True])
def test_graph_optimizer_is_off_in_training_alone(before, monkeypatch):
    options, option = tf.config.optimizer, "disable_meta_optimizer"

    def is_off():
        return options.get_experimental_options().get(option, False)

    trainer, seen = make(), []
    monkeypatch.setattr(
        trainer, "train_loop_begin", lambda: seen.append(is_off())
    )
    assert not is_off()
    options.set_experimental_options({option: before})
    try:
        trainer.train(1)
        assert is_off() == before
    finally:
        options.set_experimental_options({option: False})
    assert seen == [not tf.config.list_logical_devices("GPU")]


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
    trainer = make(with_unreached_variable=True)
    with pytest.raises(AssertionError, match=r"no gradient.*left_out"):
        trainer.train(1)


def test_accumulation_is_one_large_batch():
    whole, parts = make(dropout=False), make(accumulation=4, dropout=False)
    one, two = whole.train(STEPS), parts.train(STEPS)
    assert one["loss"] == pytest.approx(two["loss"], abs=1e-5)
    assert one["gradient_norm"] == pytest.approx(two["gradient_norm"], 1e-4)
    first, second = weights(whole), weights(parts)
    assert first["global_step"] == second["global_step"] == STEPS
    for name, value in first.items():
        atol = 1e-4 if "key/bias" in name else 1e-5
        np.testing.assert_allclose(second[name], value, atol=atol, err_msg=name)


def test_microbatches_draw_their_own_dropout():
    one, two = make(), make(accumulation=2)
    assert one.train(1)["loss"] != pytest.approx(two.train(1)["loss"], 1e-5)


def test_compiled_pass_gives_the_same():
    plain, compiled = make(dropout=False), make(jit=True, dropout=False)
    assert plain.train(2)["loss"] == pytest.approx(
        compiled.train(2)["loss"], abs=1e-5
    )


class Poisoned(ClassificationTask):
    """Loses its finite loss on the batches that hold the id 39 first."""

    def loss_sums(self, outputs, features):
        bad = tf.reduce_any(features["input_ids"][:, 0] == 39)
        sums = super().loss_sums(outputs, features)
        return {k: tf.where(bad, np.nan, 1.0) * v for k, v in sums.items()}


def poisoned_batches(bad_steps):
    rng = np.random.default_rng(4)
    ids = rng.integers(5, 39, (STEPS, 4, 8)).astype("int32")
    ids[list(bad_steps), 1, 0] = 39
    labels = (ids[:, :, 1] > 20).astype("int32")
    return tf.data.Dataset.from_tensor_slices(
        {"input_ids": ids, "label_ids": labels}
    )


def test_update_without_finite_gradients_is_skipped():
    trainer = make(task=Poisoned, dataset=poisoned_batches([2]))
    trainer.train(2)
    before = weights(trainer)
    means = trainer.train(1)
    after = weights(trainer)
    assert after.pop("global_step") == 3 and before.pop("global_step") == 2
    for name, value in before.items():
        np.testing.assert_array_equal(after[name], value, err_msg=name)
    assert trainer.loss_scale.skipped_in_call() == 1
    assert means["loss"] == 0.0
    assert np.isfinite(trainer.train(3)["loss"])
    assert int(trainer.loss_scale.skipped.numpy()) == 1
    trainer.loss_scale.check(limit=1)


def test_diverged_run_stops():
    trainer = make(task=Poisoned, dataset=poisoned_batches([3, 4, 5]))
    trainer.train(STEPS)
    trainer.loss_scale.check(limit=4)
    with pytest.raises(ValueError, match=r"last 3 steps.*max_skipped_steps is"):
        trainer.loss_scale.check(limit=3)


def test_float16_scales_its_loss():
    trainer = make(dtype="mixed_float16", dropout=False)
    plain = make(dropout=False)
    scaled = trainer.train(STEPS)
    assert scaled["loss"] == pytest.approx(plain.train(STEPS)["loss"], rel=0.05)
    assert scaled["gradient_norm"] > 0.01
    assert float(trainer.loss_scale.current()) == stability.INITIAL_SCALE


def test_loss_scale_falls_and_grows():
    scale = stability.LossScale(dynamic=True, growth_steps=3)
    start = float(scale.current())
    scale.update(tf.constant(False))
    assert float(scale.current()) == start / 2
    for _ in range(3):
        scale.update(tf.constant(True))
    assert float(scale.current()) == start
    kept = scale.sidecar()
    other = stability.LossScale(dynamic=True)
    other.restore(kept)
    assert other.sidecar() == kept and kept["skipped_steps"] == 1


def test_original_tpu_reduction_on_one_replica_is_the_same():
    one, two = (
        make(dropout=False),
        make(reduction="original_tpu", dropout=False),
    )
    assert one.train(3)["loss"] == pytest.approx(two.train(3)["loss"], abs=1e-6)


def test_unknown_reduction():
    with pytest.raises(ValueError, match="--gradient_reduction is 'mean'"):
        training.StepOptions(reduction="mean")
