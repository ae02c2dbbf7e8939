"""Forward values, gradients and single operations against the original."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import layers, losses, optimization
from bert_tf.checkpoint import checkpoint_names, load_checkpoint
from bert_tf.config import BertConfig
from bert_tf.heads import (
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
)

CHECKPOINTS = ("tiny", "odd", "relu", "cased", "micro", "deep")
CASES = ("edges", "maxlen", "len1", "defaults", "oob_types_zero_weights")


def build(golden_dir, name, model_class, *args, **kwargs):
    folder = golden_dir / "checkpoints" / name
    config = BertConfig.from_json_file(folder / "bert_config.json")
    model = model_class(config, *args, **kwargs)
    load_checkpoint(model, folder / "bert_model.ckpt", strict=True)
    return model


def masked_lm_and_next_sentence(outputs, batch):
    """The losses as the pre-training script computes them."""
    per_slot = losses.softmax_cross_entropy(
        outputs["masked_lm_logits"], batch["masked_lm_ids"]
    )
    masked_lm = losses.weighted_mean(
        per_slot, batch["masked_lm_weights"], losses.MASKED_LM_EPSILON
    )
    per_row = losses.softmax_cross_entropy(
        outputs["next_sentence_logits"], batch["next_sentence_labels"][:, 0]
    )
    return per_slot, masked_lm, per_row, tf.reduce_mean(per_row)


def compare(found, expected, loose_rows, atol, label):
    """Rows hidden from attention altogether are ill-conditioned."""
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.shape == expected.shape, label
    strict = np.ones(len(expected), bool)
    strict[loose_rows] = False
    np.testing.assert_allclose(
        found[strict], expected[strict], atol=atol, rtol=0, err_msg=label
    )
    np.testing.assert_allclose(
        found, expected, atol=2e-3, rtol=0, err_msg=label
    )


@pytest.mark.parametrize("use_one_hot", [False, True])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", CHECKPOINTS)
def test_forward(golden_dir, name, case, use_one_hot):
    model = build(
        golden_dir,
        name,
        BertForPreTraining,
        use_one_hot_embeddings=use_one_hot,
    )
    golden = np.load(golden_dir / "forward" / f"{name}_{case}.npz")
    batch = {k: golden[k] for k in golden if not k.startswith("out_")}
    outputs = model(batch, return_attention_probs=True)
    mask = batch.get("input_mask")
    hidden = [] if mask is None else np.flatnonzero(mask.sum(axis=1) == 0)
    per_slot, masked_lm, per_row, next_sentence = masked_lm_and_next_sentence(
        outputs, batch
    )
    slots = batch["masked_lm_ids"].shape[1]
    flat = np.concatenate(
        [np.arange(r * slots, (r + 1) * slots) for r in hidden] or [[]]
    ).astype(int)
    vocab = model.config.vocab_size
    logits = tf.reshape(outputs["masked_lm_logits"], [-1, vocab])
    found = {
        "embedding_output": outputs["embedding_output"],
        "sequence_output": outputs["sequence_output"],
        "pooled_output": outputs["pooled_output"],
        "next_sentence_logits": outputs["next_sentence_logits"],
        "next_sentence_log_probs": tf.nn.log_softmax(
            outputs["next_sentence_logits"]
        ),
        "next_sentence_example_loss": per_row,
    }
    for i, layer in enumerate(outputs["all_encoder_layers"]):
        found[f"encoder_layer_{i}"] = layer
    for i, probs in enumerate(outputs["attention_probs"]):
        found[f"attention_probs_{i}"] = probs
    by_slot = {
        "masked_lm_logits": logits,
        "masked_lm_log_probs": tf.nn.log_softmax(logits),
        "masked_lm_example_loss": tf.reshape(per_slot, [-1]),
    }
    scalars = {
        "masked_lm_loss": masked_lm,
        "next_sentence_loss": next_sentence,
        "total_loss": masked_lm + next_sentence,
    }
    checked = set()
    for key, value in {**found, **by_slot}.items():
        if f"out_{key}" in golden:
            rows = flat if key in by_slot else hidden
            compare(value, golden[f"out_{key}"], rows, 2e-5, key)
            checked.add(f"out_{key}")
    for key, value in scalars.items():
        atol = 2e-3 if len(hidden) else 2e-5
        assert float(value) == pytest.approx(golden[f"out_{key}"], abs=atol)
        checked.add(f"out_{key}")
    assert checked == {k for k in golden if k.startswith("out_")}


def test_classifier_head(golden_dir):
    model = build(golden_dir, "clf", BertForSequenceClassification, 3)
    golden = np.load(golden_dir / "forward" / "clf_head.npz")
    batch = {k: golden[k] for k in golden if not k.startswith("out_")}
    logits = model(batch)["logits"]
    loss = losses.softmax_cross_entropy(logits, golden["label_ids"])
    compare(logits, golden["out_logits"], [2], 2e-5, "logits")
    compare(loss, golden["out_per_example_loss"], [2], 2e-5, "loss")
    compare(
        tf.nn.softmax(logits), golden["out_probabilities"], [2], 1e-5, "probs"
    )
    assert float(tf.reduce_mean(loss)) == pytest.approx(
        golden["out_loss"], abs=2e-3
    )


def test_squad_head(golden_dir):
    model = build(golden_dir, "squad", BertForQuestionAnswering)
    golden = np.load(golden_dir / "forward" / "squad_head.npz")
    batch = {k: golden[k] for k in golden if not k.startswith("out_")}
    outputs = model(batch)
    for end in ("start", "end"):
        logits = outputs[f"{end}_logits"]
        compare(logits, golden[f"out_{end}_logits"], [2], 2e-5, end)
        loss = losses.softmax_cross_entropy(logits, batch[f"{end}_positions"])
        assert float(tf.reduce_mean(loss)) == pytest.approx(
            golden[f"out_{end}_loss"], abs=2e-3
        )
    loss = losses.span_cross_entropy(
        outputs["start_logits"],
        outputs["end_logits"],
        batch["start_positions"],
        batch["end_positions"],
    )
    assert float(tf.reduce_mean(loss)) == pytest.approx(
        golden["out_loss"], abs=2e-3
    )


def check_gradients(model, golden, loss_of, norm_key, trained):
    batch = {
        k.removeprefix("in/"): golden[k] for k in golden if k.startswith("in/")
    }
    variables = {
        name: v for name, v in checkpoint_names(model).items() if trained(name)
    }
    with tf.GradientTape() as tape:
        loss = loss_of(model(batch), batch)
    gradients = tape.gradient(loss, list(variables.values()))
    expected = {
        k.removeprefix("grad/") for k in golden if k.startswith("grad/")
    }
    assert set(variables) == expected
    for name, gradient in zip(variables, gradients, strict=True):
        np.testing.assert_allclose(
            tf.convert_to_tensor(gradient),
            golden[f"grad/{name}"],
            atol=2e-5,
            rtol=1e-4,
            err_msg=name,
        )
    dense = [tf.convert_to_tensor(g) for g in gradients]
    _, norm = optimization.clip_by_global_norm(dense)
    assert float(norm) == pytest.approx(golden[norm_key], abs=1e-4)
    return float(loss)


@pytest.mark.parametrize("name", ["odd", "relu", "micro"])
def test_pretraining_gradients(golden_dir, name):
    model = build(golden_dir, name, BertForPreTraining)
    golden = np.load(golden_dir / "gradients" / f"{name}.npz")

    def loss_of(outputs, batch):
        parts = masked_lm_and_next_sentence(outputs, batch)
        return parts[1] + parts[3]

    loss = check_gradients(
        model, golden, loss_of, "global_norm", lambda name: True
    )
    assert loss == pytest.approx(golden["total_loss"], abs=2e-3)


def test_classifier_gradients(golden_dir):
    model = build(golden_dir, "clf", BertForSequenceClassification, 3)
    golden = np.load(golden_dir / "gradients" / "clf_head.npz")

    def loss_of(outputs, batch):
        return tf.reduce_mean(
            losses.softmax_cross_entropy(outputs["logits"], batch["label_ids"])
        )

    check_gradients(
        model, golden, loss_of, "global_norm_dense", lambda name: True
    )


def test_squad_gradients_leave_the_pooler_alone(golden_dir):
    model = build(golden_dir, "squad", BertForQuestionAnswering)
    golden = np.load(golden_dir / "gradients" / "squad_head.npz")

    def loss_of(outputs, batch):
        return tf.reduce_mean(
            losses.span_cross_entropy(
                outputs["start_logits"],
                outputs["end_logits"],
                batch["start_positions"],
                batch["end_positions"],
            )
        )

    check_gradients(
        model,
        golden,
        loss_of,
        "global_norm_dense",
        lambda name: not name.startswith("bert/pooler/"),
    )


@pytest.mark.parametrize("name", ["gelu", "relu", "tanh"])
def test_activations(golden_dir, name):
    golden = np.load(golden_dir / "unit" / "ops.npz")
    x = tf.constant(golden["x"])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layers.get_activation(name)(x)
    np.testing.assert_allclose(y, golden[name], atol=2e-6, rtol=1e-6)
    np.testing.assert_allclose(
        tape.gradient(y, x), golden[f"{name}_grad"], atol=2e-5, rtol=1e-4
    )


def test_layer_norm(golden_dir):
    golden = np.load(golden_dir / "unit" / "ops.npz")
    norm = layers.LayerNorm()
    norm.build(golden["ln_input"].shape)
    norm.beta.assign(golden["ln_beta"])
    norm.gamma.assign(golden["ln_gamma"])
    x = tf.constant(golden["ln_input"])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = norm(x)
    gradients = tape.gradient(
        y, [x, norm.beta.value, norm.gamma.value], golden["ln_grad_output"]
    )
    rows = np.r_[0:9, 12:16]
    far = np.r_[9:12]
    for found, key in ((y, "ln_output"), (gradients[0], "ln_grad_input")):
        np.testing.assert_allclose(
            found.numpy()[rows], golden[key][rows], atol=2e-5, rtol=1e-4
        )
        np.testing.assert_allclose(
            found.numpy()[far], golden[key][far], atol=1e-4, rtol=1e-4
        )
    np.testing.assert_allclose(
        gradients[1], golden["ln_grad_beta"], atol=2e-5, rtol=1e-4
    )
    np.testing.assert_allclose(
        gradients[2], golden["ln_grad_gamma"], atol=1e-4, rtol=1e-4
    )
    flat = norm(golden["ln_ill_conditioned_input"])
    np.testing.assert_allclose(
        flat, golden["ln_ill_conditioned_output"], atol=0.5
    )


def test_learning_rates(golden_dir):
    cases = json.loads((golden_dir / "unit/learning_rate.json").read_text())
    assert cases
    for case in cases:
        found = [
            float(
                optimization.learning_rate_at(
                    step,
                    case["init_lr"],
                    case["num_train_steps"],
                    case["num_warmup_steps"],
                )
            )
            for step in case["global_step_before_update"]
        ]
        np.testing.assert_allclose(
            found, case["learning_rate"], rtol=2e-6, atol=1e-12
        )
