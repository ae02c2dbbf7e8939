"""The classification task: scores, thresholds, languages, submissions."""

import json
import pathlib
import random
import runpy

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

import run_classifier
from bert_tf import metrics
from bert_tf.config import BertConfig
from bert_tf.inference import Classifier
from bert_tf.tasks.base import Split
from bert_tf.tasks.classification import (
    ClassificationSource,
    ClassificationTask,
)
from bert_tf.tasks.data_sets import custom_data_set
from bert_tf.tasks.known_data_sets import DATA_SETS

FLAGS = flags.FLAGS
WORDS = ("the", "a", "cat", "dog", "sat", "ran", "good", "bad", "was", "film")
DEV = Split("eval", "dev")


# Scores -----------------------------------------------------------------


def task_of(data_set, labels=None, **options):
    return ClassificationTask(
        labels,
        8,
        data_set.kind,
        ClassificationSource(data_set, tokenizer=None),
        **options,
    )


def multi_label(**options):
    data_set = custom_data_set(
        "t", label="l", train_file="t.tsv", kind="multi_label"
    )
    return task_of(data_set, ["x", "y"], **options)


def class_results():
    targets = np.array([0, 1, 1, 1, 0])
    best = np.array([0, 1, 1, 0, 0])
    return {
        "targets": targets,
        "probabilities": np.eye(2, dtype=np.float32)[best],
        "loss": np.linspace(0, 1, 5, dtype=np.float32),
    }


def label_results():
    """Label x is best from 0.2, where 0.5 finds half; y from 0.6."""
    return {
        "targets": np.array([[1, 0], [1, 1], [0, 0], [0, 1]]),
        "probabilities": np.float32(
            [[0.7, 0.55], [0.3, 0.65], [0.1, 0.1], [0.1, 0.9]]
        ),
        "loss": np.zeros(4, np.float32),
    }


def number_results():
    return {
        "targets": np.float32([0, 1, 2]),
        "probabilities": np.float32([0.1, 0.8, 2.5]),
        "loss": np.zeros(3, np.float32),
    }


def test_the_data_sets_own_scores_are_returned():
    task = task_of(DATA_SETS["cola"], ["0", "1"])
    results = class_results()
    found = task.compute_metrics(results, 2)
    assert found["eval_matthews"] == pytest.approx(2 / 3)
    assert found["eval_accuracy"] == np.float32(0.8)
    f1 = task_of(DATA_SETS["mrpc"], ["0", "1"]).compute_metrics(results, 2)
    assert f1["eval_f1"] == pytest.approx(0.8)
    # Only these go to the original's file.
    assert task.result_names == (
        "eval_accuracy",
        "eval_loss",
        "global_step",
        "loss",
    )


@pytest.mark.parametrize(
    ("task", "results"),
    [
        (task_of(DATA_SETS["cola"], ["0", "1"]), class_results()),
        (ClassificationTask(["0", "1"], 8), class_results()),
        (task_of(DATA_SETS["sts-b"]), number_results()),
        (multi_label(), label_results()),
        (multi_label(threshold="tune"), label_results()),
    ],
    ids=["cola", "no source", "sts-b", "multi_label", "tune"],
)
def test_names_of_scores_are_known_beforehand(task, results):
    found = task.compute_metrics(results, 2)
    assert sorted(found) == sorted(task.score_names)
    assert set(task.result_names) - {"global_step"} <= set(found)


def test_multi_label_scores_at_a_threshold():
    results = label_results()
    half = multi_label().scores(results)
    assert half["exact_match"] == 0.5
    strict = multi_label(threshold=0.8).scores(results)
    assert strict["micro_recall"] == 0.25 and strict["micro_precision"] == 1
    tuned = multi_label(threshold="tune").scores(results)
    assert {k: tuned[k] for k in half} == half
    assert tuned["tuned_micro_f1"] == tuned["tuned_exact_match"] == 1


def test_thresholds_are_stored_for_their_checkpoint(tmp_path, caplog):
    caplog.set_level("INFO", "bert_tf")
    results, folder = label_results(), str(tmp_path)
    tuning = multi_label(threshold="tune")
    tuning.use_checkpoint("model-3")
    tuning.write_evaluation(DEV, results, folder)
    stored = json.loads((tmp_path / "label_thresholds.json").read_text())
    assert stored["checkpoint"] == "model-3" and stored["part"] == "dev"
    assert stored["thresholds"] == {
        "x": pytest.approx(0.2),
        "y": pytest.approx(0.6),
    }
    report = json.loads((tmp_path / "eval_metrics.json").read_text())
    assert report["tuned_micro_f1"] == 1 and report["micro_f1"] < 1
    for task in (tuning, multi_label()):
        task.use_checkpoint("model-3")
        limits = task._thresholds_in_force(folder)
        assert limits == pytest.approx([0.2, 0.6])
    assert multi_label(threshold=0.5)._thresholds_in_force(folder) == 0.5
    caplog.clear()
    other = multi_label()
    other.use_checkpoint("model-4")
    assert other._thresholds_in_force(folder) == 0.5
    assert "found for model-3 and is not used for model-4" in caplog.text


# Runs -------------------------------------------------------------------


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """Vocabulary and config."""
    folder = tmp_path_factory.mktemp("model")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*specials, *WORDS, ""]))
    config = BertConfig(
        vocab_size=len(specials) + len(WORDS),
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=16,
        type_vocab_size=2,
        initializer_range=0.1,
    )
    config.save(folder / "bert_config.json")
    return folder


def run(model, output_dir, *arguments):
    given = [
        f"--output_dir={output_dir}",
        f"--vocab_file={model}/vocab.txt",
        f"--bert_config_file={model}/bert_config.json",
        "--max_seq_length=16",
        "--train_batch_size=8",
        "--learning_rate=0.005",
        "--num_train_epochs=4",
    ]
    with flagsaver.flagsaver():
        run_classifier.main(FLAGS(["run_classifier.py", *given, *arguments]))


def sentence(rng):
    return " ".join(rng.choices(WORDS, k=rng.randrange(2, 7)))


def write_rows(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join("\t".join(row) + "\n" for row in rows))


def results_of(folder, suffix=""):
    lines = (folder / f"eval_results{suffix}.txt").read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


@pytest.fixture(scope="module")
def cola(tmp_path_factory):
    rng = random.Random(1)
    folder = tmp_path_factory.mktemp("cola")
    for part, count in (("train", 64), ("dev", 20)):
        rows = []
        for _ in range(count):
            text = sentence(rng)
            rows.append(["x", str(int("good" in text)), "", text])
        write_rows(folder / f"{part}.tsv", rows)
    return ("--task_name=cola", f"--data_dir={folder}")


def test_matthews_picks_the_weights_and_is_averaged(
    model, cola, tmp_path, caplog
):
    caplog.set_level("INFO", "bert_tf")
    run(
        model,
        tmp_path,
        *cola,
        *("--do_train", "--do_eval", "--eval_every=8", "--num_seeds=2"),
        "--best_metric=eval_matthews",
    )
    seeds = json.loads((tmp_path / "seeds.json").read_text())
    values = seeds["scores"]["dev"]["eval_matthews"]["values"]
    assert len(values) == 2
    for i, name in enumerate(seeds["folders"]):
        folder = tmp_path / name
        assert sorted(results_of(folder)) == [
            "eval_accuracy",
            "eval_loss",
            "global_step",
            "loss",
        ]
        report = json.loads((folder / "eval_metrics.json").read_text())
        assert report["matthews"] == pytest.approx(values[i])
        best = json.loads((folder / "best.json").read_text())
        assert best["metric"] == "eval_matthews"
        assert best["value"] == pytest.approx(values[i])
    assert "  eval_matthews = " in caplog.text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--best_metric=matthews", "--eval_every=8", "--do_eval"],
            "--best_metric is 'matthews', .* eval_accuracy, .*eval_matthews",
        ),
        (["--eval_languages=all"], "--eval_languages: .*cola have no"),
        (["--threshold=0.4"], "--threshold is for --label_kind=multi_label"),
        (
            ["--task_name=xnli", "--glue_submission"],
            "--glue_submission: nothing of xnli",
        ),
    ],
)
def test_refused_before_anything_is_written(
    model, cola, tmp_path, arguments, message
):
    folder = tmp_path / "run"
    with pytest.raises(ValueError, match=message):
        run(model, folder, *cola, "--do_train", *arguments)
    assert not folder.exists()


@pytest.fixture(scope="module")
def words(tmp_path_factory):
    """Texts with the labels of the words in them; those of rare ones rare."""
    rng = random.Random(2)
    folder = tmp_path_factory.mktemp("words")
    for part, count in (("train", 64), ("dev", 30)):
        rows = [["text", "labels"]]
        for _ in range(count):
            text = sentence(rng)
            found = {w for w in ("cat", "dog", "film") if w in text.split()}
            rows.append([text, ",".join(sorted(found))])
        write_rows(folder / f"{part}.tsv", rows)
    return (
        "--task_name=custom",
        *("--train_file=train.tsv", "--eval_file=dev.tsv"),
        *("--predict_file=dev.tsv", f"--data_dir={folder}"),
        *("--text_column=text", "--label_column=labels"),
        "--label_kind=multi_label",
    )


def test_relative_data_folder(model, words, tmp_path, monkeypatch):
    (folder,) = (x.split("=")[1] for x in words if x.startswith("--data_dir"))
    monkeypatch.chdir(pathlib.Path(folder).parent)
    relative = f"--data_dir={pathlib.Path(folder).name}"
    run(model, tmp_path, *words, relative, "--do_train", "--do_eval")
    assert float(results_of(tmp_path)["eval_micro_f1"]) > 0


def test_thresholds_of_the_best_weights(model, words, tmp_path):
    run(
        model,
        tmp_path,
        *words,
        *("--do_train", "--do_eval", "--threshold=tune"),
        *("--num_train_epochs=2", "--eval_every=5", "--best_metric=eval_loss"),
    )
    best = json.loads((tmp_path / "best.json").read_text())["step"]
    stored = json.loads((tmp_path / "label_thresholds.json").read_text())
    assert stored["checkpoint"] == f"model.ckpt-{best}" != "model.ckpt-16"
    run(model, tmp_path, *words, "--do_predict")
    limits = stored["thresholds"]
    for line in predicted(tmp_path):
        above = [k for k, p in line["probabilities"].items() if p >= limits[k]]
        assert line["labels"] == above
    assert Classifier(tmp_path).threshold == list(limits.values())


def predicted(folder):
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_tuned_thresholds_from_evaluation_to_prediction(model, words, tmp_path):
    run(
        model,
        tmp_path,
        *words,
        *("--do_train", "--do_eval", "--do_predict", "--threshold=tune"),
        "--num_train_epochs=1",
    )
    scores = results_of(tmp_path)
    assert float(scores["eval_tuned_micro_f1"]) > float(scores["eval_micro_f1"])
    stored = json.loads((tmp_path / "label_thresholds.json").read_text())
    limits = stored["thresholds"]
    assert list(limits) == ["cat", "dog", "film"]
    assert stored["checkpoint"] == "model.ckpt-8"
    lines = predicted(tmp_path)
    expected = [
        [k for k, p in line["probabilities"].items() if p >= limits[k]]
        for line in lines
    ]
    found = [line["labels"] for line in lines]
    assert found == expected and any(found)
    # The labels that are written have the score that was reported.
    rows = (line.split("\t") for line in _dev_lines(words))
    truth = [labels.split(",") for _, labels in rows]
    score = metrics.multi_label_scores(_cells(truth), _cells(found))
    assert score["micro_f1"] == pytest.approx(
        float(scores["eval_tuned_micro_f1"])
    )
    # Later uses of the folder take them too, unless told otherwise.
    run(model, tmp_path, *words, "--do_predict")
    assert [line["labels"] for line in predicted(tmp_path)] == expected
    classify = Classifier(tmp_path)
    texts = [line["text_a"] for line in lines]
    assert [result.label for result in classify(texts)] == expected
    run(model, tmp_path, *words, "--do_predict", "--threshold=0.999")
    assert not any(line["labels"] for line in predicted(tmp_path))


def _dev_lines(words):
    (folder,) = (x.split("=")[1] for x in words if x.startswith("--data_dir"))
    with open(f"{folder}/dev.tsv") as stream:
        return stream.read().splitlines()[1:]


def _cells(labels):
    names = ("cat", "dog", "film")
    return np.array([[float(x in row) for x in names] for row in labels])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--threshold=tune"], "--threshold=tune needs --do_eval"),
        (["--threshold=2"], "--threshold is '2', expected a number from 0"),
        (["--threshold=best"], "'best', expected a number .* or tune"),
        (["--glue_submission"], "--glue_submission: nothing of custom"),
        (["--eval_languages=de"], "--eval_languages: .*custom have no"),
    ],
)
def test_refused_of_files_of_ones_own(
    model, words, tmp_path, arguments, message
):
    with pytest.raises(ValueError, match=message):
        run(model, tmp_path / "run", *words, "--do_train", *arguments)


@pytest.fixture(scope="module")
def xnli(tmp_path_factory):
    """A training file in English, dev rows in three languages, mixed."""
    rng = random.Random(3)
    folder = tmp_path_factory.mktemp("xnli")
    labels = ("contradiction", "entailment", "neutral")
    train = [["premise", "hypo", "label"]]
    for i in range(24):
        train.append([sentence(rng), sentence(rng), labels[i % 3]])
    write_rows(folder / "multinli/multinli.train.en.tsv", train)
    names = DATA_SETS["xnli"].split("dev").layout.names
    for part in ("dev", "test"):
        rows = [names]
        for i in range(20):
            # 8 rows in English, 6 in German, 6 in French.
            language = ("en", "de", "fr")[i % 3] if i < 18 else "en"
            cells = [language, labels[i % 3 - 1], "", "", "", ""]
            cells += [sentence(rng), sentence(rng)]
            rows.append(cells + ["x"] * (len(names) - len(cells)))
        write_rows(folder / f"xnli.{part}.tsv", rows)
    return ("--task_name=xnli", f"--data_dir={folder}", "--train_language=en")


def test_trained_in_one_language_evaluated_in_each(model, xnli, tmp_path):
    run(
        model,
        tmp_path,
        *xnli,
        *("--do_train", "--do_eval", "--do_predict", "--eval_languages=all"),
        "--num_train_epochs=1",
    )
    counts = {"en": 8, "de": 6, "fr": 6}
    for language, count in counts.items():
        scores = results_of(tmp_path, f"_{language}")
        assert scores["global_step"] == "3"
        path = tmp_path / f"eval_metrics_{language}.json"
        report = json.loads(path.read_text())
        assert report["part"] == f"dev:{language}"
        assert np.sum(report["confusion_matrix"]) == count
        assert np.float32(report["accuracy"]) == np.float32(
            scores["eval_accuracy"]
        )
        table = np.loadtxt(tmp_path / f"test_results_{language}.tsv")
        assert table.shape == (count, 3)
    assert not (tmp_path / "eval_results.txt").exists()


def test_a_language_that_the_file_lacks(model, xnli, tmp_path):
    with pytest.raises(ValueError, match=r"'ko'; found en, de, fr"):
        run(
            model,
            tmp_path,
            *xnli,
            *("--do_train", "--do_eval", "--eval_languages=en,ko"),
        )
    assert not (tmp_path / "model.ckpt-0.index").exists()


def test_the_benchmark_shows_the_official_score(repo_dir, tmp_path):
    path = repo_dir / "benchmarks" / "data_sets.py"
    read_scores = runpy.run_path(str(path))["read_scores"]
    task = task_of(DATA_SETS["cola"], ["0", "1"])
    task.write_evaluation(DEV, class_results(), str(tmp_path))
    (tmp_path / "eval_results.txt").write_text("eval_accuracy = 0.8\n")
    scores = read_scores(tmp_path)
    assert list(scores) == ["eval_matthews", "eval_accuracy"]
    assert scores["eval_matthews"] == pytest.approx(2 / 3)
