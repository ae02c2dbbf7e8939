"""Object-based checkpoints, against tf-models-official itself."""

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoint, heads
from bert_tf.checkpoint import object_graph
from bert_tf.checkpoint.architecture import HEADS, all_names, expected_shapes
from bert_tf.checkpoint.model_garden_writing import write_model_garden
from bert_tf.checkpoint.report import CheckpointError
from bert_tf.checkpoint.sources import StoredTensor
from bert_tf.checkpoint.tensor_bundle import write_bundle
from bert_tf.config import BertConfig

CONFIG = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=12,
    type_vocab_size=2,
)
SIZES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_layers": 2,
    "num_attention_heads": 2,
    "inner_dim": 16,
    "max_sequence_length": 12,
    "type_vocab_size": 2,
    "dict_outputs": True,
}
MODELS = {
    None: bert_tf.BertModel,
    "pre_training": heads.BertForPreTraining,
    "sequence_classification": lambda config: (
        heads.BertForSequenceClassification(config, 3)
    ),
    "token_classification": lambda config: heads.BertForTokenClassification(
        config, 5
    ),
    "question_answering": heads.BertForQuestionAnswering,
}
RNG = np.random.default_rng(4)
IDS = RNG.integers(0, 20, (3, 9)).astype("i4")
MASK = (np.arange(9) < np.array([[9], [6], [2]])).astype("i4")
TYPES = np.broadcast_to(np.arange(9) > 3, (3, 9)).astype("i4")
POSITIONS = np.array([[1, 2], [0, 3], [1, 1]], "i4")
OURS = {"input_ids": IDS, "input_mask": MASK, "segment_ids": TYPES}
OURS["masked_lm_positions"] = POSITIONS
THEIRS = {
    "input_word_ids": IDS,
    "input_mask": MASK,
    "input_type_ids": TYPES,
}
SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"


@pytest.fixture(scope="module")
def garden():
    """The Model Garden's packages, which are slow to import."""
    pytest.importorskip("official.nlp.modeling")
    import tf_keras
    from official.nlp import modeling

    modeling.gelu = lambda x: tf_keras.activations.gelu(x, approximate=True)
    return modeling


def stored(values):
    return {
        name: StoredTensor(name, x.dtype, x.shape, lambda x=x: x)
        for name, x in values.items()
    }


def randomize(model):
    rng = np.random.default_rng(6)
    for weight in model.weights:
        weight.assign(weight + rng.normal(size=weight.shape) * 0.1)


def values_of(model):
    names = checkpoint.checkpoint_names(model)
    return {name: x.numpy() for name, x in names.items()}


def create_theirs(garden, head, encoder, **options):
    models, layers = garden.models, garden.layers
    if head == "pre_training":
        classifier = layers.ClassificationHead(
            inner_dim=8, num_classes=2, name="next_sentence"
        )
        model = models.BertPretrainerV2(
            encoder,
            mlm_activation=garden.gelu,
            classification_heads=[classifier],
        )
        model({**tensors(), "masked_lm_positions": tf.constant(POSITIONS)})
        return model
    if head == "sequence_classification":
        return models.BertClassifier(encoder, 3, **options)
    if head == "token_classification":
        return models.BertTokenClassifier(encoder, 5)
    if head == "question_answering":
        return models.BertSpanLabeler(encoder)
    return encoder


def tensors():
    return {name: tf.constant(x) for name, x in THEIRS.items()}


def create_encoder(garden, name):
    encoder = getattr(garden.networks, name)(**SIZES)
    encoder(tensors())
    return encoder


def compare(head, theirs, ours):
    """Our outputs against those of a model of the Model Garden."""
    inputs = tensors()
    if head == "pre_training":
        inputs["masked_lm_positions"] = tf.constant(POSITIONS)
    found = theirs(inputs)
    if head is None:
        pairs = [
            (found[x], ours[x]) for x in ("sequence_output", "pooled_output")
        ]
    elif head == "pre_training":
        pairs = [
            (found["mlm_logits"], ours["masked_lm_logits"]),
            (found["next_sentence"], ours["next_sentence_logits"]),
        ]
    elif head == "question_answering":
        pairs = list(
            zip(found, (ours["start_logits"], ours["end_logits"]), strict=True)
        )
    else:
        logits = found["logits"] if isinstance(found, dict) else found
        pairs = [(logits, ours["logits"])]
    for theirs_x, ours_x in pairs:
        np.testing.assert_allclose(theirs_x, ours_x, atol=1e-5, rtol=0)


ENCODERS = ["BertEncoder", "BertEncoderV2"]
CASES = [(head, {}) for head in MODELS]
CASES.append(("sequence_classification", {"use_encoder_pooler": False}))


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("head", "options"), CASES)
def test_they_restore_what_we_write(garden, tmp_path, encoder, head, options):
    model = MODELS[head](CONFIG)
    randomize(model)
    prefix = str(tmp_path / "bert_model.ckpt")
    write_model_garden(prefix, stored(values_of(model)), CONFIG, head)
    ours = model(OURS)
    network = create_encoder(garden, encoder)
    status = tf.train.Checkpoint(encoder=network).read(prefix)
    status.assert_existing_objects_matched().expect_partial()
    compare(None, network, ours)
    network = create_encoder(garden, encoder)
    theirs = create_theirs(garden, head, network, **options)
    status = tf.train.Checkpoint(model=theirs).read(prefix)
    status.assert_existing_objects_matched().expect_partial()
    compare(head, theirs, ours)
    if head == "pre_training":
        network = create_encoder(garden, encoder)
        theirs = create_theirs(garden, head, network)
        items = tf.train.Checkpoint(**theirs.checkpoint_items)
        status = items.restore(prefix)
        status.assert_existing_objects_matched().expect_partial()


@pytest.mark.parametrize("encoder", ENCODERS)
@pytest.mark.parametrize(("head", "options"), CASES)
def test_we_load_what_they_write(garden, tmp_path, encoder, head, options):
    network = create_encoder(garden, encoder)
    theirs = create_theirs(garden, head, network, **options)
    randomize(theirs)
    items = getattr(theirs, "checkpoint_items", {"encoder": network})
    # As their trainer does, with an optimizer beside it.
    items = {**items, "model": theirs, "optimizer": optimizer_of(network)}
    prefix = tf.train.Checkpoint(**items).save(str(tmp_path / "ckpt"))
    source = checkpoint.open_checkpoint(prefix)
    assert source.format == "model_garden" and source.unexpected == ()
    assert source.num_attention_heads == 2
    if head in HEADS and head != "pre_training":
        assert source.head == head
    model = MODELS[head](CONFIG)
    report = bert_tf.load_checkpoint(model, prefix, strict=True)
    assert not report.unused
    compare(head, theirs, model(OURS))


def optimizer_of(network):
    import tf_keras

    optimizer = tf_keras.optimizers.legacy.Adam()
    variables = network.trainable_variables
    optimizer.apply_gradients([(tf.ones_like(x), x) for x in variables[:3]])
    return optimizer


def test_the_first_pretrainer(garden, tmp_path):
    network = garden.networks.BertEncoder(**{**SIZES, "dict_outputs": False})
    theirs = garden.models.BertPretrainer(network, 2, 2, activation=garden.gelu)
    randomize(theirs)
    prefix = tf.train.Checkpoint(model=theirs).save(str(tmp_path / "ckpt"))
    model = heads.BertForPreTraining(CONFIG)
    bert_tf.load_checkpoint(model, prefix, strict=True)
    found = theirs([*map(tf.constant, (IDS, MASK, TYPES, POSITIONS))])
    ours = model(OURS)
    for key, own in (
        ("masked_lm", "masked_lm_logits"),
        ("classification", "next_sentence_logits"),
    ):
        np.testing.assert_allclose(found[key], ours[own], atol=1e-5, rtol=0)


@pytest.mark.parametrize("head", [None, *HEADS])
def test_to_the_bit_and_back(tmp_path, head):
    names = [x for x in all_names(2) if x.startswith("bert/")]
    names += HEADS.get(head, ())
    rng = np.random.default_rng(9)
    shapes = expected_shapes(CONFIG, 1 if head == "multiple_choice" else 4)
    values = {x: rng.standard_normal(shapes[x]).astype("f4") for x in names}
    prefix = tmp_path / "x"
    write_model_garden(prefix, stored(values), CONFIG, head)
    found = checkpoint.read_variables(prefix)
    assert found.keys() == values.keys()
    for name, value in values.items():
        assert found[name].tobytes() == value.tobytes()
        assert found[name].shape == value.shape


def test_without_a_pooler(garden, tmp_path):
    names = [x for x in all_names(2) if x.startswith(("bert/", "cls/squad"))]
    shapes = expected_shapes(CONFIG)
    values = {x: np.ones(shapes[x], "f4") for x in names if "/pooler/" not in x}
    prefix = str(tmp_path / "x")
    write_model_garden(prefix, stored(values), CONFIG, "question_answering")
    assert checkpoint.read_variables(prefix).keys() == values.keys()
    network = create_encoder(garden, "BertEncoder")
    tf.train.Checkpoint(encoder=network).read(prefix).expect_partial()


def test_objects_that_are_no_bert(tmp_path):
    module = tf.Module()
    module.w = tf.Variable([1.0], name="dense/kernel")
    prefix = tf.train.Checkpoint(model=module).save(str(tmp_path / "x"))
    with pytest.raises(CheckpointError, match="dense/kernel"):
        checkpoint.open_checkpoint(prefix)


def test_two_encoders_are_too_many(garden, tmp_path):
    both = {x: create_encoder(garden, "BertEncoderV2") for x in "ab"}
    prefix = tf.train.Checkpoint(**both).save(str(tmp_path / "x"))
    with pytest.raises(CheckpointError, match="are both bert/"):
        checkpoint.open_checkpoint(prefix)


def test_a_damaged_graph_is_named(tmp_path):
    write_bundle(
        tmp_path / "x",
        stored({f"a{SUFFIX}": np.ones(2, "f4")}),
        {object_graph.GRAPH_KEY: b"\xff" * 9},
    )
    with pytest.raises(CheckpointError, match=r"x: damaged, its graph"):
        checkpoint.open_checkpoint(tmp_path / "x")


def test_names_of_attributes_are_escaped():
    leaf = object_graph.Leaf("t", "full")
    graph, keys = object_graph.build_graph(
        {"a": {"b": {"output_bias/bias": leaf}, "next.dense": leaf}}
    )
    assert keys == {"t": f"a/next..dense{SUFFIX}"}  # the shortest way
    variables, attributes = object_graph.parse_graph(graph, "here")
    assert [x.path for x in variables] == [("a", "next.dense")]
    assert attributes == {"a", "b", "output_bias/bias", "next.dense"}
    assert variables[0].full_name == "full"
