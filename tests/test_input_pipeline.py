"""Orders and shapes of batches."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import input_pipeline
from bert_tf.records import Feature, FeatureSpec, RecordWriter

SPEC = FeatureSpec([Feature("input_ids", (2,)), Feature("label_ids")])


@pytest.fixture
def paths(tmp_path):
    """Four files of 25 records, numbered on; one is GZIP."""
    found = []
    for part in range(4):
        path = str(tmp_path / f"part-{part}")
        with RecordWriter(path, "GZIP" if part == 1 else None) as writer:
            for i in range(25 * part, 25 * part + 25):
                row = {"input_ids": [i, i + 1], "label_ids": i}
                writer.write(SPEC.serialize(row))
        found.append(path)
    return found


def labels(dataset, count=None):
    batches = itertools.islice(dataset.as_numpy_iterator(), count)
    return [batch["label_ids"].tolist() for batch in batches]


def streamed(paths, **kwargs):
    kwargs = {"seed": 3, "batch_size": 10, "shuffle_buffer": 16, **kwargs}
    return input_pipeline.train_batches(paths, SPEC, num_records=None, **kwargs)


def test_each_pass_holds_every_record_once(paths):
    found = labels(streamed(paths), 20)
    first, second = np.concatenate(found).reshape(2, 100).tolist()
    assert sorted(first) == sorted(second) == list(range(100))
    assert first != second


def test_all_files_reach_the_first_batches(paths):
    first = np.concatenate(labels(streamed(paths), 4)) // 25
    assert set(first.tolist()) == {0, 1, 2, 3}


def test_the_order_is_a_function_of_the_seed(paths):
    assert labels(streamed(paths), 25) == labels(streamed(paths), 25)
    assert labels(streamed(paths), 5) != labels(streamed(paths, seed=4), 5)


@pytest.mark.parametrize("buffer", [16, 1000])
def test_passing_over_examples(paths, buffer):
    whole = np.concatenate(labels(streamed(paths, shuffle_buffer=buffer), 30))
    rest = streamed(
        paths, shuffle_buffer=buffer, examples_done=135, batch_size=5
    )
    np.testing.assert_array_equal(np.concatenate(labels(rest, 33)), whole[135:])


def test_counted_files_are_shuffled_as_a_whole(paths):
    same_kind = [paths[0], paths[2]]
    dataset = input_pipeline.train_batches(same_kind, SPEC, 10, 50, seed=1)
    found = np.concatenate(labels(dataset, 5))
    assert sorted(found) == sorted([*range(25), *range(50, 75)])
    assert set(found[:10] // 25) == {0, 2}


def test_completion_counts_examples_on(paths):
    def number_rows(features, first_example):
        first = tf.fill(tf.shape(features["label_ids"]), first_example)
        return {"label_ids": first}

    dataset = streamed(paths, examples_done=30, complete=number_rows)
    assert [batch[0] for batch in labels(dataset, 3)] == [30, 40, 50]
    dataset = input_pipeline.eval_batches(
        paths[2:], SPEC, 20, 50, complete=number_rows
    )
    assert [batch[0] for batch in labels(dataset)] == [0, 20, 40]


def test_evaluation_fills_the_last_batch(paths):
    dataset = input_pipeline.eval_batches(paths[2:], SPEC, 20, 50)
    found = labels(dataset)
    assert [len(batch) for batch in found] == [20, 20, 20]
    assert found[2] == [*range(90, 100), *[0] * 10]


def test_evaluation_of_a_part(paths):
    dataset = input_pipeline.eval_batches(paths[2:], SPEC, 4, 6)
    assert labels(dataset) == [[50, 51, 52, 53], [54, 55, 0, 0]]


def test_evaluation_that_starts_over(paths):
    dataset = input_pipeline.eval_batches(paths[:1], SPEC, 10, 40, True)
    found = labels(dataset)
    assert len(found) == 4
    assert found[2] == [20, 21, 22, 23, 24, 0, 1, 2, 3, 4]
    assert dataset.element_spec["input_ids"].shape == (10, 2)
