"""Schedule, clipping and both optimizers against plain numpy."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import optimization
from bert_tf.checkpoint import checkpoint_names
from bert_tf.config import BertConfig
from bert_tf.heads import BertForPreTraining

DECAYED = "bert/encoder/layer_0/output/dense/kernel"
BIAS = "bert/encoder/layer_0/output/dense/bias"
ZERO = "cls/seq_relationship/output_weights"
RATE = 0.1
STEPS = 5


def rates(peak, total, warmup, steps):
    return [
        float(
            optimization.learning_rate_at(tf.constant(i), peak, total, warmup)
        )
        for i in steps
    ]


# The schedule ---------------------------------------------------------------


def test_warm_up_ends_with_a_jump_down_to_the_line():
    found = rates(1.0, 10, 4, range(12))
    line = [0.6, 0.5, 0.4, 0.3, 0.2, 0.1, 0.0, 0.0]
    np.testing.assert_allclose(found, [0, 0.25, 0.5, 0.75, *line], atol=1e-7)


def test_no_warm_up():
    np.testing.assert_allclose(
        rates(2.0, 4, 0, range(5)), [2, 1.5, 1, 0.5, 0], atol=1e-7
    )


def test_warm_up_longer_than_training():
    np.testing.assert_allclose(rates(1.0, 2, 4, [0, 1, 2]), [0, 0.25, 0.5])


# Clipping -------------------------------------------------------------------


def test_gradients_are_clipped_together():
    gradients = [tf.constant([3.0, 0.0]), tf.constant([[4.0]])]
    clipped, norm = optimization.clip_by_global_norm(gradients)
    assert float(norm) == 5
    np.testing.assert_allclose(clipped[0], [0.6, 0])
    np.testing.assert_allclose(clipped[1], [[0.8]])
    same, norm = optimization.clip_by_global_norm([tf.constant([0.3, 0.4])])
    assert float(norm) == pytest.approx(0.5)
    np.testing.assert_allclose(same[0], [0.3, 0.4])


def test_equal_ids_of_a_sparse_gradient_count_once():
    slices = tf.IndexedSlices(
        tf.constant([[3.0], [-3.0], [2.0]]), tf.constant([1, 1, 0]), (2, 1)
    )
    dense = tf.convert_to_tensor(slices)
    _, norm = optimization.clip_by_global_norm([dense])
    assert float(norm) == 2


# Decay ----------------------------------------------------------------------


@pytest.mark.parametrize("layers", [2, 5])
def test_what_is_decayed_in_a_whole_model(layers):
    config = BertConfig(
        vocab_size=9,
        hidden_size=4,
        num_hidden_layers=layers,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=4,
    )
    names = checkpoint_names(BertForPreTraining(config))
    # 3 tables, 6 kernels a layer, the pooler's, the transform's, both heads'
    # weights; norms and biases are left alone.
    assert len(names) == 14 + 16 * layers
    optimizer = optimization.AdamWeightDecay()
    decayed = {name for name in names if optimizer.decays(name)}
    assert len(decayed) == 6 + 6 * layers
    assert decayed == {
        name
        for name in names
        if name.endswith(("/kernel", "_embeddings", "/output_weights"))
    }


def test_no_decay_at_all():
    assert not optimization.AdamWeightDecay(0.0).decays(DECAYED)
    assert not optimization.AdamWeightDecay(no_decay=["layer_0"]).decays(
        DECAYED
    )


# Updates by hand ------------------------------------------------------------


def make_case(seed=0):
    random = np.random.default_rng(seed)
    values = {
        DECAYED: random.normal(size=(4, 3)),
        BIAS: random.normal(size=3),
        ZERO: np.zeros((2, 3)),
    }
    gradients = [
        {name: random.normal(size=v.shape) for name, v in values.items()}
        for _ in range(STEPS)
    ]
    gradients[1] = {name: g * 0 for name, g in gradients[1].items()}
    return values, gradients


def run(optimizer, values, gradients):
    """Float32 results after each step, and the slots at the end."""
    variables = {
        name: tf.Variable(value.astype(np.float32))
        for name, value in values.items()
    }
    optimizer.build(variables)
    history = []
    for step, of_step in enumerate(gradients):
        optimizer.apply(
            [tf.constant(of_step[n].astype(np.float32)) for n in variables],
            tf.constant(RATE),
            tf.constant(step, tf.int64),
        )
        history.append({n: v.numpy() for n, v in variables.items()})
    return history, {n: v.numpy() for n, v in optimizer.slots.items()}


def moments(gradients, name, bias_correction):
    """m and v of Kingma and Ba 2014, algorithm 1, step by step."""
    m = v = 0.0
    for t, of_step in enumerate(gradients, start=1):
        g = of_step[name]
        m = 0.9 * m + 0.1 * g
        v = 0.999 * v + 0.001 * g * g
        if bias_correction:
            yield m / (1 - 0.9**t), v / (1 - 0.999**t)
        else:
            yield m, v


def adam(values, gradients, name, decay, bias_correction):
    """With bias correction in the paper's second form (end of section 2)."""
    x = values[name].copy()
    for t, (m, v) in enumerate(moments(gradients, name, False), start=1):
        scale = 1.0
        if bias_correction:
            scale = np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
        x = x - RATE * (scale * m / (np.sqrt(v) + 1e-6) + decay * x)
        yield x


def lamb(values, gradients, name, decay, bias_correction):
    """You et al. 2019 (arXiv 1904.00962), algorithm 2, phi the identity."""
    x = values[name].copy()
    for m, v in moments(gradients, name, bias_correction):
        r = m / (np.sqrt(v) + 1e-6)
        trust = 1.0
        if decay:
            r = r + decay * x
            size, length = np.sqrt(np.sum(x**2)), np.sqrt(np.sum(r**2))
            if size > 0 and length > 0:
                trust = size / length
        x = x - RATE * trust * r
        yield x


@pytest.mark.parametrize("bias_correction", [False, True])
@pytest.mark.parametrize(
    ("kind", "by_hand", "decay"),
    [
        (optimization.AdamWeightDecay, adam, 0.01),
        (optimization.Lamb, lamb, 0.01),
        (optimization.Lamb, lamb, 0.3),
    ],
)
def test_updates(kind, by_hand, decay, bias_correction):
    values, gradients = make_case()
    history, slots = run(
        kind(weight_decay_rate=decay, bias_correction=bias_correction),
        values,
        gradients,
    )
    for name in values:
        own_decay = 0.0 if name == BIAS else decay
        steps = by_hand(values, gradients, name, own_decay, bias_correction)
        for step, expected in enumerate(steps):
            np.testing.assert_allclose(
                history[step][name],
                expected,
                rtol=1e-4,
                atol=1e-5,
                err_msg=f"{name} after step {step}",
            )
        m, v = list(moments(gradients, name, False))[-1]
        np.testing.assert_allclose(slots[f"{name}/adam_m"], m, atol=1e-6)
        # The kernel of Adam rounds 1 - beta_2, 1.3e-5 off.
        np.testing.assert_allclose(
            slots[f"{name}/adam_v"], v, rtol=2e-5, atol=1e-7
        )


def test_defaults():
    assert not optimization.AdamWeightDecay().bias_correction
    assert optimization.Lamb().bias_correction


def test_lamb_moves_a_decayed_variable_by_the_rate_times_its_norm():
    values, gradients = make_case()
    small = {name: value * 1e-3 for name, value in values.items()}
    for start in (values, small):
        history, _ = run(optimization.Lamb(), start, gradients[:1])
        moved = np.linalg.norm(history[0][DECAYED] - start[DECAYED])
        assert moved == pytest.approx(
            RATE * np.linalg.norm(start[DECAYED]), rel=1e-4
        )


def test_lamb_does_not_see_the_scale_of_the_gradients():
    values, gradients = make_case()
    scaled = [{n: g * 1e3 for n, g in step.items()} for step in gradients]
    one, _ = run(optimization.Lamb(), values, gradients)
    two, _ = run(optimization.Lamb(), values, scaled)
    for name in values:
        np.testing.assert_allclose(one[-1][name], two[-1][name], rtol=1e-3)
