"""Written derivatives beside those that TensorFlow finds."""

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import derivatives, layers

RNG = np.random.default_rng(3)
# In float32, tanh is -1 where its distance from -1 still counts for 4e-6.
ATOL = {"float32": 5e-6, "float64": 1e-12, "bfloat16": 0.05}


def gradients(function, values, upstream):
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = function(*values)
    return [y, *tape.gradient(y, values, output_gradients=upstream(y))]


def assert_close(found, expected, atol, rtol=0.0):
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(
            tf.cast(one, "float64"), tf.cast(other, "float64"), rtol, atol
        )


@pytest.mark.parametrize("dtype", ATOL)
def test_gelu(dtype):
    x = tf.cast(np.linspace(-6, 6, 1200).reshape(3, -1), dtype)
    found = gradients(derivatives.gelu, [x], tf.cos)
    assert all(value.dtype == dtype for value in found)
    exact = gradients(layers.gelu, [tf.cast(x, "float64")], tf.cos)
    assert_close(found, exact, ATOL[dtype])


@pytest.mark.parametrize("shape", [(7, 24), (2, 5, 24)])
@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_layer_norm(shape, scale):
    layer = layers.LayerNorm()
    layer.build(shape)
    x = tf.constant(RNG.normal(3 * scale, scale, shape), tf.float32)
    gamma, beta = (
        tf.constant(RNG.normal(size=shape[-1]), tf.float32) for _ in "ab"
    )

    def plain(x, gamma, beta):
        layer.gamma, layer.beta = gamma, beta
        return layer(x)

    def written(x, gamma, beta):
        return derivatives.layer_norm(x, gamma, beta, layer.epsilon)

    plain_values, written_values = (
        gradients(function, [x, gamma, beta], tf.sin)
        for function in (plain, written)
    )
    y, slope, *rest = written_values
    assert_close([y, *rest], [plain_values[0], *plain_values[2:]], 1e-5, 1e-4)
    assert_close([slope * scale], [plain_values[1] * scale], 1e-5, 1e-3)


def test_training_takes_them():
    def backward(training):
        layer = layers.LayerNorm()

        @tf.function
        def passes(x):
            return tf.gradients(layer(x, training=training), x)

        graph = passes.get_concrete_function(
            tf.TensorSpec([2, 3], tf.float32)
        ).graph
        names = [operation.name for operation in graph.get_operations()]
        return sum(derivatives.SCOPE in name for name in names)

    assert backward(True) > 0 == backward(False)
