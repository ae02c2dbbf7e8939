"""`config.json` of Hugging Face, in both directions."""

import json

import pytest

from bert_tf.config import ACTIVATIONS, BertConfig
from bert_tf.huggingface_config import (
    from_huggingface,
    is_huggingface,
    to_huggingface,
)


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        ("gelu", "gelu_erf"),
        ("gelu_new", "gelu"),
        ("gelu_pytorch_tanh", "gelu"),
        ("relu", "relu"),
        ("tanh", "tanh"),
        ("linear", "linear"),
    ],
)
def test_activations(theirs, ours):
    assert from_huggingface({"hidden_act": theirs})["hidden_act"] == ours


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_every_activation_comes_back(activation):
    config = BertConfig(30, hidden_act=activation, layer_norm_eps=1e-5)
    values = from_huggingface(to_huggingface(config.to_dict()))
    back = BertConfig.from_dict(values)
    assert (back.hidden_act or "linear") == (activation or "linear")
    assert back.layer_norm_eps == 1e-5


def test_defaults_are_theirs():
    values = from_huggingface({"model_type": "bert"})
    assert values["type_vocab_size"] == 2
    assert values["hidden_act"] == "gelu_erf"
    assert values["layer_norm_eps"] == 1e-12
    assert to_huggingface(BertConfig(9).to_dict())["layer_norm_eps"] == 1e-12


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("model_type", "roberta"),
        ("position_embedding_type", "relative_key"),
        ("is_decoder", True),
        ("add_cross_attention", True),
        ("hidden_act", "silu"),
        ("hidden_act", None),
    ],
)
def test_other_models_are_refused(key, value):
    with pytest.raises(ValueError, match=rf"here: {key} is {value!r}"):
        from_huggingface({key: value}, "here")


def test_the_file_is_told_by_its_keys(tmp_path):
    ours = {"vocab_size": 30, "hidden_act": "gelu"}
    path = tmp_path / "config.json"
    path.write_text(json.dumps(ours))
    assert BertConfig.from_json_file(path).hidden_act == "gelu"
    path.write_text(json.dumps({**ours, "model_type": "bert"}))
    config = BertConfig.from_json_file(path)
    assert config.hidden_act == "gelu_erf" and not config.extra
    assert config.source == str(path)
    assert is_huggingface({"architectures": []})
    assert not is_huggingface({"directionality": "bidi"})


def test_the_epsilon_is_written_only_where_it_differs():
    assert "layer_norm_eps" not in BertConfig(30).to_dict()
    config = BertConfig(30, layer_norm_eps=1e-5)
    assert config.to_dict()["layer_norm_eps"] == 1e-5
    assert BertConfig.from_dict(config.to_dict()) == config
    for epsilon in (0, -1e-12, 1, "1e-12"):
        with pytest.raises(ValueError, match="layer_norm_eps"):
            BertConfig(30, layer_norm_eps=epsilon)
