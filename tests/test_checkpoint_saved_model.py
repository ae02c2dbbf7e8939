"""SavedModels of encoders: those of others, and our own."""

import shutil

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoint, heads
from bert_tf.checkpoint.report import CheckpointError
from bert_tf.checkpoint.sources import StoredTensor
from bert_tf.config import BertConfig
from bert_tf.encoder_saved_model import write_saved_model

VALUES = {
    "vocab_size": 20,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 16,
    "max_position_embeddings": 12,
    "type_vocab_size": 2,
}
CONFIG = BertConfig.from_dict(VALUES)
RNG = np.random.default_rng(4)
IDS = RNG.integers(0, 20, (3, 9)).astype("i4")
MASK = (np.arange(9) < np.array([[9], [6], [2]])).astype("i4")
TYPES = np.broadcast_to(np.arange(9) > 3, (3, 9)).astype("i4")
POSITIONS = np.array([[1, 2], [0, 3], [1, 1]], "i4")
OURS = {"input_ids": IDS, "input_mask": MASK, "segment_ids": TYPES}
OURS["masked_lm_positions"] = POSITIONS
THEIRS = {
    "input_word_ids": tf.constant(IDS),
    "input_mask": tf.constant(MASK),
    "input_type_ids": tf.constant(TYPES),
}
VOCAB = b"".join(b"w%d\n" % i for i in range(20))


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


# --- theirs ----------------------------------------------------------------


@pytest.fixture(scope="module")
def published(tmp_path_factory):
    """SavedModels as the Model Garden's tool for TF-Hub writes them."""
    export = pytest.importorskip("official.nlp.tools.export_tfhub_lib")
    from official.legacy.bert import configs
    from official.nlp.modeling import models

    folder = tmp_path_factory.mktemp("published")
    (folder / "vocab.txt").write_bytes(VOCAB)
    found = {}
    for name, activation, with_mlm in (
        ("encoder", "gelu", False),
        ("mlm", "gelu", True),
        ("relu", "relu", False),
    ):
        config = configs.BertConfig(**{**VALUES, "hidden_act": activation})
        encoder = export.get_bert_encoder(config)
        items = {"encoder": encoder}
        model = encoder
        if with_mlm:
            model = models.BertPretrainerV2(
                encoder, mlm_activation=export.tf_utils.get_activation("gelu")
            )
            model([*THEIRS.values(), tf.constant(POSITIONS)])
            items = model.checkpoint_items
        randomize(model)
        prefix = tf.train.Checkpoint(**items).save(str(folder / f"c_{name}"))
        export.export_model(
            str(folder / name),
            bert_config=config,
            model_checkpoint_path=prefix,
            with_mlm=with_mlm,
            vocab_file=str(folder / "vocab.txt"),
            do_lower_case=False,
        )
        found[name] = folder / name
    return found


@pytest.mark.parametrize("name", ["encoder", "mlm", "relu"])
def test_published_models_are_read(published, name):
    source = checkpoint.open_checkpoint(published[name])
    assert source.format == "saved_model" and source.unexpected == ()
    assert source.vocab == VOCAB and source.do_lower_case is False
    activation = "relu" if name == "relu" else "gelu"
    expected = BertConfig.from_dict({**VALUES, "hidden_act": activation})
    assert source.config == expected
    assert "inferred" in source.notes[0]
    with_mlm = name == "mlm"
    model = heads.BertForMaskedLM if with_mlm else bert_tf.BertModel
    model = model(source.config)
    report = bert_tf.load_checkpoint(model, published[name], strict=True)
    assert not report.unused
    ours = model(OURS)
    loaded = tf.saved_model.load(str(published[name]))
    theirs = loaded(THEIRS)
    for key in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(theirs[key], ours[key], atol=1e-5, rtol=0)
    if with_mlm:
        inputs = {**THEIRS, "masked_lm_positions": tf.constant(POSITIONS)}
        np.testing.assert_allclose(
            loaded.mlm(inputs)["mlm_logits"],
            ours["masked_lm_logits"],
            atol=1e-5,
            rtol=0,
        )


def test_a_truncated_graph_is_named(published, tmp_path):
    folder = tmp_path / "cut"
    shutil.copytree(published["encoder"], folder)
    graph = folder / "saved_model.pb"
    graph.write_bytes(graph.read_bytes()[:-100])
    with pytest.raises(CheckpointError, match=r"saved_model\.pb: damaged"):
        checkpoint.open_checkpoint(folder)
    shutil.rmtree(folder)
    shutil.copytree(published["encoder"], folder)
    data = folder / "variables" / "variables.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:3000])
    with pytest.raises(CheckpointError, match=r"variables\.data-.*: damaged"):
        checkpoint.read_variables(folder)
    (folder / "variables" / "variables.index").write_bytes(b"abc")
    with pytest.raises(CheckpointError, match=r"variables\.index: damaged"):
        checkpoint.open_checkpoint(folder)
    shutil.rmtree(folder / "variables")
    with pytest.raises(CheckpointError, match=r"variables"):
        checkpoint.open_checkpoint(folder)


def test_modules_of_tensorflow_1(tmp_path):
    """Their variables have official names, perhaps with a first scope."""
    model = bert_tf.BertModel(CONFIG)
    values = values_of(model)
    for prefix in ("", "module/"):
        folder = tmp_path / f"hub{len(prefix)}"
        (folder / "variables").mkdir(parents=True)
        (folder / "saved_model.pb").write_bytes(b"")
        tf.raw_ops.SaveV2(
            prefix=str(folder / "variables" / "variables"),
            tensor_names=[prefix + name for name in values],
            shape_and_slices=[""] * len(values),
            tensors=list(values.values()),
        )
        found = checkpoint.read_variables(folder)
        assert found.keys() == values.keys()
        bert_tf.load_checkpoint(bert_tf.BertModel(CONFIG), folder, strict=True)


# --- ours ------------------------------------------------------------------


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ours") / "saved"
    config = BertConfig.from_dict({**VALUES, "hidden_act": "gelu_erf"})
    model = heads.BertForPreTraining(config)
    randomize(model)
    write_saved_model(
        str(folder),
        stored(values_of(model)),
        config,
        do_lower_case=True,
        vocab=VOCAB,
        record={"task": "classification"},
    )
    return folder, model


def test_it_can_be_called(written):
    folder, model = written
    ours = model(OURS)
    loaded = tf.saved_model.load(str(folder))
    found = loaded(THEIRS)
    assert sorted(found) == sorted(
        ["default", "encoder_outputs", "pooled_output", "sequence_output"]
    )
    for key in ("sequence_output", "pooled_output"):
        np.testing.assert_allclose(found[key], ours[key], atol=1e-5, rtol=0)
    layers = zip(
        found["encoder_outputs"], ours["all_encoder_layers"], strict=True
    )
    for theirs, own in layers:
        np.testing.assert_allclose(theirs, own, atol=1e-5, rtol=0)
    assert np.array_equal(found["default"], found["pooled_output"])
    with_dropout = loaded(THEIRS, training=True)
    assert not np.allclose(
        with_dropout["sequence_output"], ours["sequence_output"], atol=1e-3
    )
    served = loaded.signatures["serving_default"](**THEIRS)
    np.testing.assert_allclose(
        served["pooled_output"], ours["pooled_output"], atol=1e-5
    )
    inputs = {**THEIRS, "masked_lm_positions": tf.constant(POSITIONS)}
    np.testing.assert_allclose(
        loaded.mlm(inputs)["mlm_logits"], ours["masked_lm_logits"], atol=1e-5
    )
    with open(loaded.vocab_file.asset_path.numpy(), "rb") as stream:
        assert stream.read() == VOCAB
    assert bool(loaded.do_lower_case.numpy())


def test_it_can_be_trained_as_a_hub_layer(written):
    hub = pytest.importorskip("tensorflow_hub")
    layer = hub.KerasLayer(str(written[0]), trainable=True)
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(THEIRS, training=True)["pooled_output"])
    gradients = tape.gradient(loss, layer.trainable_variables)
    assert len(gradients) == 5 + 16 * 2 + 2
    assert all(x is not None for x in gradients)


def test_it_is_read_back_to_the_bit(written):
    folder, model = written
    source = checkpoint.open_checkpoint(folder)
    assert source.config == model.config
    assert source.vocab == VOCAB and source.do_lower_case is True
    found = checkpoint.read_variables(folder)
    values = values_of(model)
    assert found.keys() == values.keys()
    for name, value in values.items():
        assert found[name].tobytes() == value.tobytes()


def test_a_pooler_is_asked_for(tmp_path):
    values = values_of(bert_tf.BertModel(CONFIG))
    del values["bert/pooler/dense/kernel"]
    with pytest.raises(ValueError, match="no pooler"):
        write_saved_model(str(tmp_path / "x"), stored(values), CONFIG)
    assert not list(tmp_path.iterdir())


def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch):
    values = values_of(bert_tf.BertModel(CONFIG))
    folder = tmp_path / "x"
    folder.mkdir()
    (folder / "old").write_text("old")

    def fail(*args, **kwargs):
        (tmp_path / args[1].split("/")[-1]).mkdir()
        raise OSError("disk full")

    monkeypatch.setattr(tf.saved_model, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        write_saved_model(str(folder), stored(values), CONFIG)
    assert [x.name for x in tmp_path.iterdir()] == ["x"]
    assert (folder / "old").exists()
