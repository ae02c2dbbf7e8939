"""The SQuAD task: records, loss, streaming answers, scores, threshold."""

import json
import logging
import pathlib
import random
import weakref

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import records
from bert_tf.config import BertConfig
from bert_tf.tasks.squad import DROPPED_FILE, THRESHOLD_FILE, SquadTask
from bert_tf.tasks.squad_settings import SquadSettings
from bert_tf.tokenization import FullTokenizer

LENGTH = 12
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "?"]


@pytest.fixture
def tokenizer(tmp_path):
    path = tmp_path / "vocab.txt"
    path.write_text("\n".join([*PIECES, *"abcdefghij"]))
    return FullTokenizer(path)


def write_squad(path, *questions):
    """Writes (id, context, answer or None, start) as a version 2 file."""
    content = {
        "data": [
            {
                "paragraphs": [
                    {
                        "context": context,
                        "qas": [
                            {
                                "id": qas_id,
                                "question": "who?",
                                "answers": []
                                if answer is None
                                else [{"text": answer, "answer_start": start}],
                                "is_impossible": answer is None,
                            }
                        ],
                    }
                    for qas_id, context, answer, start in questions
                ]
            }
        ]
    }
    path.write_text(json.dumps(content))
    return str(path)


QUESTIONS = (
    ("q1", "a b c d", "b", 2),
    ("q2", "a b c d e f g h i j", "h", 14),  # two windows
    ("q3", "c d e", None, 0),
)


@pytest.fixture
def squad_file(tmp_path):
    return write_squad(tmp_path / "squad.json", *QUESTIONS)


def make_task(tokenizer, path, **options):
    settings = {
        "train_file": path,
        "eval_file": path,
        "predict_file": path,
        "max_seq_length": LENGTH,
        "max_query_length": 2,
        "doc_stride": 3,
        "version_2_with_negative": True,
        **options,
    }
    return SquadTask(SquadSettings(**settings), tokenizer)


def prepare(task, mode, folder):
    (split,) = task.splits(mode)
    return split, task.prepare(split, str(folder))


def read(found):
    (path,) = found.paths
    return [
        records.decode_example(record) for record in records.read_records(path)
    ]


def logits_for(task, spans, null=0.0, score=10.0):
    """Batches of two windows in which question i answers `spans[i]`."""
    examples, _ = task.settings.read("predict")
    windows = task.settings.featurizer(task.tokenizer, False).stream(examples)
    rows = []
    for window in windows:
        start = np.zeros(LENGTH, np.float32)
        end = np.zeros(LENGTH, np.float32)
        start[0] = end[0] = null
        first, last = spans[window.example_index]
        words = window.words
        if first in words and last in words:
            start[window.doc_offset + words.index(first)] = score
            end[window.doc_offset + words.index(last)] = score
        rows.append((window.unique_id, start, end))
    for at in range(0, len(rows), 2):
        ids, starts, ends = zip(*rows[at : at + 2], strict=True)
        yield {
            "unique_ids": np.array(ids, np.int32),
            "start_logits": np.stack(starts),
            "end_logits": np.stack(ends),
        }


def no_batches():
    raise AssertionError("the model must not run again")
    yield


def test_training_records(tokenizer, squad_file, tmp_path):
    task = make_task(tokenizer, squad_file)
    _, found = prepare(task, "train", tmp_path)
    assert found.paths == [str(tmp_path / "train.tf_record")]
    assert (found.num_examples, found.num_records) == (3, 4)
    rows = read(found)
    assert [row["unique_ids"] for row in rows] == [
        [1_000_000_000 + i] for i in range(4)
    ]
    assert set(rows[0]) == set(task.feature_spec("train").names())
    # random.Random(12345).shuffle of three: q3, q1, q2.
    impossible = [row["is_impossible"][0] for row in rows]
    starts = [row["start_positions"][0] for row in rows]
    assert impossible == [1, 0, 0, 0]
    assert starts == [0, 5, 0, 8]
    assert (tmp_path / DROPPED_FILE).read_text() == ""


def test_the_order_is_the_originals(tokenizer, tmp_path):
    """Python's random module seeded with 12345, before the windows."""
    letters = list("abcdefghij")
    path = write_squad(tmp_path / "many.json", *((c, c, c, 0) for c in letters))
    _, found = prepare(make_task(tokenizer, path), "train", tmp_path)
    random.Random(12345).shuffle(letters)
    pieces = [
        tokenizer.convert_ids_to_tokens([row["input_ids"][4]])[0]
        for row in read(found)
    ]
    assert pieces == letters != sorted(letters)


def test_steps_by_windows(tokenizer, squad_file, tmp_path, caplog):
    task = make_task(tokenizer, squad_file, count_steps_by="windows")
    with caplog.at_level(logging.INFO, "bert_tf"):
        _, found = prepare(task, "train", tmp_path)
    assert (found.num_examples, found.num_records) == (4, 4)
    assert "3 questions or 4 windows" in caplog.text


def test_dropped_examples_are_listed(tokenizer, tmp_path, caplog):
    path = write_squad(
        tmp_path / "squad.json",
        *QUESTIONS,
        ("q4", "a b", "c", 0),
        ("q5", "a b", "a b c d", 0),
        ("q6", " ", "a", 0),
        ("q7", "\u200b", None, 0),
    )
    task = make_task(tokenizer, path)
    with caplog.at_level(logging.WARNING, "bert_tf"):
        _, found = prepare(task, "train", tmp_path)
    # As in the original, the question without window counts for the steps.
    assert (found.num_examples, found.num_records) == (4, 4)
    lines = (tmp_path / DROPPED_FILE).read_text().splitlines()
    dropped = {line["id"]: line for line in map(json.loads, lines)}
    assert {key: line["reason"] for key, line in dropped.items()} == {
        "q4": "answer not found at its offset",
        "q5": "answer beyond the end of the context",
        "q6": "blank context",
        "q7": "context without tokens",
    }
    assert "expected 'c', found 'a'" in dropped["q4"]["detail"]
    assert "4 questions dropped, listed with reasons" in caplog.text


def test_nothing_to_train_on(tokenizer, tmp_path):
    path = write_squad(tmp_path / "squad.json", ("q1", "", "a", 0))
    with pytest.raises(ValueError, match="nothing to train on, 1 of 1 quest"):
        prepare(make_task(tokenizer, path), "train", tmp_path)


def test_scored_and_predicted_file_is_read_once(
    tokenizer, squad_file, tmp_path
):
    task = make_task(tokenizer, squad_file)
    _, scored = prepare(task, "eval", tmp_path)
    _, predicted = prepare(task, "predict", tmp_path)
    assert scored is predicted
    assert scored.paths == [str(tmp_path / "eval.tf_record")]
    assert set(read(scored)[0]) == {
        *("unique_ids", "input_ids", "input_mask", "segment_ids")
    }


def test_scored_file_of_its_own(tokenizer, squad_file, tmp_path):
    other = write_squad(tmp_path / "other.json", QUESTIONS[0])
    task = make_task(tokenizer, squad_file, eval_file=other)
    _, scored = prepare(task, "eval", tmp_path)
    _, predicted = prepare(task, "predict", tmp_path)
    assert scored.paths == [str(tmp_path / "scored.tf_record")]
    assert predicted.paths == [str(tmp_path / "eval.tf_record")]
    for found, count in ((scored, 1), (predicted, 4)):
        ids = [row["unique_ids"][0] for row in read(found)]
        assert ids == [1_000_000_000 + i for i in range(count)]


@pytest.mark.parametrize(
    ("version_2", "answers"),
    [(True, {}), (False, {}), (False, {"answers": []})],
)
def test_nothing_to_score_against(tokenizer, tmp_path, version_2, answers):
    path = tmp_path / "squad.json"
    qa = {"id": "q1", "question": "who?", **answers}
    content = {"data": [{"paragraphs": [{"context": "a", "qas": [qa]}]}]}
    path.write_text(json.dumps(content))
    task = make_task(tokenizer, str(path), version_2_with_negative=version_2)
    assert prepare(task, "predict", tmp_path)[1].num_records == 1
    with pytest.raises(ValueError, match=r"no question of .* has answers"):
        prepare(task, "eval", tmp_path)


def test_loss(tokenizer, squad_file):
    task = make_task(tokenizer, squad_file)
    outputs = {
        "start_logits": tf.constant([[0.0, 1.0, 2.0], [3.0, 1.0, 0.0]]),
        "end_logits": tf.constant([[1.0, 1.0, 1.0], [0.0, 0.0, 4.0]]),
    }
    features = {
        "input_ids": tf.zeros([2, 3], tf.int32),
        "start_positions": tf.constant([2, 7]),  # 7 adds nothing
        "end_positions": tf.constant([0, 1]),
    }
    start = np.log(1 + np.exp(1) + np.exp(2)) - 2.0
    ends = np.log(3.0), np.log(2 + np.exp(4))
    (total,) = task.loss_sums(outputs, features).values()
    (weight,) = task.loss_weights(features).values()
    expected = (start + ends[0]) / 2 + ends[1] / 2
    assert float(total) == pytest.approx(expected, abs=1e-5)
    assert float(weight) == 2.0


def test_model(tokenizer, squad_file):
    task = make_task(tokenizer, squad_file)
    config = BertConfig(
        vocab_size=17,
        hidden_size=8,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=8,
        max_position_embeddings=LENGTH,
    )
    model = task.create_model(config)
    assert not any("pooler" in name for name in task.trained_variables(model))
    ids = tf.ones([2, LENGTH], tf.int32)
    outputs = task.example_outputs(
        model({"input_ids": ids}), {"unique_ids": tf.range(2)}
    )
    assert outputs["start_logits"].shape == (2, LENGTH)
    assert outputs["unique_ids"].shape == (2,)


SPANS = [(1, 1), (7, 7), (1, 1)]


def predictions(folder):
    return json.loads((folder / "predictions.json").read_text())


def test_predict(tokenizer, squad_file, tmp_path):
    task = make_task(tokenizer, squad_file)
    split, _ = prepare(task, "predict", tmp_path)
    written = task.predict(split, logits_for(task, SPANS), str(tmp_path))
    assert [path.rsplit("/")[-1] for path in written] == [
        "predictions.json",
        "nbest_predictions.json",
        "null_odds.json",
        "predictions_with_offsets.jsonl",
    ]
    assert predictions(tmp_path) == {"q1": "b", "q2": "h", "q3": "d"}


def test_only_what_a_question_needs_is_held(tokenizer, tmp_path):
    letters = "abcdefghij"
    path = write_squad(
        tmp_path / "many.json",
        *((str(i), letters[i % 10], None, 0) for i in range(200)),
    )
    task = make_task(tokenizer, path)
    split, _ = prepare(task, "predict", tmp_path)
    alive: list[weakref.ref] = []
    most = 0

    def watched():
        nonlocal most
        for batch in logits_for(task, [(0, 0)] * 200):
            alive[:] = [ref for ref in alive if ref() is not None]
            most = max(most, len(alive))
            alive.append(weakref.ref(batch["start_logits"]))
            yield batch

    task.predict(split, watched(), str(tmp_path))
    assert len(predictions(tmp_path)) == 200
    assert most <= 3


def test_missing_windows_leave_no_file(tokenizer, squad_file, tmp_path):
    task = make_task(tokenizer, squad_file)
    split, _ = prepare(task, "predict", tmp_path)
    first_batch = [next(logits_for(task, SPANS))]
    with pytest.raises(ValueError, match="2 of 4 windows have no result"):
        task.predict(split, iter(first_batch), str(tmp_path))
    assert not (tmp_path / "predictions.json").exists()


def test_broken_model(tokenizer, squad_file, tmp_path):
    task = make_task(tokenizer, squad_file)
    split, _ = prepare(task, "predict", tmp_path)
    batches = list(logits_for(task, SPANS))
    batches[1]["end_logits"][0, 3] = np.nan
    with pytest.raises(ValueError, match="not finite"):
        task.predict(split, iter(batches), str(tmp_path))


@pytest.mark.parametrize(
    ("version_2", "answer"), [(True, ""), (False, "empty")]
)
def test_blank_contexts_only(tokenizer, tmp_path, version_2, answer):
    path = write_squad(
        tmp_path / "squad.json", ("q1", " ", "a", 0), ("q2", "\x00", None, 0)
    )
    task = make_task(tokenizer, path, version_2_with_negative=version_2)
    split, found = prepare(task, "predict", tmp_path)
    assert found.num_records == 0
    task.predict(split, iter(()), str(tmp_path))
    assert predictions(tmp_path) == {"q1": answer, "q2": answer}


def test_scores_version_1(tokenizer, tmp_path):
    path = write_squad(tmp_path / "squad.json", *QUESTIONS[:2])
    task = make_task(tokenizer, path, version_2_with_negative=False)
    split, _ = prepare(task, "eval", tmp_path)
    scores = task.evaluate(
        split, logits_for(task, [(1, 1), (6, 7)]), 2, str(tmp_path)
    )
    assert scores == {
        "exact_match": 50.0,
        "f1": pytest.approx(100 * (1 + 2 / 3) / 2),
        "total": 2,
    }
    assert not (tmp_path / THRESHOLD_FILE).exists()


def evaluate(task, folder):
    """Null odds 2, 2 and 4 above zero; the third has no answer."""
    split, _ = prepare(task, "eval", folder)
    batches = list(logits_for(task, SPANS, null=11.0))
    batches[1]["start_logits"][1, 0] += 2.0
    return task.evaluate(split, iter(batches), 2, str(folder))


def test_best_threshold_is_found_and_used(tokenizer, squad_file, tmp_path):
    task = make_task(tokenizer, squad_file)
    scores = evaluate(task, tmp_path)
    assert scores["null_score_diff_threshold"] == 0.0
    assert scores["f1"] == pytest.approx(100 / 3)
    assert scores["HasAns_f1"] == 0.0
    assert scores["NoAns_f1"] == 100.0
    assert scores["best_f1"] == 100.0
    assert scores["best_f1_thresh"] == 2.0
    stored = json.loads((tmp_path / THRESHOLD_FILE).read_text())
    assert stored == {
        "null_score_diff_threshold": 2.0,
        "best_f1": 100.0,
        "eval_file": squad_file,
        "checkpoint": None,
    }
    split, _ = prepare(task, "predict", tmp_path)
    task.predict(split, no_batches(), str(tmp_path))
    assert predictions(tmp_path) == {"q1": "b", "q2": "h", "q3": ""}


def test_what_is_predicted_again_is_the_same(tokenizer, squad_file, tmp_path):
    """Answers kept by the evaluation against those of the model."""
    evaluate(make_task(tokenizer, squad_file), tmp_path)
    contents = []
    for kept in (True, False):
        task = make_task(tokenizer, squad_file)
        if kept:
            evaluate(task, tmp_path)
        split, _ = prepare(task, "predict", tmp_path)
        batches = list(logits_for(task, SPANS, null=11.0))
        batches[1]["start_logits"][1, 0] += 2.0
        paths = task.predict(
            split, no_batches() if kept else iter(batches), str(tmp_path)
        )
        contents.append([pathlib.Path(p).read_text() for p in paths])
    assert contents[0] == contents[1]


@pytest.mark.parametrize(
    ("options", "answers"),
    [
        ({}, {"q1": "b", "q2": "h", "q3": ""}),
        ({"null_score_diff_threshold": 0.0}, {"q1": "", "q2": "", "q3": ""}),
        ({"null_score_diff_threshold": 9.0}, {"q1": "b", "q2": "h", "q3": "d"}),
    ],
)
def test_given_threshold_wins(
    tokenizer, squad_file, tmp_path, options, answers
):
    evaluate(make_task(tokenizer, squad_file), tmp_path)
    task = make_task(tokenizer, squad_file, **options)
    split, _ = prepare(task, "predict", tmp_path)
    batches = list(logits_for(task, SPANS, null=11.0))
    batches[1]["start_logits"][1, 0] += 2.0
    task.predict(split, iter(batches), str(tmp_path))
    assert predictions(tmp_path) == answers


def test_threshold_of_another_checkpoint(
    tokenizer, squad_file, tmp_path, caplog
):
    task = make_task(tokenizer, squad_file)
    evaluate(task, tmp_path)
    path = tmp_path / THRESHOLD_FILE
    stored = json.loads(path.read_text())
    path.write_text(json.dumps({**stored, "checkpoint": "model.ckpt-7"}))
    split, _ = prepare(task, "predict", tmp_path)
    task.predict(split, no_batches(), str(tmp_path))
    assert predictions(tmp_path) == {"q1": "", "q2": "", "q3": ""}
    assert "was found for model.ckpt-7 and is not used" in caplog.text


def test_description(tokenizer, squad_file):
    assert make_task(tokenizer, squad_file).description() == {
        "task": "squad",
        "version_2_with_negative": True,
        "doc_stride": 3,
        "max_query_length": 2,
        "split_cjk_words": False,
        "split_unicode_blanks": False,
        "pack_sequences": False,
    }
