"""The tagging task: loss over words, scores of whole sentences, files."""

import json
import logging

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.tasks.base import Split
from bert_tf.tasks.tagging import TaggingSource, TaggingTask, labelled_rows
from bert_tf.tasks.tagging_features import TaggingFeaturizer
from bert_tf.tokenization import FullTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
LABELS = ["B-X", "I-X", "O"]
ZERO_WIDTH = "\u200b"
EVAL = Split("eval", "eval")
PREDICT = Split("predict", "predict")

# Two sentences; of the second one the window of three words shows a part, and
# one word gives no piece.
FILE = f"a B-X\nb I-X\n\na O\n{ZERO_WIDTH} B-X\nc O\nd I-X\na I-X\n"


@pytest.fixture
def task(tmp_path):
    vocab, data = tmp_path / "vocab.txt", tmp_path / "data.txt"
    vocab.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    data.write_text(FILE, encoding="utf-8")
    featurizer = TaggingFeaturizer(FullTokenizer(str(vocab)), 5, "cut")
    paths = dict.fromkeys(("train", "eval", "predict"), str(data))
    return TaggingTask(LABELS, 5, TaggingSource(featurizer, paths))


def batches_of(winners):
    """What the device would give: two windows, labels as told, p = 0.8."""
    values = iter(winners)
    label_ids = np.array([[-1, 0, 1, -1, -1], [-1, 2, 2, 1, -1]])
    probabilities = np.full((2, 5, 3), 0.1, np.float32)
    for row, position in np.argwhere(label_ids >= 0):
        probabilities[row, position, LABELS.index(next(values))] = 0.8
    loss = np.where(label_ids >= 0, 0.5, 0.0).astype(np.float32)
    for i in range(2):
        yield {
            "loss": loss[i : i + 1],
            "probabilities": probabilities[i : i + 1],
            "label_ids": label_ids[i : i + 1],
        }


def test_loss_is_a_mean_over_the_words_of_the_whole_batch(task):
    random = np.random.default_rng(0)
    logits = random.normal(size=(4, 5, 3)).astype(np.float32)
    label_ids = random.integers(-1, 3, (4, 5)).astype(np.int32)

    def parts(rows):
        features = {"label_ids": tf.constant(label_ids[rows])}
        outputs = {"logits": tf.constant(logits[rows])}
        (weight,) = task.loss_weights(features).values()
        (total,) = task.loss_sums(outputs, features).values()
        return np.array([total, weight], np.float64)

    # Two replicas with unequal numbers of words make the loss of one.
    total, weight = parts(slice(0, 1)) + parts(slice(1, 4))
    np.testing.assert_allclose(parts(slice(0, 4)), [total, weight], rtol=1e-6)
    exp = np.exp(logits - logits.max(-1, keepdims=True))
    log_probs = np.log(exp / exp.sum(-1, keepdims=True))
    labelled = label_ids >= 0
    expected = -log_probs[labelled, label_ids[labelled]].mean()
    assert total / weight == pytest.approx(expected, rel=1e-6)
    assert weight == labelled.sum()


def test_records(task, tmp_path, caplog):
    found = task.prepare(EVAL, str(tmp_path))
    assert (found.num_records, found.num_examples) == (2, 2)
    assert "1 word(s) cut off" in caplog.text
    assert "1 word(s) without pieces, the first in" in caplog.text
    assert "1 label(s) that do not fit their neighbours" in caplog.text


def test_evaluation_counts_all_words(task, tmp_path, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    winners = ["B-X", "I-X", "O", "B-X", "I-X"]
    scores = task.evaluate(EVAL, batches_of(winners), 8, str(tmp_path))
    # Right: X 0-2. Found beside: X 2-4. Not found: the word without pieces;
    # X 3-5, cut off in the middle.
    assert scores["eval_precision"] == np.float32(1 / 2)
    assert scores["eval_recall"] == np.float32(1 / 3)
    assert scores["eval_accuracy"] == np.float32(4 / 7)
    assert scores["eval_loss"] == np.float32(0.5)
    with open(tmp_path / "eval_metrics.json", encoding="utf-8") as stream:
        report = json.load(stream)
    assert report["counts"] == {
        "sentences": 2,
        "words": 7,
        "cut": 1,
        "no_pieces": 1,
        "inconsistent_labels": 1,
        "inconsistent_predictions": 0,
    }
    assert report["types"]["X"]["support"] == 3
    assert report["encoding"] == "IOB2"
    assert "X        0.5000  0.3333" in caplog.text


def test_predictions_have_one_line_for_each_word(task, tmp_path):
    winners = ["B-X", "I-X", "O", "B-X", "I-X"]
    paths = task.predict(PREDICT, batches_of(winners), str(tmp_path))
    labelled, explained = paths
    with open(labelled, encoding="utf-8") as stream:
        assert stream.read() == (
            "a B-X\nb I-X\n\n"
            f"a O\n{ZERO_WIDTH} O [NO-PIECES]\nc B-X\nd I-X\na O [CUT]\n"
        )
    with open(explained, encoding="utf-8") as stream:
        lines = [json.loads(line) for line in stream]
    assert [len(line["words"]) for line in lines] == [2, 5]
    assert lines[1]["entities"][0]["text"] == "c d"


def test_labels_that_mark_no_entities(task, tmp_path):
    plain = TaggingTask(["NOUN", "VERB"], 5)
    results = {
        "loss": np.array([1.0, 2.0, 3.0]),
        "targets": [["NOUN", "VERB"], ["VERB"], ["VERB"]],
        "predictions": [["NOUN", "NOUN"], ["VERB"], ["O"]],
    }
    scores = plain.compute_metrics(results, 8)
    assert scores["eval_accuracy"] == np.float32(0.5)
    assert scores["eval_loss"] == np.float32(2.0)
    assert "eval_f1" not in scores
    types = plain.scores(results["targets"], results["predictions"])["types"]
    assert types["NOUN"] == {
        "precision": 0.5,
        "recall": 1.0,
        "f1": pytest.approx(2 / 3),
        "support": 1,
    }
    # What the model has not seen is O, a label of its own here.
    assert types["O"]["support"] == 0


def test_files_that_hold_nothing(task, tmp_path):
    for text, message in [
        (f"{ZERO_WIDTH} O\n", "none of its 1 words gives a piece"),
        ("\n", "it holds no word"),
    ]:
        with open(task.source.paths["eval"], "w", encoding="utf-8") as stream:
            stream.write(text)
        with pytest.raises(ValueError, match=message):
            task.prepare(EVAL, str(tmp_path))
    (tmp_path / "data.txt").unlink()
    with pytest.raises(ValueError, match="--eval_file: no file"):
        task.prepare(EVAL, str(tmp_path))


def test_model_and_description(task):
    config = BertConfig(
        vocab_size=9,
        hidden_size=4,
        num_hidden_layers=1,
        num_attention_heads=1,
        intermediate_size=4,
        max_position_embeddings=5,
    )
    assert task.create_model(config).num_labels == 3
    assert task.head_shapes(config) == {"output_weights": (3, 4)}
    described = json.loads(json.dumps(task.description()))
    assert described["labels"] == LABELS
    assert described["long_sentences"] == "cut"
    assert described["label_column"] == -1


def test_rows_of_words_in_order():
    winners = ["B-X", "I-X", "O", "B-X", "I-X"]
    found = [
        LABELS[row.argmax()]
        for _, probabilities in labelled_rows(batches_of(winners))
        for row in probabilities
    ]
    assert found == winners
