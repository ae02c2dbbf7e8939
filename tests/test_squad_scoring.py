"""Scores against hand-worked cases and the official scripts."""

import random

import pytest

from bert_tf.tasks import squad_scoring
from bert_tf.tasks.squad_scoring import (
    answer_tokens,
    best_threshold,
    score_version_1,
    score_version_2,
)


def test_answer_tokens():
    assert answer_tokens("The  Cat's A-Team, an\tapple") == [
        "cats",
        "ateam",
        "apple",
    ]
    assert answer_tokens("北京。2018年") == ["北京。2018年"]
    assert answer_tokens("“北京”。2018年, the U.S.", split_cjk=True) == [
        *("北", "京", "2018", "年", "us"),
    ]


def test_version_1_by_hand():
    gold = {
        # Best of two: words {big, red, dog} against {red, dog}:
        # precision 2/2, recall 2/3, F1 0.8.
        "a": ["the big red dog", "cat"],
        "b": ["Paris"],  # exact, articles and case aside
        "c": ["blue"],  # wrong
        "d": ["green"],  # not predicted: 0
    }
    predictions = {"a": "red dog", "b": "the paris!", "c": "red"}
    scores = score_version_1(gold, predictions)
    assert scores == {
        "exact_match": 25.0,
        "f1": pytest.approx(100 * 1.8 / 4),
        "total": 4,
    }


def test_version_1_leaves_out_what_has_no_answer(caplog):
    scores = score_version_1({"a": ["x"], "b": [], "c": None}, {"a": "x"})
    assert scores == {"exact_match": 100.0, "f1": 100.0, "total": 1}
    assert "2 questions have no right answer" in caplog.text
    with pytest.raises(ValueError, match="no question has a right answer"):
        score_version_1({"a": None}, {"a": "x"})


def test_chinese_answers_score_by_character():
    gold = {"a": ["北京大学"]}
    predictions = {"a": "北京。"}
    assert score_version_1(gold, predictions)["f1"] == 0.0
    # Two of two characters right, two of four found.
    scores = score_version_1(gold, predictions, split_cjk=True)
    assert scores["f1"] == pytest.approx(200 / 3)
    exact = score_version_1(gold, {"a": "《北京 大学》"}, split_cjk=True)
    assert exact["exact_match"] == 100.0


def test_version_2_by_hand():
    gold = {"a": ["red dog"], "b": ["x"], "c": [], "d": []}
    predictions = {"a": "dog", "b": "", "c": "", "d": "y"}
    scores = score_version_2(gold, predictions)
    # a: 0 and 2/3; b: 0; c: 1; d: 0.
    assert scores == {
        "exact": 25.0,
        "f1": pytest.approx(100 * (2 / 3 + 1) / 4),
        "total": 4,
        "HasAns_exact": 0.0,
        "HasAns_f1": pytest.approx(100 / 3),
        "HasAns_total": 2,
        "NoAns_exact": 50.0,
        "NoAns_f1": 50.0,
        "NoAns_total": 2,
    }


def test_best_threshold_by_hand():
    gold = {"a": ["x"], "b": ["y"], "c": [], "d": []}
    best_texts = {"a": "x", "b": "y", "c": "wrong", "d": "wrong"}
    odds = {"a": -3.0, "c": -1.0, "b": 0.5, "d": 2.0}
    answers = {"a": "x", "b": "", "c": "wrong", "d": ""}
    scores = score_version_2(gold, answers, odds, best_texts)
    assert scores["exact"] == 50.0
    # Up to -3: a right, b lost, c and d right; as good as up to 0.5.
    assert scores["best_exact"] == scores["best_f1"] == 75.0
    assert scores["best_exact_thresh"] == -3.0


def _apply(threshold, gold, best_texts, odds):
    answers = {
        i: "" if odds[i] > threshold else text for i, text in best_texts.items()
    }
    return score_version_2(gold, answers)["f1"]


def test_best_threshold_reproduces_its_score():
    generator = random.Random(3)
    nothing_best = 0
    for _ in range(200):
        ids = [str(i) for i in range(12)]
        gold = {i: [] if generator.random() < 0.6 else ["a b"] for i in ids}
        texts = {i: generator.choice(["a b", "a", "c", ""]) for i in ids}
        # Few values: ties.
        odds = {i: float(generator.randrange(-3, 3)) for i in ids}
        scores = score_version_2(gold, texts, odds, texts)
        best = max(_apply(t, gold, texts, odds) for t in (*range(-4, 3), -0.5))
        assert scores["best_f1"] == pytest.approx(best)
        assert _apply(
            scores["best_f1_thresh"], gold, texts, odds
        ) == pytest.approx(best)
        nothing_best += scores["best_f1_thresh"] < min(odds.values())
    assert nothing_best


def test_best_threshold_never_parts_equal_odds():
    threshold = best_threshold(
        {"right": 1.0, "wrong": 0.0, "other": 0.0},
        {"right": 1.0, "wrong": 1.0, "other": 1.0},
        {"wrong", "other"},
    )
    assert threshold.value < 1.0
    assert threshold.score == pytest.approx(200 / 3)


def _random_case(generator, with_impossible):
    words = ["the", "Red", "dog", "U.S.", "a", "cat-like", "", "42"]
    gold, predictions = {}, {}
    for i in range(40):
        answers = [
            " ".join(generator.choices(words, k=generator.randrange(1, 4)))
            for _ in range(generator.randrange(1, 4))
        ]
        if with_impossible and generator.random() < 0.4:
            answers = []
        gold[str(i)] = answers
        if with_impossible and generator.random() < 0.3:
            predictions[str(i)] = ""
        else:
            # Never articles alone: the official threshold search takes those
            # for an answer, its score for none.
            text = " ".join(generator.choices(words, k=2))
            predictions[str(i)] = text if answer_tokens(text) else "dog"
    dataset = [
        {
            "paragraphs": [
                {
                    "qas": [
                        {"id": i, "answers": [{"text": t} for t in answers]}
                        for i, answers in gold.items()
                    ]
                }
            ]
        }
    ]
    return gold, predictions, dataset


def test_version_1_equals_the_official_script():
    official = pytest.importorskip("official.nlp.tools.squad_evaluate_v1_1")
    generator = random.Random(4)
    for _ in range(20):
        gold, predictions, dataset = _random_case(generator, False)
        expected = official.evaluate(dataset, predictions)
        scores = score_version_1(gold, predictions)
        assert scores["exact_match"] == pytest.approx(
            100 * expected["exact_match"]
        )
        assert scores["f1"] == pytest.approx(100 * expected["final_f1"])


def test_version_2_equals_the_official_script():
    official = pytest.importorskip("official.nlp.tools.squad_evaluate_v2_0")
    generator = random.Random(5)
    compared = 0
    for _ in range(20):
        gold, predictions, dataset = _random_case(generator, True)
        # Probabilities without ties, on which the official search is right.
        odds = {i: generator.random() for i in predictions}
        expected = official.evaluate(dataset, predictions, odds)
        scores = score_version_2(gold, predictions, odds, predictions)
        for key in [*expected]:
            if key in scores:
                assert scores[key] == pytest.approx(expected[key]), key
                compared += 1
        for name in ("exact", "f1"):
            assert scores[f"best_{name}"] == pytest.approx(
                expected[f"final_{name}"]
            )
            if expected[f"final_{name}_thresh"]:
                assert scores[f"best_{name}_thresh"] == pytest.approx(
                    expected[f"final_{name}_thresh"]
                )
    assert compared == 20 * 9


def test_version_2_leaves_out_what_is_unknown(caplog):
    scores = score_version_2({"a": ["x"], "b": None, "c": []}, {"a": "x"})
    assert scores["total"] == 1
    assert "1 questions say nothing of answers" in caplog.text
    assert "1 questions have no prediction" in caplog.text
    with pytest.raises(ValueError, match="no question has a right answer"):
        score_version_2({"b": None}, {})


def test_f1_of_nothing_in_common_is_zero():
    assert squad_scoring.f1_score([], []) == 0.0
    assert squad_scoring.f1_score(["a"], ["b"]) == 0.0
