"""Losses against values worked out by hand."""

import math

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import losses


def test_cross_entropy():
    logits = tf.math.log([[0.5, 0.25, 0.25], [0.1, 0.1, 0.8]])
    found = losses.softmax_cross_entropy(logits, tf.constant([0, 2]))
    np.testing.assert_allclose(found, [-math.log(0.5), -math.log(0.8)], 1e-6)


def test_label_outside_the_classes_costs_nothing():
    logits = tf.constant([[1.0, 2.0]] * 3)
    with tf.GradientTape() as tape:
        tape.watch(logits)
        found = losses.softmax_cross_entropy(logits, tf.constant([-1, 2, 0]))
    gradient = tape.gradient(found, logits).numpy()
    assert found.numpy()[:2].tolist() == [0.0, 0.0] and found[2] > 1
    assert np.all(gradient[:2] == 0) and np.any(gradient[2] != 0)


def test_losses_are_float32_whatever_comes_in():
    logits = tf.constant([[1.0, 2.0]], tf.bfloat16)
    assert losses.softmax_cross_entropy(logits, [1]).dtype == tf.float32
    assert losses.sigmoid_cross_entropy(logits, [[1, 0]]).dtype == tf.float32


def test_span():
    start = tf.math.log([[0.5, 0.5]])
    end = tf.math.log([[0.25, 0.75]])
    found = losses.span_cross_entropy(start, end, [0], [0])
    assert float(found[0]) == pytest.approx(
        -(math.log(0.5) + math.log(0.25)) / 2
    )


def test_weighted_mean():
    values, weights = tf.constant([1.0, 5.0]), tf.constant([3.0, 1.0])
    assert float(losses.weighted_mean(values, weights)) == 2.0
    zero = losses.weighted_mean(values, 0 * weights, losses.MASKED_LM_EPSILON)
    assert float(zero) == 0.0


def test_sigmoid():
    found = losses.sigmoid_cross_entropy(
        tf.constant([[0.0, 0.0]]), tf.constant([[1, 0]])
    )
    assert float(found[0]) == pytest.approx(math.log(2))
