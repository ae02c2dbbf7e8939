"""run_squad from end to end, with tiny models."""

import json
import logging

import pytest
from absl.testing import flagsaver

from bert_tf import common_flags
from bert_tf.checkpoint import read_shapes
from bert_tf.config import BertConfig

FLAGS = common_flags.FLAGS
NAMES = ["ann", "bob", "cleo", "dan"]
PLACES = ["rome", "oslo", "lima", "cairo"]
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["where", "does", "live", "work", "in", ".", "?", *NAMES, *PLACES]


@pytest.fixture
def run_squad(monkeypatch):
    """Calls the script as a command line would, in this process."""
    import run_squad as script

    # TensorFlow is loaded already: its environment is what it is.
    monkeypatch.setattr(common_flags, "prepare_environment", lambda: None)

    def call(*arguments, **flags):
        line = ["run_squad.py", *arguments]
        line += [f"--{name}={value}" for name, value in flags.items()]
        with flagsaver.flagsaver():
            script.main(FLAGS(line))

    return call


def write_config(folder, vocab_size, **options):
    """A model of two layers that learns fast."""
    settings = {
        "vocab_size": vocab_size,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 64,
        "max_position_embeddings": 64,
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        "initializer_range": 0.1,
        **options,
    }
    path = folder / "config.json"
    BertConfig.from_dict(settings).save(str(path))
    return path


@pytest.fixture
def model_flags(tmp_path):
    vocab = tmp_path / "words.txt"
    vocab.write_text("\n".join([*PIECES, *WORDS]))
    config = write_config(tmp_path, len(PIECES) + len(WORDS))
    return {
        "vocab_file": vocab,
        "bert_config_file": config,
        "output_dir": tmp_path / "run",
        "max_seq_length": 24,
        "max_query_length": 8,
        "doc_stride": 6,
    }


def question(qas_id, name, verb, answer, start):
    answers = (
        [] if answer is None else [{"text": answer, "answer_start": start}]
    )
    return {
        "id": qas_id,
        "question": f"where does {name} {verb}?",
        "answers": answers,
        "is_impossible": answer is None,
    }


def write_squad(path, version_2, paragraphs=8):
    """Who lives where; in version 2 also who works where: nobody knows."""
    entries = []
    for i in range(paragraphs):
        name, place = NAMES[i % 4], PLACES[(i + i // 4) % 4]
        context = f"{name} live in {place}. " * 2
        questions = [
            question(f"q{i}", name, "live", place, context.index(place))
        ]
        if version_2:
            questions.append(question(f"n{i}", name, "work", None, 0))
        entries.append({"context": context, "qas": questions})
    path.write_text(json.dumps({"data": [{"paragraphs": entries}]}))
    return path


def load(path):
    return json.loads(path.read_text())


def scores_of(folder):
    lines = (folder / "eval_results.txt").read_text().splitlines()
    return {k: float(v) for k, v in (line.split(" = ") for line in lines)}


def test_packed_windows_from_training_to_answers(
    run_squad, model_flags, tmp_path, caplog
):
    data = write_squad(tmp_path / "squad.json", version_2=True)
    folder = model_flags["output_dir"]
    flags = {**model_flags, "max_seq_length": 64, "predict_file": data}
    with caplog.at_level(logging.INFO):
        run_squad(
            *("--do_train", "--do_eval", "--do_predict", "--pack_sequences"),
            "--version_2_with_negative",
            **flags,
            train_file=data,
            num_train_epochs=100,
            train_batch_size=16,
            learning_rate=1e-3,
        )
    assert "16 examples packed in 6 rows" in caplog.text
    scores = scores_of(folder)
    assert scores["best_f1"] > 90
    answers = load(folder / "predictions.json")
    best = load(folder / "nbest_predictions.json")
    # The folder knows how its model was trained: padding is no answer.
    run_squad("--do_eval", "--do_predict", **flags)
    again = scores_of(folder)
    assert again == pytest.approx(scores, abs=1e-3)
    assert load(folder / "predictions.json") == answers
    for qas_id, entries in load(folder / "nbest_predictions.json").items():
        assert [e["text"] for e in entries] == [e["text"] for e in best[qas_id]]
        for one, other in zip(entries, best[qas_id], strict=True):
            assert one["probability"] == pytest.approx(
                other["probability"], abs=1e-4
            )


def test_version_2_from_training_to_answers(
    run_squad, model_flags, tmp_path, caplog
):
    data = write_squad(tmp_path / "squad.json", version_2=True)
    folder = model_flags["output_dir"]
    with caplog.at_level(logging.INFO):
        run_squad(
            "--do_train",
            "--do_eval",
            "--do_predict",
            "--version_2_with_negative",
            **model_flags,
            train_file=data,
            predict_file=data,
            num_train_epochs=100,
            train_batch_size=16,
            learning_rate=1e-3,
            save_checkpoints_steps=1000,
        )
    assert "16 questions or 16 windows" in caplog.text
    scores = scores_of(folder)
    assert set(scores) == {
        *("exact", "f1", "total", "global_step"),
        *("HasAns_exact", "HasAns_f1", "HasAns_total"),
        *("NoAns_exact", "NoAns_f1", "NoAns_total"),
        *("best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh"),
        "null_score_diff_threshold",
    }
    assert scores["global_step"] == 100
    assert (scores["HasAns_total"], scores["NoAns_total"]) == (8, 8)
    assert scores["best_f1"] > 90
    threshold = load(folder / "null_threshold.json")
    assert threshold["checkpoint"] == "model.ckpt-100"
    assert threshold["best_f1"] == scores["best_f1"]
    check_prediction_files(folder, data, threshold)
    assert (folder / "train.tf_record").exists()
    assert (folder / "eval.tf_record").exists()
    # The pooler is saved, as the original does, but is not trained.
    variables = read_shapes(str(folder / "model.ckpt-100"))
    assert "bert/pooler/dense/kernel" in variables
    assert "bert/pooler/dense/kernel/adam_m" not in variables
    assert "cls/squad/output_weights/adam_m" in variables
    predict_with_the_folder_alone(run_squad, folder, data, caplog)


def check_prediction_files(folder, data, threshold):
    odds = load(folder / "null_odds.json")
    nbest = load(folder / "nbest_predictions.json")
    predictions = load(folder / "predictions.json")
    (article,) = load(data)["data"]
    contexts = {
        qa["id"]: paragraph["context"]
        for paragraph in article["paragraphs"]
        for qa in paragraph["qas"]
    }
    assert list(odds) == list(nbest) == list(predictions) == list(contexts)
    for qas_id, text in predictions.items():
        is_null = odds[qas_id] > threshold["null_score_diff_threshold"]
        assert (text == "") == is_null
    lines = (folder / "predictions_with_offsets.jsonl").read_text()
    for line in map(json.loads, lines.splitlines()):
        assert line["text"] == predictions[line["id"]]
        if line["text"]:
            context = contexts[line["id"]]
            assert context[line["start"] : line["end"]] == line["text"]


def predict_with_the_folder_alone(run_squad, folder, data, caplog):
    """Model, casing, lengths, version and threshold are all stored."""
    names = ("predictions.json", "null_odds.json")
    before = {name: load(folder / name) for name in names}
    for name in names:
        (folder / name).unlink()
    with caplog.at_level(logging.INFO):
        run_squad("--do_predict", output_dir=folder, predict_file=data)
    assert load(folder / names[0]) == before[names[0]]
    assert load(folder / names[1]) == pytest.approx(before[names[1]])
    assert "the best on" in caplog.text


def test_version_1_counts_steps_as_asked(run_squad, model_flags, tmp_path):
    data = write_squad(tmp_path / "squad.json", version_2=False)
    options = {
        **model_flags,
        "max_seq_length": 15,  # two windows a context
        "train_file": data,
        "predict_file": data,
        "num_train_epochs": 1,
        "train_batch_size": 4,
    }
    folder = tmp_path / "by_questions"
    options["output_dir"] = folder
    run_squad("--do_train", "--do_predict", "--verbose_logging", **options)
    assert (folder / "model.ckpt-2.index").exists()
    assert list(load(folder / "predictions.json")) == [
        f"q{i}" for i in range(8)
    ]
    assert not (folder / "null_odds.json").exists()
    folder = tmp_path / "by_windows"
    options["output_dir"] = folder
    run_squad("--do_train", "--count_steps_by=windows", **options)
    assert (folder / "model.ckpt-4.index").exists()


def test_every_question_gets_an_answer(run_squad, model_flags, tmp_path):
    """Blank contexts, no answers field, one-entry lists: no crash."""
    paragraphs = [
        {"context": context, "qas": [{"id": qas_id, "question": "where?"}]}
        for qas_id, context in (
            ("blank", " \n"),
            ("control", "\u200b\u0000"),
            ("plain", "ann live in rome."),
            ("unknown", "\U0001f60a!"),
        )
    ]
    data = tmp_path / "odd.json"
    data.write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))
    train = write_squad(tmp_path / "squad.json", version_2=True, paragraphs=2)
    for number, flags in enumerate(
        (["--do_train"], ["--noversion_2_with_negative"])
    ):
        run_squad(
            "--do_predict",
            "--version_2_with_negative",
            *flags,
            **model_flags,
            train_file=train,
            predict_file=data,
            train_batch_size=2,
            num_train_epochs=1,
            n_best_size=1,
        )
        predictions = load(model_flags["output_dir"] / "predictions.json")
        nothing = ("", "empty")[number]
        assert list(predictions) == ["blank", "control", "plain", "unknown"]
        assert predictions["blank"] == predictions["control"] == nothing
        assert "[UNK]" not in predictions["unknown"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_seq_length": 11}, r"--max_seq_length \(11\) must be greater"),
        ({"max_seq_length": 65}, "--max_seq_length is 65, .* 64 positions"),
        ({"predict_file": "absent"}, "--predict_file=absent: no such file"),
        ({"predict_file": ""}, "--do_predict needs --predict_file"),
        ({}, "holds no checkpoint and no --init_checkpoint"),
    ],
)
def test_mistakes(run_squad, model_flags, tmp_path, options, message):
    data = write_squad(tmp_path / "squad.json", version_2=False)
    flags = {**model_flags, "predict_file": data, **options}
    with pytest.raises(ValueError, match=message):
        run_squad("--do_predict", **flags)
    assert not list(tmp_path.glob("run/*.tf_record"))


def test_no_answer_in_version_1(run_squad, model_flags, tmp_path):
    data = write_squad(tmp_path / "squad.json", version_2=True)
    with pytest.raises(ValueError, match=r"'n0' has no answer; .*give --vers"):
        run_squad("--do_train", **model_flags, train_file=data)


def test_windows_longer_than_the_stride(
    run_squad, model_flags, tmp_path, caplog
):
    data = write_squad(tmp_path / "squad.json", version_2=False)
    flags = {**model_flags, "doc_stride": 100}
    run_squad(
        "--do_train",
        "--do_predict",
        **flags,
        train_file=data,
        predict_file=data,
        train_batch_size=4,
        num_train_epochs=1,
    )
    assert "doc_stride (100) is longer than a window" in caplog.text
    assert len(load(model_flags["output_dir"] / "predictions.json")) == 8


# Real data --------------------------------------------------------------


def cut(source, target, questions, skip=0):
    """Copies the first questions of a SQuAD file."""
    articles = []
    for article in load(source)["data"]:
        paragraphs = []
        for paragraph in article["paragraphs"]:
            skipped = paragraph["qas"][skip:]
            skip = max(0, skip - len(paragraph["qas"]))
            kept = skipped[:questions]
            questions -= len(kept)
            if kept:
                paragraphs.append({**paragraph, "qas": kept})
        if paragraphs:
            articles.append({**article, "paragraphs": paragraphs})
    target.write_text(json.dumps({"data": articles}))
    return target


REAL = {
    "xquad_en": ("qa_xquad/xquad.en.json", "multilingual_L-12_H-768_A-12", []),
    "xquad_de": ("qa_xquad/xquad.de.json", "multi_cased_L-12_H-768_A-12", []),
    "xquad_ar": ("qa_xquad/xquad.ar.json", "multi_cased_L-12_H-768_A-12", []),
    "xquad_zh": (
        "qa_xquad/xquad.zh.json",
        "chinese_L-12_H-768_A-12",
        ["--split_cjk_words"],
    ),
    "cmrc2018": (
        "qa_cmrc2018/cmrc2018_dev.json",
        "chinese_L-12_H-768_A-12",
        ["--split_cjk_words", "--split_unicode_blanks"],
    ),
    "squad2": (
        "qa_squad2/train-v2.0.json",
        "uncased_L-12_H-768_A-12",
        ["--version_2_with_negative"],
    ),
}


@pytest.mark.parametrize("name", list(REAL))
def test_real_data(run_squad, data_dir, tmp_path, name):
    source, vocab, arguments = REAL[name]
    train = cut(data_dir / source, tmp_path / "train.json", 12)
    dev = cut(data_dir / source, tmp_path / "dev.json", 6, skip=12)
    vocab_file = data_dir / "vocab" / vocab / "vocab.txt"
    size = vocab_file.read_bytes().count(b"\n")
    config = write_config(
        tmp_path,
        size,
        hidden_size=16,
        intermediate_size=16,
        max_position_embeddings=128,
    )
    folder = tmp_path / "run"
    run_squad(
        "--do_train",
        "--do_eval",
        "--do_predict",
        *arguments,
        vocab_file=vocab_file,
        bert_config_file=config,
        output_dir=folder,
        do_lower_case="cased" not in vocab or "uncased" in vocab,
        train_file=train,
        predict_file=dev,
        max_seq_length=128,
        doc_stride=64,
        max_query_length=32,
        train_batch_size=4,
        num_train_epochs=1,
    )
    predictions = load(folder / "predictions.json")
    assert len(predictions) == 6
    scores = scores_of(folder)
    assert scores["total"] == 6
    assert scores["global_step"] == 3
    assert 0 <= scores["f1"] <= 100
    dropped = (folder / "dropped_examples.jsonl").read_text()
    assert dropped == ""


@pytest.mark.slow
def test_a_small_model_learns_64_questions(run_squad, data_dir, tmp_path):
    data = cut(
        data_dir / "qa_squad2/train-v1.1.json", tmp_path / "squad.json", 64
    )
    vocab = data_dir / "vocab/uncased_L-12_H-768_A-12/vocab.txt"
    config = write_config(
        tmp_path,
        vocab.read_bytes().count(b"\n"),
        hidden_size=128,
        intermediate_size=512,
        max_position_embeddings=256,
    )
    folder = tmp_path / "run"
    run_squad(
        "--do_train",
        "--do_eval",
        "--do_predict",
        vocab_file=vocab,
        bert_config_file=config,
        output_dir=folder,
        train_file=data,
        predict_file=data,
        max_seq_length=256,
        max_query_length=32,
        doc_stride=64,
        learning_rate=1e-3,
        train_batch_size=16,
        num_train_epochs=40,
        save_checkpoints_steps=1000,
    )
    assert scores_of(folder)["f1"] > 90
    assert len(load(folder / "predictions.json")) == 64
