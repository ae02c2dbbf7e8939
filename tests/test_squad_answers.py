"""Choice of answers: what the original's goldens do not reach."""

import json
import logging
import re

import numpy as np
import pytest

from bert_tf.tasks.squad_answers import (
    AnswerSettings,
    NbestEntry,
    QuestionAnswer,
    WindowResult,
    answer_question,
    answer_questions,
    with_threshold,
)
from bert_tf.tasks.squad_data import Paragraph, SquadExample
from bert_tf.tasks.squad_predictions import AnswerWriter
from bert_tf.tasks.squad_windows import FIRST_UNIQUE_ID, SquadFeaturizer
from bert_tf.tokenization import FullTokenizer

S = 12


@pytest.fixture
def featurizer(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "!", "##s"]
    pieces += ["北", "京", *"abcdefghijklmnop"]
    vocab = tmp_path / "vocab.txt"
    vocab.write_text("\n".join(pieces), encoding="utf-8")
    return SquadFeaturizer(FullTokenizer(vocab), S, 4, 1)


def _example(context, qas_id="q1"):
    return SquadExample(
        qas_id, "who", Paragraph(context, re.compile(r"[^ \n]+"))
    )


def _peaked(window, start, end, null=0.0):
    """Logits with one peak, at pieces of the context."""
    logits = np.full((2, S), -5.0, np.float32)
    logits[:, 0] = null / 2
    logits[0, window.doc_offset + start] = 2.0
    logits[1, window.doc_offset + end] = 3.0
    return WindowResult(window.unique_id, *logits)


def _answer(featurizer, context, start, end, settings=None, null=0.0):
    example = _example(context)
    windows = featurizer.windows(example, 0, FIRST_UNIQUE_ID)
    return answer_question(
        example,
        windows[:1],
        [_peaked(windows[0], start, end, null)],
        featurizer.tokenizer,
        settings or AnswerSettings(),
    )


def test_offsets_point_into_the_untouched_context(featurizer):
    context = "(a)  b\n\nC! d"
    answer = _answer(featurizer, context, 3, 4)
    assert answer.best.text == "b C"
    assert context[answer.best.start : answer.best.end] == "b\n\nC"
    answer = _answer(featurizer, context, 1, 1)
    assert (answer.best.text, answer.best.start, answer.best.end) == ("a", 1, 2)
    assert answer.best is answer.nbest[0]
    assert sum(entry.probability for entry in answer.nbest) == pytest.approx(1)


def test_chinese_answer_is_cut_out_of_its_word(featurizer):
    answer = _answer(featurizer, "a北京b", 1, 2)
    assert (answer.best.text, answer.best.start, answer.best.end) == (
        "北京",
        1,
        3,
    )


def test_unknown_pieces_give_the_words_of_the_context(featurizer, caplog):
    settings = AnswerSettings(verbose_logging=True)
    with caplog.at_level(logging.INFO, logger="bert_tf"):
        answer = _answer(featurizer, "a 😊! b", 1, 1, settings)
    assert (answer.best.text, answer.best.start, answer.best.end) == (
        "😊!",
        2,
        4,
    )
    assert "cannot map '[UNK]' back" in caplog.text


def test_nothing_is_logged_by_default(featurizer, caplog):
    with caplog.at_level(logging.INFO, logger="bert_tf"):
        _answer(featurizer, "a 😊! b", 1, 1)
    assert not caplog.records


def test_no_span_qualifies_version_1(featurizer):
    # End before start, and the only candidates.
    answer = _answer(featurizer, "a b c", 2, 0, AnswerSettings(n_best_size=1))
    assert [entry.text for entry in answer.nbest] == ["empty"]
    assert answer.best.probability == 1.0
    assert answer.best.start is None
    assert answer.null_odds is None


def test_no_span_qualifies_version_2(featurizer):
    settings = AnswerSettings(1, version_2_with_negative=True)
    answer = _answer(featurizer, "a b c", 2, 0, settings, null=1.5)
    assert [entry.text for entry in answer.nbest] == [""]
    assert answer.best.text == answer.best_text == ""
    assert answer.null_odds == 1.5
    # Also where the threshold would never choose it.
    settings = AnswerSettings(1, 30, True, 1e9)
    answer = _answer(featurizer, "a b c", 2, 0, settings, null=1.5)
    assert answer.best.text == ""


def test_best_is_null_with_one_entry(featurizer):
    settings = AnswerSettings(1, version_2_with_negative=True)
    answer = _answer(featurizer, "a b c", 0, 1, settings, null=20.0)
    assert [entry.text for entry in answer.nbest] == [""]
    assert (answer.best.text, answer.null_odds) == ("", 20.0)


def test_threshold_decides_between_best_and_none(featurizer):
    for threshold, text in ((0.9, ""), (1.0, "a b")):
        settings = AnswerSettings(20, 30, True, threshold)
        answer = _answer(featurizer, "a b c", 0, 1, settings, null=6.0)
        assert answer.null_odds == 1.0
        assert answer.best.text == text
        assert answer.best_text == "a b"
    assert answer.best in answer.nbest


@pytest.mark.parametrize("is_version_2", [False, True])
def test_every_question_gets_an_entry(featurizer, tmp_path, is_version_2):
    examples = [
        _example("", "blank"),
        _example("a b c d e f g h i j k", "long"),
        _example("\u200b", "control"),
        _example("a", "short"),
    ]
    windows = list(featurizer.stream(examples))
    assert len(windows) == 3
    settings = AnswerSettings(version_2_with_negative=is_version_2)
    with AnswerWriter(tmp_path, is_version_2) as writer:
        for answer in answer_questions(
            examples,
            featurizer,
            (_peaked(window, 0, 0, -20.0) for window in windows),
            settings,
        ):
            writer.write(answer)
    assert writer.count == 4
    found = json.loads((tmp_path / "predictions.json").read_text())
    none = "" if is_version_2 else "empty"
    assert found == {
        "blank": none,
        "long": "a",
        "control": none,
        "short": "a",
    }
    if is_version_2:
        odds = json.loads((tmp_path / "null_odds.json").read_text())
        assert odds == {
            "blank": 0.0,
            "long": -25.0,
            "control": 0.0,
            "short": -25.0,
        }


def test_only_one_question_is_held(featurizer):
    examples = [_example("a b c", str(i)) for i in range(3)]
    windows = list(featurizer.stream(examples))
    drawn = []

    def results():
        for window in windows:
            drawn.append(window.unique_id)
            yield _peaked(window, 0, 0)

    answers = answer_questions(
        examples, featurizer, results(), AnswerSettings()
    )
    assert next(answers).qas_id == "0"
    # Its own result, and one look ahead.
    assert len(drawn) == 2


def _consume(featurizer, examples, results):
    return list(
        answer_questions(examples, featurizer, results, AnswerSettings())
    )


def test_incomplete_results_are_counted(featurizer):
    examples = [_example("a b c d e f g h i j k", str(i)) for i in range(5)]
    windows = list(featurizer.stream(examples))
    assert len(windows) == 10
    results = [_peaked(window, 0, 0) for window in windows]
    missing = results[:4] + results[5:7] + results[8:9]
    with pytest.raises(ValueError, match=r"3 of 10 windows.*1000000004"):
        _consume(featurizer, examples, missing)
    assert len(_consume(featurizer, examples, results)) == 5


def test_foreign_results_are_refused(featurizer):
    examples = [_example("a", str(i)) for i in range(3)]
    results = [_peaked(w, 0, 0) for w in featurizer.stream(examples)]
    with pytest.raises(ValueError, match="1000000000 came where 1000000001"):
        _consume(featurizer, examples, [results[0], *results])
    with pytest.raises(ValueError, match="1000000002 belongs to no window"):
        _consume(featurizer, examples[:2], results)


@pytest.mark.parametrize("name", ["n_best_size", "max_answer_length"])
def test_settings_are_checked(name):
    with pytest.raises(ValueError, match=f"{name} is 0"):
        AnswerSettings(**{name: 0})


@pytest.mark.parametrize(
    ("texts", "odds", "threshold", "expected"),
    [
        (["a", ""], 2.0, 2.0, "a"),
        (["a", ""], 2.0, 1.5, ""),
        (["", "a"], 2.0, 3.0, "a"),
        ([""], 2.0, 3.0, ""),
        (["a", "b"], None, -9.0, "a"),  # version 1
    ],
)
def test_another_threshold(texts, odds, threshold, expected):
    nbest = [NbestEntry(text, 0.0, 0.0) for text in texts]
    best_text = next((text for text in texts if text), "")
    answer = QuestionAnswer("q", nbest[0], nbest, odds, best_text)
    assert with_threshold(answer, threshold).best.text == expected
