"""Reading of SQuAD files, and every fault they are known for."""

import json
import logging

import pytest

from bert_tf.tasks import squad_data


@pytest.fixture
def write(tmp_path):
    """Writes paragraphs as (context, questions) to a file."""

    def write_file(*paragraphs):
        path = tmp_path / "squad.json"
        content = {
            "data": [
                {
                    "paragraphs": [
                        {"context": context, "qas": questions}
                        for context, questions in paragraphs
                    ]
                }
            ]
        }
        path.write_text(json.dumps(content), encoding="utf-8")
        return str(path)

    return write_file


def _question(answer=None, start=0, qas_id="q1", **more):
    answers = (
        [] if answer is None else [{"text": answer, "answer_start": start}]
    )
    return {"id": qas_id, "question": "who?", "answers": answers, **more}


def _read_one(path, **options):
    examples, report = squad_data.read_squad_examples(path, True, **options)
    assert len(examples) + len(report.dropped) == report.num_questions
    return examples, report


def test_words_split_where_the_original_splits(write):
    context = " a\tb\r\nc\u202fd e\u00a0f\u3000g\u2028h 北京ab"
    examples, _ = squad_data.read_squad_examples(
        write((context, [_question()])), False
    )
    words = examples[0].paragraph.words
    assert words == ["a", "b", "c", "d", "e\u00a0f\u3000g\u2028h", "北京ab"]


def test_split_unicode_blanks_and_cjk(write):
    context = "a\u00a0b\u3000c\u202fd 在北京,2018年x"
    examples, _ = squad_data.read_squad_examples(
        write((context, [_question()])),
        False,
        split_cjk_words=True,
        split_unicode_blanks=True,
    )
    paragraph = examples[0].paragraph
    assert paragraph.words == [
        *("a", "b", "c", "d"),
        *("在", "北", "京", ",2018", "年", "x"),
    ]
    for word, (start, end) in zip(
        paragraph.words, paragraph.word_offsets, strict=True
    ):
        assert context[start:end] == word
    # No blank where the context has none.
    assert paragraph.text(2, 8) == "c d 在北京,2018年"


def test_context_offset_inverts_text(write):
    context = "  one  two\n\nthree 北京 x"
    examples, _ = squad_data.read_squad_examples(
        write((context, [_question()])), False, split_cjk_words=True
    )
    paragraph = examples[0].paragraph
    last = len(paragraph.words) - 1
    for first in range(last + 1):
        text = paragraph.text(first, last)
        for position, char in enumerate(text):
            if char != " ":
                offset = paragraph.context_offset(first, position)
                assert context[offset] == char
                assert paragraph.word_at(offset) >= first


def test_answer_with_no_break_space(write, caplog):
    path = write(
        ("in New\u00a0York now", [_question("New\u00a0York", 3)]),
    )
    examples, report = _read_one(path)
    assert not examples
    assert report.dropped[0].reason == "answer not found at its offset"
    assert "question q1 dropped" in caplog.text
    examples, report = _read_one(path, split_unicode_blanks=True)
    assert not report.dropped
    assert (examples[0].start_position, examples[0].end_position) == (1, 2)


def test_chinese_answer_resolves_to_its_characters(write):
    path = write(("我住在北京。", [_question("北京", 3)]))
    (example,), _ = _read_one(path)
    assert (example.start_position, example.end_position) == (0, 0)
    (example,), _ = _read_one(path, split_cjk_words=True)
    assert (example.start_position, example.end_position) == (3, 4)


@pytest.mark.parametrize(
    ("context", "answer", "start", "reason"),
    [
        ("The Cat sat", "the cat", 0, "answer not found at its offset"),
        ("x y z Rome", "Rome", 0, "answer not found at its offset"),
        ("0123456789", "a", 12, "answer beyond the end of the context"),
        ("0123456789", "789a", 7, "answer beyond the end of the context"),
        ("some text", "some", -3, "no valid answer_start"),
        ("some text", "some", None, "no valid answer_start"),
        ("some text", "some", "0", "no valid answer_start"),
        ("", "a", 0, "blank context"),
        (" \t", "a", 0, "blank context"),
    ],
)
def test_dropped_with_reason(write, caplog, context, answer, start, reason):
    path = write(
        (context, [_question(answer, start, "bad")]),
        ("fine text", [_question("fine", 0, "good")]),
    )
    with caplog.at_level(logging.INFO, logger="bert_tf"):
        examples, report = _read_one(path)
    assert [example.qas_id for example in examples] == ["good"]
    assert [(d.qas_id, d.reason) for d in report.dropped] == [("bad", reason)]
    assert f"1 of 2 questions kept; 1 dropped: {reason}" in caplog.text


def test_drop_shows_text_at_offset_and_answer(write):
    _, report = _read_one(write(("x y z Rome", [_question("Rome", 0)])))
    assert report.dropped[0].detail == "expected 'Rome', found 'x y'"
    assert report.misplaced_answers == [("q1", 0, "x y ", "Rome")]


def test_offset_a_little_off_is_tolerated_and_counted(write):
    (example,), report = _read_one(
        write(("in Rome then", [_question("Rome", 4)]))
    )
    assert (example.start_position, example.end_position) == (1, 1)
    assert len(report.misplaced_answers) == 1
    assert "1 of 1 answers not exactly at their offset" in report.summary()


def test_empty_answer_kept_as_the_original_does(write):
    (example,), report = _read_one(write(("a b c", [_question("", 2)])))
    assert (example.start_position, example.end_position) == (1, 0)
    assert report.empty_answers == ["q1"]
    (example,), _ = _read_one(write(("a b c", [_question("", 0)])))
    assert (example.start_position, example.end_position) == (0, 2)


def test_answer_in_leading_blanks(write):
    # The original lets the first word be -1, which Python counts from the
    # end; it only survives where there is one word.
    (example,), _ = _read_one(write((" only", [_question(" only", 0)])))
    assert (example.start_position, example.end_position) == (-1, 0)
    examples, _ = _read_one(write((" two words", [_question(" two", 0)])))
    assert not examples


def test_several_answers_take_the_first_usable(write):
    question = _question("wrong", 0)
    question["answers"] += [
        {"text": "Rome", "answer_start": 3},
        {"text": "then", "answer_start": 8},
    ]
    (example,), report = _read_one(write(("in Rome then", [question])))
    assert example.orig_answer_text == "Rome"
    assert example.answers == ("wrong", "Rome", "then")
    assert report.several_answers == ["q1"]
    assert "1 questions with several answers" in report.summary()
    assert report.summary().endswith("the first in q1")


def test_no_answer_names_question_and_flag(write):
    path = write(("in Rome", [_question(qas_id="q77")]))
    with pytest.raises(ValueError, match=r"q77.*--version_2_with_negative"):
        _read_one(path)


def test_version_2(write):
    path = write(
        (
            "in Rome",
            [
                _question(qas_id="no", is_impossible=True),
                _question("Rome", 3, "yes", is_impossible=False),
                _question(qas_id="no2"),
                _question("Rome", 3, "yes2"),
                _question(qas_id="odd", is_impossible=False),
            ],
        )
    )
    examples, report = _read_one(path, version_2_with_negative=True)
    assert [
        (e.qas_id, e.is_impossible, e.start_position) for e in examples
    ] == [
        ("no", True, -1),
        ("yes", False, 1),
        ("no2", True, -1),
        ("yes2", False, 1),
    ]
    assert report.missing_is_impossible == ["no2", "yes2"]
    assert [d.qas_id for d in report.dropped] == ["odd"]


def test_prediction_needs_no_answers_and_keeps_all(write):
    path = write(
        ("", [{"id": "a", "question": "?"}]),
        ("text", [{"id": 7, "question": "?", "answers": None}]),
        ("text", [_question("nowhere", 99, "c")]),
    )
    examples, report = squad_data.read_squad_examples(path, False)
    assert [e.qas_id for e in examples] == ["a", "7", "c"]
    assert [e.answers for e in examples] == [None, None, ("nowhere",)]
    assert examples[0].start_position is None
    assert not report.dropped


def test_duplicate_ids(write):
    path = write(
        ("in Rome", [_question("Rome", 3, "x"), _question("in", 0, "x")])
    )
    examples, report = _read_one(path)
    assert len(examples) == 2
    assert report.duplicate_ids == ["x"]
    with pytest.raises(ValueError, match="id 'x' is used by two questions"):
        squad_data.read_squad_examples(path, False)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "squad.json: no JSON"),
        ('{"version": 1}', "expected 'data'.*found 'version'"),
        ('{"data": [{"title": ""}]}', r"data\[0\]: expected 'paragraphs'"),
        (
            '{"data": [{"paragraphs": [{"qas": []}]}]}',
            r"data\[0\].paragraphs\[0\]: expected 'context'",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "", "qas": '
            '[{"question": "?"}]}]}]}',
            r"qas\[0\]: expected 'id'",
        ),
        (
            '{"data": [{"paragraphs": [{"context": "", "qas": '
            '[{"id": "z", "question": "?", "answers": [{"t": 0}]}]}]}]}',
            "question 'z': expected 'text'",
        ),
    ],
)
def test_other_layouts_are_named(tmp_path, content, message):
    path = tmp_path / "squad.json"
    path.write_text(content)
    with pytest.raises(ValueError, match=message):
        squad_data.read_squad_examples(str(path), True)


def test_byte_order_mark(write, tmp_path):
    path = write(("in Rome", [_question("Rome", 3)]))
    content = (tmp_path / "squad.json").read_bytes()
    (tmp_path / "squad.json").write_bytes(b"\xef\xbb\xbf" + content)
    assert len(_read_one(path)[0]) == 1


@pytest.mark.parametrize(
    ("name", "questions", "misplaced", "dropped"),
    [
        # Two answers hold an ideographic space, which splits no word.
        ("qa_cmrc2018/cmrc2018_trial.json", 1002, 5, 2),
        ("qa_cmrc2018/cmrc2018_dev.json", 3219, 200, 0),
        ("qa_xquad/xquad.ar.json", 1190, 0, 0),
        ("qa_squad2/dev-v1.1.json", 410, 0, 0),
    ],
)
def test_real_files(data_dir, name, questions, misplaced, dropped):
    path = str(data_dir / name)
    examples, report = squad_data.read_squad_examples(path, True)
    assert report.num_questions == questions
    assert len(report.misplaced_answers) == misplaced
    assert len(report.dropped) == dropped
    assert len(examples) + dropped == questions
    examples, report = squad_data.read_squad_examples(
        path, True, split_cjk_words=True, split_unicode_blanks=True
    )
    assert len(examples) + len(report.dropped) == questions
    for example in examples:
        found = example.paragraph.text(
            example.start_position, example.end_position
        )
        assert " ".join(example.orig_answer_text.split()) in found
