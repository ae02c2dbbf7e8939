"""Names, shapes and dtypes are exactly those of the original."""

import keras
import pytest
import tensorflow as tf

from bert_tf import checkpoint
from bert_tf.config import BertConfig
from bert_tf.heads import (
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
)
from bert_tf.modeling import BertModel
from bert_tf.optimization import AdamWeightDecay

CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=12,
    type_vocab_size=2,
)
ENCODER_SHAPES = {
    "bert/embeddings/word_embeddings": (40, 8),
    "bert/embeddings/token_type_embeddings": (2, 8),
    "bert/embeddings/position_embeddings": (12, 8),
    "bert/embeddings/LayerNorm/beta": (8,),
    "bert/embeddings/LayerNorm/gamma": (8,),
    "bert/pooler/dense/kernel": (8, 8),
    "bert/pooler/dense/bias": (8,),
} | {
    f"bert/encoder/layer_{i}/{name}": shape
    for i in range(2)
    for name, shape in {
        "attention/self/query/kernel": (8, 8),
        "attention/self/query/bias": (8,),
        "attention/self/key/kernel": (8, 8),
        "attention/self/key/bias": (8,),
        "attention/self/value/kernel": (8, 8),
        "attention/self/value/bias": (8,),
        "attention/output/dense/kernel": (8, 8),
        "attention/output/dense/bias": (8,),
        "attention/output/LayerNorm/beta": (8,),
        "attention/output/LayerNorm/gamma": (8,),
        "intermediate/dense/kernel": (8, 16),
        "intermediate/dense/bias": (16,),
        "output/dense/kernel": (16, 8),
        "output/dense/bias": (8,),
        "output/LayerNorm/beta": (8,),
        "output/LayerNorm/gamma": (8,),
    }.items()
}
PRE_TRAINING_SHAPES = {
    "cls/predictions/transform/dense/kernel": (8, 8),
    "cls/predictions/transform/dense/bias": (8,),
    "cls/predictions/transform/LayerNorm/beta": (8,),
    "cls/predictions/transform/LayerNorm/gamma": (8,),
    "cls/predictions/output_bias": (40,),
    "cls/seq_relationship/output_weights": (2, 8),
    "cls/seq_relationship/output_bias": (2,),
}


def shapes(model):
    return {
        name: tuple(variable.shape)
        for name, variable in checkpoint.checkpoint_names(model).items()
    }


@pytest.mark.parametrize(
    ("create", "head"),
    [
        (BertModel, {}),
        (BertForPreTraining, PRE_TRAINING_SHAPES),
        (
            lambda config: BertForSequenceClassification(config, num_labels=3),
            {"output_weights": (3, 8), "output_bias": (3,)},
        ),
        (
            BertForQuestionAnswering,
            {
                "cls/squad/output_weights": (2, 8),
                "cls/squad/output_bias": (2,),
            },
        ),
    ],
)
def test_names_and_shapes(create, head):
    assert shapes(create(CONFIG)) == ENCODER_SHAPES | head


def test_name_of_the_root_plays_no_part():
    # Keras numbers its models: the second of a class has another path.
    first, second = BertModel(CONFIG), BertModel(CONFIG)
    assert first.weights[0].path != second.weights[0].path
    assert shapes(first) == shapes(second)
    assert shapes(BertModel(CONFIG, name="bert")) == ENCODER_SHAPES


def test_random_state_is_no_weight():
    class Model(keras.Model):
        def __init__(self):
            super().__init__()
            self.dropout = keras.layers.Dropout(0.1)
            self.build(None)

        def build(self, input_shape=None):
            self.output_weights = self.add_weight(
                name="output_weights", shape=(2, 3)
            )

    model = Model()
    assert len(model.variables) == 2
    assert shapes(model) == {"output_weights": (2, 3)}


def test_a_model_that_is_not_built():
    with pytest.raises(ValueError, match="no variables yet: build it"):
        checkpoint.checkpoint_names(keras.Model(name="empty"))


def test_kinds_of_names():
    kernel = "bert/encoder/layer_0/output/dense/kernel"
    state = [
        "global_step",
        f"{kernel}/adam_m",
        f"{kernel}/adam_v",
        "output_bias/adam_m",
        f"{kernel}/AdamWeightDecayOptimizer",
        "AdamWeightDecayOptimizer_1/x",
    ]
    assert all(checkpoint.is_optimizer_state(x) for x in state)
    assert not any(checkpoint.is_encoder(x) for x in state)
    assert not any(checkpoint.is_head(x) for x in state)
    assert checkpoint.is_encoder(kernel) and not checkpoint.is_head(kernel)
    for head in ("output_bias", "cls/predictions/output_bias"):
        assert checkpoint.is_head(head) and not checkpoint.is_encoder(head)


@pytest.fixture(scope="module")
def golden_training(golden_dir):
    return golden_dir / "optimizer" / "micro_warmup5_total20" / "model.ckpt-20"


def entries(prefix):
    reader = tf.train.load_checkpoint(str(prefix))
    dtypes = reader.get_variable_to_dtype_map()
    return {
        name: (tuple(shape), dtypes[name])
        for name, shape in reader.get_variable_to_shape_map().items()
    }


def test_training_checkpoint_has_the_originals_entries(
    golden_dir, golden_training, tmp_path
):
    folder = golden_dir / "checkpoints" / "micro"
    config = BertConfig.from_json_file(folder / "bert_config.json")
    model = BertForPreTraining(config)
    optimizer = AdamWeightDecay()
    optimizer.build(checkpoint.checkpoint_names(model))
    prefix = checkpoint.write_checkpoint(
        tmp_path,
        20,
        {**checkpoint.checkpoint_names(model), **optimizer.slots},
    )
    assert entries(prefix) == entries(golden_training)
    for suffix in ("data-00000-of-00001", "index"):
        assert (tmp_path / f"model.ckpt-20.{suffix}").is_file()


def test_training_checkpoint_is_written_back_to_the_bit(
    golden_training, tmp_path
):
    values = checkpoint.read_variables(golden_training)
    prefix = checkpoint.write_checkpoint(tmp_path, 20, values)
    assert entries(prefix) == entries(golden_training)
    again = checkpoint.read_variables(prefix)
    assert values.keys() == again.keys()
    for name, value in values.items():
        assert value.tobytes() == again[name].tobytes(), name


@pytest.mark.parametrize(
    "folder", ["tiny", "odd", "relu", "cased", "micro", "deep"]
)
def test_released_layout_loads_whole_and_is_saved_the_same(
    golden_dir, tmp_path, folder
):
    source = golden_dir / "checkpoints" / folder
    config = BertConfig.from_json_file(source / "bert_config.json")
    model = BertForPreTraining(config)
    report = checkpoint.load_checkpoint(model, source, strict=True)
    assert set(report.loaded) == set(shapes(model))
    assert not (report.fresh or report.missing or report.unused)
    prefix = checkpoint.save_checkpoint(model, tmp_path / "bert_model.ckpt")
    assert entries(prefix) == entries(source / "bert_model.ckpt")
    old, new = (checkpoint.read_variables(x) for x in (source, prefix))
    assert all(old[name].tobytes() == new[name].tobytes() for name in old)


def test_a_v1_graph_reads_what_we_write(tmp_path):
    model = BertModel(CONFIG)
    prefix = checkpoint.write_checkpoint(
        tmp_path, 7, checkpoint.checkpoint_names(model)
    )
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("bert/encoder/layer_0/output/dense"):
            kernel = v1.get_variable("kernel", [16, 8])
        step = v1.train.get_or_create_global_step()
        latest = tf.train.latest_checkpoint(str(tmp_path))
        assert latest == prefix
        v1.train.Saver([kernel, step]).restore(session, latest)
        kernel_value, step_value = session.run([kernel, step])
    name = "bert/encoder/layer_0/output/dense/kernel"
    expected = checkpoint.checkpoint_names(model)[name].numpy()
    assert kernel_value.tobytes() == expected.tobytes()
    assert step_value == 7


def test_we_read_what_a_v1_graph_writes(tmp_path):
    v1 = tf.compat.v1
    with tf.Graph().as_default(), v1.Session() as session:
        with v1.variable_scope("cls/squad"):
            v1.get_variable("output_bias", initializer=tf.constant([3.0, -1.0]))
        step = v1.train.get_or_create_global_step()
        session.run(v1.global_variables_initializer())
        session.run(step.assign(12))
        v1.train.Saver().save(session, str(tmp_path / "model.ckpt"), step)
    bias = tf.Variable([0.0, 0.0])
    counter = tf.Variable(0, dtype=tf.int64)
    checkpoint.restore_variables(
        {"cls/squad/output_bias": bias, "global_step": counter}, tmp_path
    )
    assert bias.numpy().tolist() == [3.0, -1.0]
    assert int(counter) == 12
