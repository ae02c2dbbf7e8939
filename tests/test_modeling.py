"""The encoder: sizes, names, outputs, dropout, refusals."""

import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf.checkpoint import checkpoint_names
from bert_tf.config import BertConfig
from bert_tf.modeling import BertModel

TINY = BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=12,
    type_vocab_size=2,
)
IDS = np.array([[2, 7, 9, 3, 0], [2, 8, 3, 0, 0]])
MASK = (IDS != 0).astype("int64")

# vocabulary, layers, hidden size, parameters of encoder and pooler.
PUBLISHED = {
    "base uncased": (30522, 12, 768, 109_482_240),
    "base cased": (28996, 12, 768, 108_310_272),
    "base Chinese": (21128, 12, 768, 102_267_648),
    "base multilingual cased": (119547, 12, 768, 177_853_440),
    "base multilingual uncased": (105879, 12, 768, 167_356_416),
    "large uncased": (30522, 24, 1024, 335_141_888),
    "large cased": (28996, 24, 1024, 333_579_264),
    "tiny": (30522, 2, 128, 4_385_920),
    "mini": (30522, 4, 256, 11_170_560),
    "small": (30522, 4, 512, 28_763_648),
    "medium": (30522, 8, 512, 41_373_184),
}


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    return BertModel(TINY)


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameter_counts_of_published_sizes(name):
    vocab, layers, hidden, count = PUBLISHED[name]
    config = BertConfig(
        vocab_size=vocab,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        type_vocab_size=2,
    )
    # Shapes alone are needed: in this scope no variable gets memory.
    with keras.StatelessScope():
        variables = BertModel(config).variables
    assert sum(math.prod(v.shape) for v in variables) == count
    assert len(variables) == 5 + 16 * layers + 2


def test_all_outputs(model):
    out = model({"input_ids": IDS, "input_mask": MASK}, training=False)
    assert sorted(out) == [
        "all_encoder_layers",
        "embedding_output",
        "pooled_output",
        "sequence_output",
    ]
    assert out["embedding_output"].shape == (2, 5, 16)
    assert [x.shape for x in out["all_encoder_layers"]] == [(2, 5, 16)] * 2
    assert out["pooled_output"].shape == (2, 16)
    np.testing.assert_array_equal(
        out["sequence_output"], out["all_encoder_layers"][-1]
    )
    out = model(IDS, return_attention_probs=True)
    assert [p.shape for p in out["attention_probs"]] == [(2, 2, 5, 5)] * 2
    np.testing.assert_allclose(
        tf.reduce_sum(out["attention_probs"][0], -1), 1.0, rtol=1e-5
    )


def test_mask_and_segments_have_defaults(model):
    full = model(
        {
            "input_ids": IDS,
            "input_mask": np.ones_like(IDS),
            "segment_ids": np.zeros_like(IDS),
        }
    )
    bare = model({"input_ids": IDS})
    np.testing.assert_array_equal(full["pooled_output"], bare["pooled_output"])


def test_padding_does_not_matter(model):
    longer = np.pad(IDS, ((0, 0), (0, 6)))
    mask = np.pad(MASK, ((0, 0), (0, 6)))
    short = model({"input_ids": IDS, "input_mask": MASK})
    padded = model({"input_ids": longer, "input_mask": mask})
    np.testing.assert_allclose(
        short["sequence_output"][0, :4],
        padded["sequence_output"][0, :4],
        atol=1e-5,
    )


def test_several_sequences_in_one_row(model):
    rows = model({"input_ids": np.array([[2, 7, 3], [2, 9, 3]])})
    packed = model(
        {
            "input_ids": np.array([[2, 7, 3, 2, 9, 3, 0]]),
            "input_mask": np.array([[1, 1, 1, 1, 1, 1, 0]]),
            "position_ids": np.array([[0, 1, 2, 0, 1, 2, 0]]),
            "sequence_ids": np.array([[0, 0, 0, 1, 1, 1, 2]]),
        }
    )
    np.testing.assert_allclose(
        np.reshape(packed["sequence_output"][0, :6], [2, 3, 16]),
        rows["sequence_output"],
        atol=1e-5,
    )


def test_one_hot_embeddings_give_the_same(model):
    other = BertModel(TINY, use_one_hot_embeddings=True)
    other.set_weights(model.get_weights())
    np.testing.assert_allclose(
        other(IDS)["sequence_output"], model(IDS)["sequence_output"], atol=1e-5
    )


def test_dropout_follows_its_seed(model):
    def run(seed):
        out = model(
            IDS, training=True, dropout_seed=tf.constant(seed, tf.int32)
        )
        return out["sequence_output"].numpy()

    np.testing.assert_array_equal(run([1, 2]), run([1, 2]))
    assert np.abs(run([1, 2]) - run([1, 3])).max() > 0.01
    plain = model(IDS)["sequence_output"].numpy()
    assert np.abs(run([1, 2]) - plain).max() > 0.01
    drawn = [
        model(IDS, training=True)["pooled_output"].numpy() for _ in range(2)
    ]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-4
    np.testing.assert_array_equal(
        model(IDS)["sequence_output"], model(IDS)["sequence_output"]
    )


def test_dropout_places_are_independent():
    """One row of ones per site: no two sites share a mask."""
    config = BertConfig.from_dict({**TINY.to_dict(), "num_hidden_layers": 3})
    seeds = BertModel(config)._dropout_seeds(tf.constant([5, 6]))
    masks = {
        tuple(
            tf.nn.experimental.stateless_dropout(
                tf.ones([200]), 0.5, seed=seed
            ).numpy()
        )
        for seed in tf.unstack(seeds)
    }
    assert len(masks) == 2 + 3 * 3


def loss_gradients(model, with_probs=False):
    """Of a loss on the pooled output and, if asked for, the probabilities."""
    with tf.GradientTape() as tape:
        outputs = model(
            {"input_ids": IDS, "input_mask": MASK},
            training=True,
            dropout_seed=[4, 5],
            return_attention_probs=with_probs,
        )
        loss = tf.reduce_sum(tf.sin(tf.cast(outputs["pooled_output"], "float")))
        for probs in outputs.get("attention_probs", ()):
            loss += tf.reduce_sum(tf.square(probs))
    found = tape.gradient(loss, model.trainable_variables)
    return [tf.convert_to_tensor(g) for g in found]


@pytest.mark.parametrize("with_probs", [False, True])
def test_layers_computed_again_have_the_same_gradients(model, with_probs):
    again = BertModel(TINY, recompute=True)
    again.set_weights(model.get_weights())

    @tf.function
    def gradients(model):
        return loss_gradients(model, with_probs)

    for one, other in zip(gradients(model), gradients(again), strict=True):
        assert np.abs(one).max() > 0
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "limit"), [("float32", 1e-5), ("mixed_bfloat16", 0.02)]
)
def test_layers_traced_once_have_the_same_gradients(dtype, limit):
    model = BertModel(TINY, dtype=dtype)
    eager = loss_gradients(model)
    in_graph = tf.function(lambda: loss_gradients(model))()
    # That of a key's bias is zero but for rounding.
    size = np.median([np.abs(x).max() for x in eager])
    for one, other in zip(eager, in_graph, strict=True):
        np.testing.assert_allclose(one, other, rtol=0, atol=limit * size)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_layer_is_traced_once_whatever_their_number(frozen):
    def gelus(layers):
        config = BertConfig.from_dict(
            {**TINY.to_dict(), "num_hidden_layers": layers}
        )
        model = BertModel(config)
        # Variables of layers that are alike but for this.
        model.bert.encoder_layers[1].trainable = not frozen
        function = tf.function(lambda: loss_gradients(model))
        graph = function.get_concrete_function().graph.as_graph_def()
        nodes = [n for f in graph.library.function for n in f.node_def]
        return sum(n.op == "Tanh" for n in [*graph.node, *nodes])

    assert 1 < gelus(2) == gelus(5)


def test_predict_equals_call(model):
    inputs = {"input_ids": IDS, "input_mask": MASK}
    np.testing.assert_allclose(
        model.predict(inputs, verbose=0)["pooled_output"],
        model(inputs, training=False)["pooled_output"],
        atol=1e-6,
    )


def test_too_long_a_sequence_names_both_numbers(model):
    with pytest.raises(ValueError, match=r"length 13 .*_embeddings 12"):
        model(np.ones([1, 13], "int32"))


def test_no_ids():
    with pytest.raises(ValueError, match="no input_ids"):
        BertModel(TINY)({"input_mask": MASK})


def test_second_model_has_the_same_names():
    names = set(checkpoint_names(BertModel(TINY)))
    assert names == set(checkpoint_names(BertModel(TINY)))
    assert "bert/encoder/layer_1/attention/self/query/kernel" in names


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_mixed_precision(model, policy):
    mixed = BertModel(TINY, dtype=policy)
    assert {v.dtype for v in mixed.variables} == {"float32"}
    mixed.set_weights(model.get_weights())
    out = mixed(IDS, return_attention_probs=True)
    assert out["attention_probs"][0].dtype == tf.float32
    assert out["sequence_output"].dtype.name == policy.removeprefix("mixed_")
    np.testing.assert_allclose(
        tf.cast(out["sequence_output"], tf.float32),
        model(IDS)["sequence_output"],
        atol=0.1,
    )


def test_compiles_with_static_shapes(model):
    @tf.function(jit_compile=True)
    def compiled(ids):
        return model(ids, training=True, dropout_seed=tf.constant([1, 2]))

    out = compiled(tf.constant(IDS))
    assert out["pooled_output"].shape == (2, 16)


def test_initial_values(golden_dir):
    """Spread of fresh weights as straight after the original's."""
    folder = golden_dir / "checkpoints/tiny"
    stats = json.loads((folder / "init_stats.json").read_text())
    keras.utils.set_random_seed(1)
    config = BertConfig.from_json_file(folder / "bert_config.json")
    fresh = checkpoint_names(bert_tf.BertForPreTraining(config))
    assert set(fresh) == set(stats)
    for name, expected in stats.items():
        value = fresh[name].numpy()
        assert np.std(value) == pytest.approx(
            expected["std"], rel=5 / math.sqrt(value.size), abs=1e-8
        ), name
        assert np.mean(value) == pytest.approx(
            expected["mean"],
            abs=8 * expected["std"] / math.sqrt(value.size) + 1e-8,
        )
        assert np.abs(value).max() <= max(0.04, abs(expected["max"])) + 1e-6
