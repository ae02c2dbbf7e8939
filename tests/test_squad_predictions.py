"""Prediction files: the original's layout, all or none."""

import json

import pytest

from bert_tf.tasks.squad_answers import NbestEntry, QuestionAnswer
from bert_tf.tasks.squad_predictions import AnswerStore, AnswerWriter


def _answer(qas_id, text):
    entry = NbestEntry(text, 1.5, 2.25, 0.75, 3, 3 + len(text))
    other = NbestEntry("", 0.0, -1.0, 0.25)
    return QuestionAnswer(qas_id, entry, [entry, other], -4.75, text)


@pytest.mark.parametrize("count", [0, 1, 3])
def test_files_are_those_of_json_dump(tmp_path, count):
    answers = [_answer(f'"{i}', f"é\n{i}") for i in range(count)]
    with AnswerWriter(tmp_path, True) as writer:
        for answer in answers:
            writer.write(answer)
    nbest = [
        {
            "text": entry.text,
            "probability": entry.probability,
            "start_logit": entry.start_logit,
            "end_logit": entry.end_logit,
        }
        for entry in _answer("", "?").nbest
    ]
    expected = {
        "predictions.json": {a.qas_id: a.best.text for a in answers},
        "nbest_predictions.json": {
            a.qas_id: [{**nbest[0], "text": a.best.text}, nbest[1]]
            for a in answers
        },
        "null_odds.json": {a.qas_id: -4.75 for a in answers},
    }
    for name, content in expected.items():
        written = (tmp_path / name).read_text()
        assert written == json.dumps(content, indent=4) + "\n"
    lines = (tmp_path / "predictions_with_offsets.jsonl").read_text()
    assert [json.loads(line) for line in lines.splitlines()] == [
        {
            "id": f'"{i}',
            "text": f"é\n{i}",
            "start": 3,
            "end": 6,
            "probability": 0.75,
            "null_odds": -4.75,
        }
        for i in range(count)
    ]


def test_version_1_has_no_null_odds(tmp_path):
    with AnswerWriter(tmp_path, False) as writer:
        writer.write(_answer("a", "b"))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "nbest_predictions.json",
        "predictions.json",
        "predictions_with_offsets.jsonl",
    ]
    line = (tmp_path / "predictions_with_offsets.jsonl").read_text()
    assert "null_odds" not in line


def test_a_failed_run_leaves_the_old_files(tmp_path):
    (tmp_path / "predictions.json").write_text("old")
    with pytest.raises(RuntimeError), AnswerWriter(tmp_path, True) as writer:
        writer.write(_answer("a", "b"))
        raise RuntimeError
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.json"]
    assert (tmp_path / "predictions.json").read_text() == "old"


def test_store_gives_back_what_it_was_given():
    store = AnswerStore()
    assert list(store) == []
    answers = [_answer(str(i), "é" * i) for i in range(3)]
    for answer in answers:
        store.add(answer)
    assert list(store) == answers
    assert list(store) == answers
