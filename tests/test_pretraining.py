"""The pre-training task: its records, masks, losses and scores."""

import logging

import numpy as np
import pytest
import tensorflow as tf
import tiny_records

from bert_tf import input_pipeline
from bert_tf.config import BertConfig
from bert_tf.tasks.base import Split
from bert_tf.tasks.pretraining import PretrainingSource, PretrainingTask

EVAL = Split("eval", "eval")
TRAIN = Split("train", "train")


def make_task(train=(), eval=(), use_next_sentence=True, **source):
    return PretrainingTask(
        16,
        3,
        use_next_sentence,
        PretrainingSource(tuple(train), tuple(eval), **source),
    )


# Records ------------------------------------------------------------------


def test_training_counts_nothing(tmp_path):
    path = tiny_records.write_static(tmp_path / "a", 5)
    with open(path, "r+b") as stream:  # all but the first record is damaged
        stream.seek(-40, 2)
        stream.write(bytes(20))
    task = make_task([path], shuffle_buffer=7)
    records = task.prepare(TRAIN, "")
    assert records.num_records is None and records.num_examples is None
    assert records.shuffle_buffer == 7
    assert records.describe() == "1 record file(s)"


@pytest.mark.parametrize(
    ("limit", "expected", "said"),
    [(100, 12, "all 12"), (12, 12, "all 12"), (11, 11, "first 11")],
)
def test_evaluation_counts_up_to_its_end(
    tmp_path, caplog, limit, expected, said
):
    paths = [tiny_records.write_static(tmp_path / n, 6) for n in "ab"]
    caplog.set_level(logging.INFO, "bert_tf")
    task = make_task(eval=paths, max_eval_records=limit)
    records = task.prepare(EVAL, "")
    assert records.num_records == expected
    assert not records.repeats
    assert said in caplog.text


def test_repeating_evaluation_reads_what_it_is_told_to(tmp_path):
    path = tiny_records.write_static(tmp_path / "a", 6)
    task = make_task(eval=[path], max_eval_records=100, eval_repeats=True)
    records = task.prepare(EVAL, "")
    assert records.num_records == 100 and records.repeats


@pytest.mark.parametrize(
    ("kwargs", "feature"),
    [
        ({"length": 20}, "16"),
        ({"predictions": 4}, "expected 3"),
    ],
)
def test_other_lengths_are_refused(tmp_path, kwargs, feature):
    good = tiny_records.write_static(tmp_path / "good", 2)
    bad = tiny_records.write_static(tmp_path / "bad", 2, **kwargs)
    with pytest.raises(ValueError) as caught:
        make_task([good, bad]).prepare(TRAIN, "")
    message = str(caught.value)
    assert bad in message and good not in message
    assert feature in message
    assert "--max_seq_length and --max_predictions_per_seq" in message


def test_empty_files_are_counted_and_left_out(tmp_path, caplog):
    full = tiny_records.write_static(tmp_path / "full", 2)
    empty = tiny_records.write_static(tmp_path / "empty", 0)
    records = make_task([empty, full]).prepare(TRAIN, "")
    assert records.paths == [full]
    assert f"1 of 2 record files hold no record: {empty}" in caplog.text
    with pytest.raises(ValueError, match=r"no record in 1 file\(s\): .*empty"):
        make_task([empty]).prepare(TRAIN, "")


def test_what_is_no_record_file_is_refused(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text('{"records": 5, "more": "text"}')
    with pytest.raises(ValueError, match=r"manifest\.json: record 0 is dam"):
        make_task([str(path)]).prepare(TRAIN, "")


def test_both_kinds_of_records_together_are_refused(tmp_path):
    static = tiny_records.write_static(tmp_path / "static", 2)
    dynamic = tiny_records.write_dynamic(tmp_path / "dynamic", 2)
    with pytest.raises(ValueError, match=r"two kinds.*static.*dynamic"):
        make_task([static, dynamic]).prepare(TRAIN, "")


# Masks drawn in the pipeline ------------------------------------------------


def batches(task, records, count, done=0):
    dataset = input_pipeline.train_batches(
        records.paths,
        task.feature_spec("train"),
        4,
        None,
        seed=5,
        examples_done=done,
        shuffle_buffer=10,
        complete=lambda *args: task.complete_features("train", *args),
    )
    return list(dataset.take(count).as_numpy_iterator()), dataset.element_spec


@pytest.mark.parametrize("whole_words", [False, True])
def test_records_without_masks_get_them(tmp_path, whole_words):
    path = tiny_records.write_dynamic(
        tmp_path / "a", 8, whole_words=whole_words
    )
    task = make_task([path])
    records = task.prepare(TRAIN, "")
    found, spec = batches(task, records, 6)
    assert {name: tuple(s.shape) for name, s in spec.items()} == {
        "input_ids": (4, 16),
        "input_mask": (4, 16),
        "segment_ids": (4, 16),
        "masked_lm_positions": (4, 3),
        "masked_lm_ids": (4, 3),
        "masked_lm_weights": (4, 3),
        "next_sentence_labels": (4, 1),
    }
    rows = {
        tuple(row["input_ids"]): row for row in tiny_records.make_rows(8, 16, 3)
    }
    drawn = {}
    for batch in found:
        for i in range(4):
            ids = batch["input_ids"][i].copy()
            count = int(batch["masked_lm_weights"][i].sum())
            positions = batch["masked_lm_positions"][i][:count]
            ids[positions] = batch["masked_lm_ids"][i][:count]
            assert tuple(ids) in rows  # putting back gives a record
            length = batch["input_mask"][i].sum()
            assert count == max(1, min(3, round(length * 0.15)))
            drawn.setdefault(tuple(ids), []).append(tuple(positions))
    assert len(drawn) == 8
    assert all(len(masks) == 3 for masks in drawn.values())
    # Three passes: at least half of the examples were masked in other places.
    assert sum(len(set(masks)) > 1 for masks in drawn.values()) >= 4


def test_a_resumed_run_draws_the_same_masks(tmp_path):
    path = tiny_records.write_dynamic(tmp_path / "a", 12)
    task = make_task([path])
    records = task.prepare(TRAIN, "")
    whole, _ = batches(task, records, 7)
    rest, _ = batches(task, records, 3, done=16)
    for expected, found in zip(whole[4:], rest, strict=True):
        for name, value in expected.items():
            np.testing.assert_array_equal(found[name], value, err_msg=name)


def test_evaluation_draws_the_same_masks_each_time(tmp_path):
    path = tiny_records.write_dynamic(tmp_path / "a", 6)
    task = make_task(eval=[path])
    records = task.prepare(EVAL, "")
    runs = []
    for _ in range(2):
        dataset = input_pipeline.eval_batches(
            records.paths,
            task.feature_spec("eval"),
            4,
            records.num_records,
            complete=lambda *args: task.complete_features("eval", *args),
        )
        runs.append(list(dataset.as_numpy_iterator()))
    for a, b in zip(*runs, strict=True):
        for name in a:
            np.testing.assert_array_equal(a[name], b[name])
    padding = runs[0][1]["masked_lm_weights"][2:]
    assert not padding.any()


def test_records_with_masks_stay_as_they_are(tmp_path):
    features = {"input_ids": object()}
    assert make_task().complete_features("train", features, 0) is features


# Losses -------------------------------------------------------------------


def loss_parts(task, rows):
    config = BertConfig.from_dict(tiny_records.CONFIG)
    tf.keras.utils.set_random_seed(1)
    model = task.create_model(config)
    features = {
        name: tf.constant(
            [row[name] for row in rows],
            tf.float32 if name.endswith("weights") else tf.int32,
        )
        for name in task.feature_spec("train").names()
    }
    outputs = model(features, training=False)
    return (
        model,
        task.loss_weights(features),
        task.loss_sums(outputs, features),
        task.example_outputs(outputs, features),
    )


def test_losses_with_and_without_next_sentence():
    rows = list(tiny_records.make_rows(5, 16, 3))
    predictions = sum(sum(row["masked_lm_weights"]) for row in rows)
    model, weights, sums, outputs = loss_parts(make_task(), rows)
    assert float(weights["masked_lm_loss"]) == predictions
    assert float(weights["next_sentence_loss"]) == 5
    for name, total in sums.items():
        assert float(total) == pytest.approx(
            float(tf.reduce_sum(outputs[name])), rel=1e-5
        )
    both = set(make_task().trained_variables(model))
    task = make_task(use_next_sentence=False)
    model, weights, sums, outputs = loss_parts(task, rows)
    assert set(weights) == set(sums) == {"masked_lm_loss"}
    assert not any("next_sentence" in name for name in outputs)
    assert both - set(task.trained_variables(model)) == {
        "bert/pooler/dense/kernel",
        "bert/pooler/dense/bias",
        "cls/seq_relationship/output_weights",
        "cls/seq_relationship/output_bias",
    }


# Scores -------------------------------------------------------------------


def outputs_of(count, seed=0):
    random = np.random.default_rng(seed)
    weight = random.integers(1, 4, count).astype(np.float32)
    return {
        "masked_lm_weight": weight,
        "masked_lm_hits": np.floor(random.random(count) * (weight + 1)).astype(
            np.float32
        ),
        "masked_lm_loss": (random.random(count) * 9).astype(np.float32),
        "next_sentence_hits": random.integers(0, 2, count).astype(np.float32),
        "next_sentence_loss": random.random(count).astype(np.float32),
    }


def test_scores_by_hand():
    results = {
        "masked_lm_weight": np.float32([2, 1, 1]),
        "masked_lm_hits": np.float32([2, 0, 1]),
        "masked_lm_loss": np.float32([4, 3, 1]),
        "next_sentence_hits": np.float32([1, 1, 0]),
        "next_sentence_loss": np.float32([0.5, 0.1, 0.9]),
    }
    found = make_task().compute_metrics(results, batch_size=2)
    # Batches [0, 1] and [2]: 7 / 3 + 0.3 and 1 / 1 + 0.9.
    assert found == pytest.approx(
        {
            "loss": (7 / 3 + 0.3 + 1 + 0.9) / 2,
            "masked_lm_accuracy": 3 / 4,
            "masked_lm_loss": 2.0,
            "next_sentence_accuracy": 2 / 3,
            "next_sentence_loss": 0.5,
        },
        rel=1e-5,
    )


def test_scores_are_added_up_batch_by_batch():
    results = outputs_of(23)

    def stream():
        for at in range(0, 23, 5):
            yield {name: v[at : at + 5] for name, v in results.items()}

    task = make_task()
    assert task.evaluate(EVAL, stream(), 5, "") == task.compute_metrics(
        results, 5
    )


def test_no_prediction_at_all_scores_zero():
    results = {name: value * 0 for name, value in outputs_of(4).items()}
    found = make_task().compute_metrics(results, 2)
    assert found["masked_lm_accuracy"] == found["masked_lm_loss"] == 0
    assert found["loss"] == 0


def test_scores_without_next_sentence():
    results = {
        name: value
        for name, value in outputs_of(4).items()
        if name.startswith("masked")
    }
    assert sorted(make_task().compute_metrics(results, 2)) == [
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
    ]
