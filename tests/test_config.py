"""BertConfig: defaults, files, unknown keys and refusals."""

import json
import logging

import pytest

from bert_tf.config import BertConfig


def test_defaults_are_the_originals():
    config = BertConfig(vocab_size=7)
    assert config.to_dict() == {
        "vocab_size": 7,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1,
        "attention_probs_dropout_prob": 0.1,
        "max_position_embeddings": 512,
        "type_vocab_size": 16,
        "initializer_range": 0.02,
    }


def test_file_round_trip_keeps_unknown_keys(tmp_path, caplog):
    path = tmp_path / "bert_config.json"
    values = {"vocab_size": 9, "pooler_type": "first_token_transform"}
    path.write_text(json.dumps(values))
    with caplog.at_level(logging.WARNING, "bert_tf"):
        config = BertConfig.from_json_file(path)
    (record,) = caplog.records
    assert "pooler_type" in record.message and str(path) in record.message
    assert config.source == str(path)
    config.save(tmp_path / "copy.json")
    text = (tmp_path / "copy.json").read_text()
    assert json.loads(text) == {**BertConfig(9).to_dict(), **values}
    assert text.endswith("}\n") and '\n  "hidden_act"' in text
    assert list(json.loads(text)) == sorted(json.loads(text))


def test_released_file_is_written_back_unchanged(golden_dir, tmp_path):
    source = golden_dir / "checkpoints/cased/bert_config.json"
    BertConfig.from_json_file(source).save(tmp_path / "c.json")
    assert json.loads((tmp_path / "c.json").read_text()) == json.loads(
        source.read_text()
    )


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 10, "num_attention_heads": 3}, "not a multiple"),
        ({"hidden_act": "swish"}, "hidden_act is 'swish'"),
        ({"hidden_size": "768"}, "hidden_size is '768', not an integer"),
        ({"num_hidden_layers": 0}, "num_hidden_layers is 0"),
        ({"hidden_dropout_prob": 1.5}, "hidden_dropout_prob is 1.5"),
        ({"initializer_range": None}, "initializer_range is None"),
    ],
)
def test_impossible_values_name_key_and_file(tmp_path, change, message):
    path = tmp_path / "bad.json"
    path.write_text(json.dumps({"vocab_size": 5, **change}))
    with pytest.raises(ValueError, match=message) as error:
        BertConfig.from_json_file(path)
    assert str(path) in str(error.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "not JSON"),
        (b"[1]", "expected a JSON object"),
        (b"\xff\xfe", "not UTF-8"),
        (b"{}", "vocab_size is missing"),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "broken.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=message):
        BertConfig.from_json_file(path)


def test_folder_in_place_of_the_file(tmp_path):
    with pytest.raises(ValueError, match="a folder"):
        BertConfig.from_json_file(tmp_path)


def test_case_of_the_activation_does_not_matter():
    assert BertConfig(5, hidden_act="GELU").hidden_act == "GELU"
