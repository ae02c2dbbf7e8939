"""The multiple-choice task: loss, scores and files."""

import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.tasks.base import Split
from bert_tf.tasks.multiple_choice import (
    MultipleChoiceSource,
    MultipleChoiceTask,
)
from bert_tf.tasks.multiple_choice_data import CUSTOM_LAYOUT
from bert_tf.tokenization import FullTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
EVAL = Split("eval", "eval")
PREDICT = Split("predict", "predict")
LINES = [
    {"id": "q1", "context": "a", "choices": ["b", "ç", "d"], "label": 2},
    {"id": "q2", "context": "b", "choices": ["b", "c", "d"], "label": 0},
]
RESULTS = {
    "loss": np.array([0.25, 1.25], np.float32),
    "targets": np.array([2, 0]),
    "probabilities": np.array([[0.1, 0.1, 0.8], [0.3, 0.5, 0.2]], np.float32),
}


@pytest.fixture
def task(tmp_path):
    vocab, data = tmp_path / "vocab.txt", tmp_path / "data.jsonl"
    vocab.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    data.write_text("".join(json.dumps(line) + "\n" for line in LINES))
    source = MultipleChoiceSource(
        FullTokenizer(str(vocab)),
        dict.fromkeys(("train", "eval", "predict"), str(data)),
        CUSTOM_LAYOUT,
    )
    return MultipleChoiceTask(3, 6, source)


def test_loss_is_a_mean_over_the_examples(task):
    logits = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 0.0]], np.float32)
    features = {
        "input_ids": tf.zeros([2, 3, 6], tf.int32),
        "label_ids": tf.constant([2, 0]),
    }
    (weight,) = task.loss_weights(features).values()
    (total,) = task.loss_sums({"logits": logits}, features).values()
    log_probs = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    assert float(weight) == 2.0
    assert float(total) == pytest.approx(-log_probs[[0, 1], [2, 0]].sum())


def test_scores(task):
    assert task.compute_metrics(RESULTS, 8) == {
        "eval_accuracy": np.float32(0.5),
        "eval_loss": np.float32(0.75),
        "loss": np.float32(0.75),
    }


def test_files(task, tmp_path):
    assert task.prepare(EVAL, str(tmp_path)).num_records == 2
    task.write_evaluation(EVAL, RESULTS, str(tmp_path))
    with open(tmp_path / "eval_metrics.json") as stream:
        report = json.load(stream)
    assert report["accuracy"] == 0.5
    assert report["confusion_matrix"] == [[0, 1, 0], [0, 0, 0], [0, 0, 1]]
    table, lines = task.write_predictions(PREDICT, RESULTS, str(tmp_path))
    with open(table) as stream:
        assert stream.read() == "0.1\t0.1\t0.8\n0.3\t0.5\t0.2\n"
    with open(lines, encoding="utf-8") as stream:
        found = [json.loads(line) for line in stream]
    assert [(x["id"], x["choice"], x["text"]) for x in found] == [
        ("q1", 2, "d"),
        ("q2", 1, "c"),
    ]
    assert np.float32(found[1]["probabilities"][1]) == np.float32(0.5)
    assert "label" not in found[0]


def test_names_of_choices_are_written(task, tmp_path):
    source = task.source
    named = MultipleChoiceSource(
        source.tokenizer, source.paths, source.layout, ["A", "B", "C"]
    )
    task = MultipleChoiceTask(3, 6, named)
    _, lines = task.write_predictions(PREDICT, RESULTS, str(tmp_path))
    with open(lines, encoding="utf-8") as stream:
        labels = [json.loads(line)["label"] for line in stream]
    assert labels == ["C", "B"]


def test_predictions_that_are_not_finite(task, tmp_path):
    broken = {**RESULTS, "probabilities": np.full((2, 3), np.nan)}
    with pytest.raises(ValueError, match="row 0: not finite"):
        task.write_predictions(PREDICT, broken, str(tmp_path))


def test_the_number_of_choices_is_checked(task, tmp_path):
    with pytest.raises(ValueError, match="--num_choices is 1, expected at"):
        MultipleChoiceTask(1, 6)
    with pytest.raises(ValueError, match="line 1: found 3 choices, expected 4"):
        MultipleChoiceTask(4, 6, task.source).prepare(EVAL, str(tmp_path))


def test_model_and_description(task):
    config = BertConfig(
        vocab_size=9,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=6,
    )
    model = task.create_model(config)
    outputs = model({"input_ids": tf.zeros([2, 3, 6], tf.int32)})
    assert outputs["logits"].shape == (2, 3)
    assert task.head_shapes(config) == {"output_weights": (1, 4)}
    described = json.loads(json.dumps(task.description()))
    assert (described["task"], described["num_choices"]) == (
        "multiple_choice",
        3,
    )
