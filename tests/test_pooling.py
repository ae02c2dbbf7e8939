"""Sentence vectors."""

import numpy as np
import pytest

from bert_tf import pooling
from bert_tf.config import BertConfig

CONFIG = BertConfig(
    vocab_size=10, hidden_size=4, num_hidden_layers=3, num_attention_heads=2
)


@pytest.fixture
def outputs():
    source = np.random.default_rng(1)
    layers = [
        source.normal(size=(2, 5, 4)).astype(np.float32) for _ in range(4)
    ]
    return {
        "embedding_output": layers[0],
        "all_encoder_layers": layers[1:],
        "pooled_output": np.float32([[1, 2, 3, 4], [0, 0, 3, 4]]),
    }


MASK = np.int32([[1, 1, 1, 0, 0], [1, 1, 0, 0, 0]])


def test_layers_are_checked():
    assert pooling.check_layers(["-1", "2", "embeddings"], CONFIG) == [
        -1,
        2,
        "embeddings",
    ]
    assert pooling.check_layers(-3, CONFIG) == [-3]
    for wrong, message in (
        (["3"], "no layer 3; its 3 layers are 0 to 2"),
        ([-4], "no layer -4"),
        (["x"], "'x' is neither"),
        ([], "no layer given"),
    ):
        with pytest.raises(ValueError, match=message):
            pooling.check_layers(wrong, CONFIG)


def test_strategy_is_checked():
    with pytest.raises(ValueError, match="'sum', expected one of cls, mean"):
        pooling.check_strategy("sum")


def test_padding_never_counts(outputs):
    last = outputs["all_encoder_layers"][-1]
    first = outputs["embedding_output"]
    joined = np.concatenate([last, first], axis=-1)
    layers = [-1, "embeddings"]
    for strategy, expected in (
        ("cls", joined[:, 0]),
        ("mean", [joined[0, :3].mean(0), joined[1, :2].mean(0)]),
        ("max", [joined[0, :3].max(0), joined[1, :2].max(0)]),
        ("pooled", outputs["pooled_output"]),
    ):
        found = pooling.pool(outputs, MASK, layers, strategy)
        np.testing.assert_allclose(found, expected, atol=1e-6)


def test_normalized_vectors_have_length_one(outputs):
    found = pooling.pool(outputs, MASK, [0], "mean", normalize=True)
    plain = pooling.pool(outputs, MASK, [0], "mean").numpy()
    lengths = np.linalg.norm(plain, axis=1, keepdims=True)
    np.testing.assert_allclose(found, plain / lengths, atol=1e-6)


def test_cosine_similarities():
    found = pooling.cosine_similarities(
        [[1, 0], [1, 1], [0, 0]], [[2, 0], [0, 5]]
    )
    half = np.sqrt(0.5)
    np.testing.assert_allclose(found, [[1, 0], [half, half], [0, 0]], atol=1e-6)
