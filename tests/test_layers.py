"""The parts of layers that configs of other models choose."""

import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import layers
from bert_tf.config import ACTIVATIONS, BertConfig
from bert_tf.heads import BertForMaskedLM

X = np.linspace(-6, 6, 121, dtype="f4")


def test_gelu_erf_is_the_exact_one():
    expected = [0.5 * x * (1 + math.erf(x / math.sqrt(2))) for x in X.tolist()]
    found = layers.get_activation("gelu_erf")(tf.constant(X))
    np.testing.assert_allclose(found, expected, atol=1e-6)
    tanh_form = layers.get_activation("gelu")(tf.constant(X))
    assert 1e-4 < np.abs(found - tanh_form).max() < 1e-3


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gelu_erf_in_lower_precision(dtype):
    found = layers.gelu_erf(tf.cast(X, dtype))
    assert found.dtype == dtype
    exact = layers.gelu_erf(tf.constant(X))
    np.testing.assert_allclose(tf.cast(found, "float32"), exact, atol=0.05)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_every_name_of_a_config_has_a_function(name):
    layers.get_activation(name.upper())


def test_the_configs_epsilon_reaches_every_norm():
    config = BertConfig(
        9,
        hidden_size=4,
        num_hidden_layers=2,
        num_attention_heads=1,
        intermediate_size=4,
        layer_norm_eps=0.25,
    )
    model = BertForMaskedLM(config)
    norms = [x for x in model._flatten_layers() if x.name == "LayerNorm"]
    assert len(norms) == 1 + 2 * 2 + 1
    assert {x.epsilon for x in norms} == {0.25}
    x = np.array([[1.0, 3.0]], "f4")
    norm = layers.LayerNorm(epsilon=0.25)
    np.testing.assert_allclose(norm(x), [[-1, 1]] / np.sqrt(1.25), rtol=1e-6)


@pytest.mark.parametrize("size", [32, 33])
def test_sinusoidal_positions(size):
    table = layers.sinusoidal_positions(60, size, 0.5)
    assert table.shape == (60, size) and table.dtype == "float32"
    half = (size + 1) // 2
    np.testing.assert_allclose(table[:, 0], 0.5 * np.sin(range(60)), atol=1e-6)
    slowest = 10000 ** (-(half - 1) / half)
    np.testing.assert_allclose(
        table[:, half - 1], 0.5 * np.sin(np.arange(60) * slowest), atol=1e-6
    )
    # The product of two rows depends on their distance alone, but for the
    # column that an odd size leaves out.
    products = table.astype("f8") @ table.T
    for distance in (1, 5, 20):
        diagonal = np.diagonal(products, distance)
        assert np.ptp(diagonal) < (1e-5 if size % 2 == 0 else 0.26)
    assert products[30].argmax() == 30
