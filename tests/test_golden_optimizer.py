"""Updates against the original: the optimizer alone, and whole steps."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import optimization
from bert_tf.checkpoint import read_variables, restore_variables
from bert_tf.config import BertConfig
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.pretraining import PretrainingTask
from bert_tf.training import Trainer, TrainState

RUNS = (
    "micro_warmup0_total20",
    "micro_warmup5_total15",
    "micro_warmup5_total20",
)


@pytest.mark.parametrize("decay", ["0", "0.01"])
def test_optimizer_alone(golden_dir, decay):
    golden = np.load(golden_dir / f"optimizer/unit_adamw_wd{decay}.npz")
    initial = {
        key.removeprefix("init/"): golden[key]
        for key in golden
        if key.startswith("init/")
    }
    unused = {"scope/unused_no_grad"}
    variables = {
        name: tf.Variable(value)
        for name, value in initial.items()
        if name not in unused
    }
    optimizer = optimization.AdamWeightDecay(float(decay))
    optimizer.build(variables)
    steps = sum(key.startswith("norm/") for key in golden)
    assert steps >= 6
    for step in range(steps):
        gradients = [golden[f"grad/{step:02d}/{name}"] for name in variables]
        clipped, norm = optimization.clip_by_global_norm(
            [tf.constant(g) for g in gradients]
        )
        np.testing.assert_allclose(norm, golden[f"norm/{step:02d}"], rtol=1e-5)
        optimizer.apply(
            clipped, tf.constant(golden["learning_rate"]), tf.constant(step)
        )
        prefix = f"after/{step:02d}/"
        after = {
            key.removeprefix(prefix): golden[key]
            for key in golden
            if key.startswith(prefix)
        }
        checked = 0
        for name, expected in after.items():
            if name in unused:
                np.testing.assert_array_equal(expected, initial[name])
                continue
            found = {**variables, **optimizer.slots}[name]
            is_slot = name.endswith(("adam_m", "adam_v"))
            np.testing.assert_allclose(
                found,
                expected,
                atol=1e-6 if is_slot else 2e-5,
                rtol=1e-3 if is_slot else 0,
                err_msg=f"{name} after step {step}",
            )
            checked += 1
        assert checked == 3 * len(variables)


def batches_of(golden):
    return {
        key.removeprefix("in/"): golden[key]
        for key in golden
        if key.startswith("in/")
    }


def make_trainer(task, config, golden, checkpoint, first=0, **model_kwargs):
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = task.create_model(config, **model_kwargs)
        state = TrainState.create(task, model, optimization.AdamWeightDecay())
    names = state.tensors()
    if first == 0:
        names = {k: names[k] for k in read_variables(checkpoint)}
    restore_variables(names, checkpoint)

    def schedule(step):
        return optimization.learning_rate_at(
            step,
            float(golden["init_lr"]),
            int(golden["num_train_steps"]),
            int(golden["num_warmup_steps"]),
        )

    dataset = tf.data.Dataset.from_tensor_slices(batches_of(golden)).skip(first)
    batches = strategy.experimental_distribute_dataset(dataset)
    return Trainer(task, state, schedule, strategy, batches, run_seed=1)


def micro_trainer(golden_dir, run, first=0):
    folder = golden_dir / "optimizer" / run
    golden = np.load(folder / "steps.npz")
    task = PretrainingTask(max_seq_length=12, max_predictions_per_seq=3)
    start = golden_dir / "checkpoints/micro"
    config = BertConfig.from_json_file(start / "bert_config.json")
    checkpoint = folder / f"model.ckpt-{first}"
    if first == 0:
        checkpoint = start / "bert_model.ckpt"
    return golden, make_trainer(task, config, golden, checkpoint, first)


def check_state(trainer, checkpoint):
    expected = read_variables(checkpoint)
    found = trainer.state.tensors()
    assert set(found) == set(expected)
    for name, value in expected.items():
        assert found[name].dtype.as_numpy_dtype == value.dtype, name
        slot = name.endswith(("adam_m", "adam_v"))
        atol = 1e-6 if slot else 1e-4 if name.endswith("key/bias") else 2e-5
        np.testing.assert_allclose(
            found[name].numpy(),
            value,
            atol=atol,
            rtol=1e-3 if slot else 0,
            err_msg=name,
        )


@pytest.mark.parametrize("run", RUNS)
def test_twenty_steps(golden_dir, run):
    golden, trainer = micro_trainer(golden_dir, run)
    for step in range(20):
        rate = trainer.schedule(trainer.state.global_step)
        np.testing.assert_allclose(
            rate, golden["learning_rate"][step], rtol=2e-6, atol=1e-12
        )
        means = trainer.train(1)
        for ours, theirs in (
            ("loss", "loss"),
            ("masked_lm_loss", "masked_lm_loss"),
            ("next_sentence_loss", "next_sentence_loss"),
            ("gradient_norm", "global_norm"),
        ):
            assert means[ours] == pytest.approx(
                golden[theirs][step], abs=5e-5
            ), (ours, step)
        if step == 9:
            check_state(trainer, golden_dir / f"optimizer/{run}/model.ckpt-10")
    check_state(trainer, golden_dir / f"optimizer/{run}/model.ckpt-20")


@pytest.mark.parametrize("run", RUNS)
def test_resuming_the_originals_checkpoint(golden_dir, run):
    _, trainer = micro_trainer(golden_dir, run, first=10)
    assert int(trainer.state.global_step) == 10
    trainer.train(10)
    check_state(trainer, golden_dir / f"optimizer/{run}/model.ckpt-20")


@pytest.mark.parametrize("use_one_hot", [False, True])
def test_classifier_fine_tuning(golden_dir, use_one_hot):
    """Our clipping norm is dense for a gather too: one result for both."""
    golden = np.load(golden_dir / "optimizer/clf_finetune_one_hot.npz")
    folder = golden_dir / "checkpoints/clf"
    config = BertConfig.from_json_file(folder / "bert_config.json")
    config = BertConfig.from_dict(
        {
            **config.to_dict(),
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
    )
    task = ClassificationTask(["a", "b", "c"], max_seq_length=12)
    trainer = make_trainer(
        task,
        config,
        golden,
        folder / "bert_model.ckpt",
        use_one_hot_embeddings=use_one_hot,
        head_dropout=0.0,
    )
    for step in range(8):
        means = trainer.train(1)
        assert means["loss"] == pytest.approx(golden["loss"][step], abs=5e-5)
        assert means["gradient_norm"] == pytest.approx(
            golden["global_norm"][step], abs=5e-5
        )
    found = trainer.state.tensors()
    finals = [key for key in golden if key.startswith("final/")]
    assert finals
    for key in finals:
        name = key.removeprefix("final/")
        np.testing.assert_allclose(
            found[name].numpy(),
            golden[key],
            atol=1e-4 if name.endswith("key/bias") else 2e-5,
            err_msg=name,
        )
    np.testing.assert_allclose(
        found["bert/embeddings/word_embeddings"].numpy()[
            golden["final_word_embedding_ids"]
        ],
        golden["final_word_embedding_rows"],
        atol=2e-5,
    )
