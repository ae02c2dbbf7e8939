"""`extract_features.py` as a command, on two logical devices."""

import json
import os
import subprocess
import sys

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint import load_checkpoint, save_checkpoint
from bert_tf.config import BertConfig
from bert_tf.modeling import BertModel
from bert_tf.tokenization import FullTokenizer

PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "the", "cat", "dog", "sat"]
CONFIG = BertConfig(
    vocab_size=len(PIECES),
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=32,
    type_vocab_size=2,
    initializer_range=0.3,
)
LINES = ["the cat sat", "", "the cat ||| the dog sat", "dog"]


def run(repo_dir, *arguments):
    return subprocess.run(
        [sys.executable, repo_dir / "extract_features.py", *arguments],
        env={**os.environ, "PYTHONPATH": str(repo_dir)},
        capture_output=True,
        text=True,
    )


def test_replicas_write_the_same_file(repo_dir, tmp_path):
    tf.keras.utils.set_random_seed(2)
    CONFIG.save(tmp_path / "bert_config.json")
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(PIECES) + "\n")
    save_checkpoint(BertModel(CONFIG), tmp_path / "bert_model.ckpt")
    (tmp_path / "input.txt").write_text("\n".join(LINES))
    done = run(
        repo_dir,
        f"--input_file={tmp_path}/input.txt",
        f"--output_file={tmp_path}/output.jsonl",
        f"--vocab_file={vocab}",
        f"--bert_config_file={tmp_path}/bert_config.json",
        f"--init_checkpoint={tmp_path}/bert_model.ckpt",
        "--layers=-1,-2",
        "--batch_size=2",
        "--max_seq_length=16",
        "--num_cpu_devices=2",
        "--use_one_hot_embeddings",
    )
    assert done.returncode == 0, done.stderr
    assert "2 replica(s)" in done.stderr
    assert "4 lines, 18 pieces" in done.stderr
    found = [
        json.loads(line)
        for line in (tmp_path / "output.jsonl").read_text().splitlines()
    ]
    model = BertModel(CONFIG)
    load_checkpoint(model, tmp_path / "bert_model.ckpt", strict=True)
    tokenizer = FullTokenizer(vocab)
    for line, text in zip(found, LINES, strict=True):
        features = tokenizer.encode(*text.split(" ||| "), max_seq_length=16)
        outputs = model({k: np.int32([v]) for k, v in features.items()})
        for i, feature in enumerate(line["features"]):
            for layer in feature["layers"]:
                np.testing.assert_allclose(
                    layer["values"],
                    outputs["all_encoder_layers"][layer["index"]][0, i],
                    atol=2e-5,
                )
        assert len(line["features"]) == sum(features["input_mask"])


def test_help_and_usage_errors_come_without_tensorflow(repo_dir):
    done = run(repo_dir, "--help")
    assert "--use_one_hot_embeddings" in done.stdout.replace("[no]", "")
    assert "oneDNN" not in done.stderr
    done = run(repo_dir, "--input_file=x")
    assert done.returncode != 0
    assert "--bert_config_file must have a value" in done.stderr
