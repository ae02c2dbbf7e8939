"""Settings of SQuAD: mistakes are named before anything is read."""

import json

import pytest

from bert_tf.tasks.squad_settings import SquadSettings


@pytest.fixture
def squad_file(tmp_path):
    path = tmp_path / "squad.json"
    qa = {"id": "q1", "question": "谁?", "answers": []}
    content = {"data": [{"paragraphs": [{"context": "在 北京", "qas": [qa]}]}]}
    path.write_text(json.dumps(content))
    return str(path)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"max_seq_length": 67},
            r"--max_seq_length \(67\).*--max_query_length \(64\) \+ 3",
        ),
        ({"doc_stride": 0}, "--doc_stride is 0"),
        ({"n_best_size": 0}, "n_best_size is 0"),
        ({"max_answer_length": -1}, "max_answer_length is -1"),
        ({"count_steps_by": "words"}, "'words', expected one of questions"),
        ({"predict_file": "absent.json"}, "--predict_file=absent.json: no"),
    ],
)
def test_mistakes(options, message):
    with pytest.raises(ValueError, match=message):
        SquadSettings(**options)


@pytest.mark.parametrize(
    ("mode", "message"),
    [
        ("train", "--do_train needs --train_file$"),
        ("eval", "--do_eval needs --eval_file or --predict_file$"),
        ("predict", "--do_predict needs --predict_file$"),
    ],
)
def test_missing_files(mode, message):
    with pytest.raises(ValueError, match=message):
        SquadSettings().file_of(mode)


def test_read(squad_file):
    for splits, words in ((False, ["在", "北京"]), (True, ["在", "北", "京"])):
        settings = SquadSettings(
            predict_file=squad_file, split_cjk_words=splits
        )
        (example,), report = settings.read("predict")
        assert example.paragraph.words == words
        assert report.path == squad_file


def test_answer_settings():
    settings = SquadSettings(
        n_best_size=3,
        max_answer_length=4,
        version_2_with_negative=True,
        verbose_logging=True,
    ).answer_settings(1.5)
    assert settings.n_best_size == 3
    assert settings.max_answer_length == 4
    assert settings.version_2_with_negative
    assert settings.null_score_diff_threshold == 1.5
    assert settings.verbose_logging
