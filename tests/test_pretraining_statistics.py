"""Counts, their sums and their report."""

import json

import numpy as np

from bert_tf.pretraining_statistics import Statistics


def make(factor=1):
    statistics = Statistics()
    statistics.counts.update({"lines": 3 * factor, "tokens": 200 * factor})
    statistics.counts["unknown_tokens"] = 5 * factor
    statistics.add_instances(np.array([8, 8, 5]), np.array([1, 0, 0]), 8)
    statistics.add_masks(
        np.array([3, 1]),
        np.array([[7, 8, 9], [7, 0, 0]]),
        np.array([[4, 8, 5], [4, 0, 0]]),
        mask_id=4,
    )
    return statistics


def test_instances_and_masks():
    statistics = make()
    counts = statistics.counts
    assert counts["instances"] == 3 and counts["random_next"] == 1
    assert counts["instance_tokens"] == 21 and counts["full_length"] == 2
    assert statistics.lengths == {8: 2, 5: 1}
    assert counts["masked"] == 4 and counts["masked_as_mask"] == 2
    assert counts["masked_kept"] == 1 and counts["masked_random"] == 1


def test_merge_adds_and_keeps_the_first_place():
    one, two = make(), make(2)
    one.note("overlong_lines", "a, byte 3")
    two.note("overlong_lines", "b, byte 9")
    two.note("undecodable_lines", "b, line 1")
    total = Statistics.total([one, two])
    assert total.counts["lines"] == 9
    assert total.counts["overlong_lines"] == 2
    assert total.lengths == {8: 4, 5: 2}
    assert total.places == {
        "overlong_lines": "a, byte 3",
        "undecodable_lines": "b, line 1",
    }


def test_json_there_and_back():
    statistics = make()
    statistics.note("overlong_lines", "a")
    data = json.loads(json.dumps(statistics.to_json()))
    again = Statistics.from_json(data)
    assert again.counts == statistics.counts
    assert again.lengths == statistics.lengths
    assert again.places == statistics.places


def test_report_has_shares_and_a_histogram():
    text = make().report(8, 3)
    assert "(unknown: 2.50 %)" in text
    assert "(at full length: 66.67 %)" in text
    assert "[MASK] 50.00 %, kept 25.00 %, random 25.00 %" in text
    assert "(padding: 12.50 %)" in text
    assert text.splitlines()[-1].split() == ["8-8", "2", "#" * 40]


def test_report_of_nothing_divides_by_nothing():
    text = Statistics().report(8, 3)
    assert "documents              0" in text and "none" in text
    assert "masked" not in Statistics().report(8, 0)
