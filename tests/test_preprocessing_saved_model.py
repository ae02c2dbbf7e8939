"""Preprocessing and encoder SavedModels, called as those of TF-Hub are."""

import json
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import run_folder
from bert_tf.checkpoint import save_checkpoint
from bert_tf.config import BertConfig
from bert_tf.conversion import convert
from bert_tf.conversion_request import Conversion
from bert_tf.tokenization import FullTokenizer

pytest.importorskip("tensorflow_text")

PIECES = (  # noqa: SIM905
    "[PAD] [UNK] [CLS] [SEP] [MASK] the a cat dog sat on mat , . ##s "
    "e \u5929 \u6c14 \u03c3\u03bf\u03c6\u03bf\u03c2"
).split()
CONFIG = BertConfig(
    vocab_size=len(PIECES),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=20,
    type_vocab_size=2,
    initializer_range=0.4,
    hidden_act="gelu_erf",
)
TEXTS = [
    "The cats sat.",
    "",
    "\u5929\u6c14, \u00c9!",
    "\u03a3\u039f\u03a6\u039f\u03a3 on a mat",
    "dog [MASK] " * 20,
    "a\u00add\u2028og\ufffd",
]
OTHERS = ["on the mat", "a dog", "", "cat", "dogs " * 15, "the"]


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """A run's folder, what is written of it, and its model."""
    folder = tmp_path_factory.mktemp("models")
    (folder / "vocab.txt").write_text("\n".join(PIECES) + "\n", "utf-8")
    model = bert_tf.BertModel(CONFIG)
    run_folder.write_run(
        str(folder / "run"),
        {"do_lower_case": True},
        CONFIG,
        str(folder / "vocab.txt"),
    )
    save_checkpoint(model, folder / "run" / "bert_model.ckpt")
    output = folder / "saved"
    report = convert(
        Conversion(str(folder / "run"), str(output), "saved_model")
    )
    assert not report.notes
    tokenizer = FullTokenizer(folder / "vocab.txt", True)
    return folder, output, model, tokenizer


@pytest.fixture(scope="module")
def preprocess(written):
    return tf.saved_model.load(str(written[1] / "preprocess"))


def encoded(tokenizer, others=None, max_seq_length=20):
    others = others or [None] * len(TEXTS)
    rows = [
        tokenizer.encode(*x, max_seq_length=max_seq_length)
        for x in zip(TEXTS, others, strict=True)
    ]
    return {name: np.array([x[name] for x in rows], "i4") for name in rows[0]}


def assert_inputs(found, expected):
    theirs = {
        "input_word_ids": "input_ids",
        "input_mask": "input_mask",
        "input_type_ids": "segment_ids",
    }
    assert sorted(found) == sorted(theirs)
    for name, ours in theirs.items():
        assert found[name].dtype == tf.int32
        np.testing.assert_array_equal(found[name], expected[ours])


SERVE = """
import json, sys
import tensorflow as tf
import tensorflow_text
preprocess = tf.saved_model.load(sys.argv[1] + "/preprocess")
encoder = tf.saved_model.load(sys.argv[1])
outputs = encoder(preprocess(tf.constant(json.load(sys.stdin))))
assert "bert_tf" not in sys.modules
print(json.dumps(outputs["pooled_output"].numpy().tolist()))
"""


def test_text_to_pooled_output_in_a_fresh_process(written, tmp_path):
    _, output, model, tokenizer = written
    done = subprocess.run(
        [sys.executable, "-c", SERVE, output],
        input=json.dumps(TEXTS),
        capture_output=True,
        check=False,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    found = np.array(json.loads(done.stdout.splitlines()[-1]))
    expected = model(encoded(tokenizer))["pooled_output"].numpy()
    assert np.ptp(expected, axis=0).max() > 0.1
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_texts_become_the_encoders_inputs(written, preprocess):
    expected = encoded(written[3])
    assert_inputs(preprocess(tf.constant(TEXTS)), expected)
    assert_inputs(preprocess(TEXTS), expected)
    serve = preprocess.signatures["serving_default"]
    assert_inputs(serve(sentences=tf.constant(TEXTS)), expected)
    assert preprocess(tf.constant([], tf.string))["input_mask"].shape == (0, 20)


def test_pairs_are_packed_in_steps(written, preprocess):
    ids = [preprocess.tokenize(tf.constant(x)) for x in (TEXTS, OTHERS)]
    tokenizer = written[3]
    assert ids[0].to_list() == [tokenizer.tokenize_to_ids(x) for x in TEXTS]
    for length in (8, 15, 20):
        pairs = encoded(tokenizer, OTHERS, length)
        found = preprocess.bert_pack_inputs(ids, seq_length=length)
        assert_inputs(found, pairs)
        # As from a tokenizer that keeps words apart.
        words = [
            tf.RaggedTensor.from_row_lengths(
                tf.RaggedTensor.from_row_lengths(
                    x.values, tf.ones_like(x.values, tf.int64)
                ),
                x.row_lengths(),
            )
            for x in ids
        ]
        found = preprocess.bert_pack_inputs(
            words, seq_length=tf.constant(length)
        )
        assert_inputs(found, pairs)
        found = preprocess.bert_pack_inputs(ids[:1], seq_length=length)
        assert_inputs(found, encoded(tokenizer, None, length))
    assert_inputs(preprocess.bert_pack_inputs(ids[:1]), encoded(tokenizer))


def test_special_tokens_are_told(preprocess):
    found = preprocess.tokenize.get_special_tokens_dict()
    assert {name: int(x) for name, x in found.items()} == {
        "padding_id": 0,
        "start_of_sequence_id": 2,
        "end_of_segment_id": 3,
        "mask_id": 4,
        "vocab_size": len(PIECES),
    }


def test_hub_layers(written, preprocess):
    hub = pytest.importorskip("tensorflow_hub")
    _, output, model, tokenizer = written
    encoder = hub.KerasLayer(str(output))
    layer = hub.KerasLayer(str(output / "preprocess"))
    found = encoder(layer(tf.constant(TEXTS)))["pooled_output"]
    expected = model(encoded(tokenizer))["pooled_output"]
    np.testing.assert_allclose(found, expected, atol=1e-5)
    # As the guides on pairs do it.
    tokenize = hub.KerasLayer(preprocess.tokenize)
    pack = hub.KerasLayer(
        preprocess.bert_pack_inputs, arguments={"seq_length": 12}
    )
    pairs = [tokenize(tf.constant(x)) for x in (TEXTS, OTHERS)]
    assert_inputs(pack(pairs), encoded(tokenizer, OTHERS, 12))


def test_both_are_read_and_replaced_as_one(written, tmp_path):
    folder, output, _, _ = written
    back = convert(Conversion(str(output), str(tmp_path / "back"), "tf1"))
    assert back.input_format == "saved_model" and not back.missing
    with pytest.raises(ValueError, match="already"):
        convert(Conversion(str(folder / "run"), str(output), "saved_model"))
    with pytest.raises(ValueError, match="preprocess"):
        convert(
            Conversion(str(output / "preprocess"), str(tmp_path / "no"), "tf1")
        )
    convert(
        Conversion(
            str(folder / "run"), str(output), "saved_model", overwrite=True
        )
    )
    assert (output / "preprocess" / "assets" / "vocab.txt").read_bytes() == (
        folder / "vocab.txt"
    ).read_bytes()


def test_without_a_tokenizer_the_encoder_is_written_all_the_same(
    written, tmp_path, monkeypatch
):
    run = str(written[0] / "run")
    monkeypatch.setitem(sys.modules, "tensorflow_text", None)
    report = convert(Conversion(run, str(tmp_path / "out"), "saved_model"))
    (note,) = report.notes
    assert "no preprocessing SavedModel" in note and "tensorflow-text" in note
    assert not (tmp_path / "out" / "preprocess").exists()
    tf.saved_model.load(str(tmp_path / "out"))
