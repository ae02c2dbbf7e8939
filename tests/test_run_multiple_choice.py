"""run_multiple_choice.py end to end on a tiny model."""

import json
import random
import shutil
import subprocess
import sys

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

import run_multiple_choice
from bert_tf.config import BertConfig

FLAGS = flags.FLAGS
HEADER = "video-id,fold-ind,sent1,sent2,ending0,ending1,ending2,label"


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Three endings, of which the right one tells itself by a word."""
    folder = tmp_path_factory.mktemp("data")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocab = [*specials, "the", "is", "this", ".", "not", "sun", "hot"]
    (folder / "vocab.txt").write_text("\n".join([*vocab, ""]))
    BertConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        type_vocab_size=2,
        initializer_range=0.1,
    ).save(folder / "bert_config.json")
    rng = random.Random(2)
    for name, count in (("train", 160), ("val", 21)):
        rows, lines = [HEADER], []
        for i in range(count):
            right = rng.randrange(3)
            endings = ["not this .", "not the .", "this the ."]
            endings[right] = "is hot ."
            row = [f"v{i}", f"{name}{i}", "the sun .", "this", *endings]
            rows.append(",".join([*row, str(right)]))
            lines.append(
                {
                    "id": f"{name}{i}",
                    "context": "the sun .",
                    "choices": [f"this {ending}" for ending in endings],
                    "label": "ABC"[right],
                }
            )
        (folder / f"{name}.csv").write_text("\n".join([*rows, ""]))
        (folder / f"{name}.jsonl").write_text(
            "".join(json.dumps(line) + "\n" for line in lines)
        )
    return folder


def command_line(files, output_dir, *arguments, model=True):
    given = [
        "run_multiple_choice.py",
        f"--data_dir={files}",
        f"--output_dir={output_dir}",
        "--train_batch_size=8",
        "--learning_rate=0.002",
        "--num_train_epochs=2",
    ]
    if model:
        given += [
            f"--vocab_file={files}/vocab.txt",
            f"--bert_config_file={files}/bert_config.json",
            "--max_seq_length=12",
        ]
    return [*given, *arguments]


def run(files, output_dir, *arguments, model=True):
    """The script's own main, in this process."""
    with flagsaver.flagsaver():
        FLAGS.unparse_flags()
        own = FLAGS.flags_by_module_dict().get("run_multiple_choice", [])
        for flag in own:
            flag.unparse()
        line = command_line(files, output_dir, *arguments, model=model)
        run_multiple_choice.main(FLAGS(line))


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run(
        files,
        folder,
        "--task_name=swag",
        "--do_train",
        "--do_eval",
        "--do_predict",
        "--predict_file=val.csv",
    )
    return folder


def results(folder):
    lines = (folder / "eval_results.txt").read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


def predictions(folder):
    lines = (folder / "predictions.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_it_learns_and_scores(trained):
    found = results(trained)
    assert sorted(found) == [
        "eval_accuracy",
        "eval_loss",
        "global_step",
        "loss",
    ]
    assert found["global_step"] == "40"
    assert float(found["eval_accuracy"]) > 0.9


def test_predictions_score_exactly_as_evaluation(files, trained):
    rows = [
        row.split(",") for row in (files / "val.csv").read_text().split("\n")
    ][1:-1]
    found = predictions(trained)
    assert [p["id"] for p in found] == [row[1] for row in rows]
    right = [
        p["choice"] == int(row[-1]) for p, row in zip(found, rows, strict=True)
    ]
    assert str(np.float32(np.mean(right))) == results(trained)["eval_accuracy"]
    table = np.loadtxt(trained / "test_results.tsv", delimiter="\t")
    assert table.shape == (21, 3)
    np.testing.assert_allclose(
        table, [p["probabilities"] for p in found], rtol=1e-6
    )


def test_the_folder_is_enough_to_predict(files, trained, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    before = predictions(folder)
    (folder / "predictions.jsonl").unlink()
    unlabelled = tmp_path / "test.csv"
    rows = (files / "val.csv").read_text().split("\n")[:-1]
    unlabelled.write_text("\n".join(row.rsplit(",", 1)[0] for row in rows))
    run(
        files,
        folder,
        "--do_predict",
        f"--predict_file={unlabelled}",
        model=False,
    )
    after = predictions(folder)
    assert [p["id"] for p in after] == [p["id"] for p in before]
    np.testing.assert_allclose(
        [p["probabilities"] for p in after],
        [p["probabilities"] for p in before],
        rtol=1e-6,
    )


def test_two_replicas_score_the_same(files, trained, repo_dir, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / "eval_results.txt").unlink()
    line = command_line(files, folder, "--do_eval", "--num_cpu_devices=2")
    done = subprocess.run(
        [sys.executable, *line], cwd=repo_dir, capture_output=True, text=True
    )
    assert "on each of 2 replica(s)" in done.stderr, done.stderr[-2000:]
    one, two = results(trained), results(folder)
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert float(two[name]) == pytest.approx(float(value), abs=1e-5), name


def test_json_lines_with_named_choices(files, tmp_path):
    """Trained, stopped half-way and taken up again; names are remembered."""
    folder = tmp_path / "run"
    given = (
        "--do_train",
        "--task_name=custom",
        "--train_file=train.jsonl",
        "--choice_names=A,B,C",
    )
    run(files, folder, *given, "--num_train_epochs=0.5")
    run(files, folder, *given)
    run(
        files,
        folder,
        "--do_eval",
        "--do_predict",
        "--eval_file=val.jsonl",
        "--predict_file=val.jsonl",
        model=False,
    )
    assert results(folder)["global_step"] == "40"
    lines = (files / "val.jsonl").read_text().splitlines()
    truth = [json.loads(line)["label"] for line in lines]
    right = [
        p["label"] == t for p, t in zip(predictions(folder), truth, strict=True)
    ]
    assert str(np.float32(np.mean(right))) == results(folder)["eval_accuracy"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--do_train"],
            "--task_name is not given, expected one of swag,",
        ),
        (
            ["--do_train", "--task_name=race"],
            "--task_name is race, expected",
        ),
        (
            ["--do_train", "--task_name=arct"],
            "--train_file: no file .*.tsv",
        ),
        (["--do_train", "--task_name=custom"], "--do_train needs --train_file"),
        (
            ["--do_train", "--task_name=swag", "--num_choices=4"],
            "line 2: found 3 choices, expected 4",
        ),
        (
            ["--do_train", "--task_name=swag", "--choice_names=A,B"],
            "--choice_names has 2 names, but there are 3 choices",
        ),
        (
            ["--do_train", "--task_name=swag", "--choice_names=A,B,C"],
            "line 2: found label '.', allowed: A, B, C",
        ),
        (
            [
                "--do_train",
                "--task_name=custom",
                "--train_file=train.csv",
                "--context_columns=sent1",
                "--choice_columns=ending*",
                "--label_column=gold",
            ],
            "has no column 'gold'",
        ),
    ],
)
def test_mistakes(files, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run(files, tmp_path / "new", *arguments)


@pytest.mark.parametrize(
    ("name", "task", "ending"),
    [
        ("mc_swag_layout_codah", "swag", ("train.csv", "val.csv")),
        ("mc_arct", "arct", ("train.tsv", "dev.tsv")),
    ],
)
def test_data_of_the_shelf(data_dir, tmp_path, name, task, ending):
    """The commands of the README, on fifty examples, one epoch."""
    for file in ending:
        lines = (data_dir / name / file).read_text("utf-8").split("\n")
        (tmp_path / file).write_text("\n".join(lines[:51]), "utf-8")
    vocab = data_dir / "vocab" / "uncased_L-12_H-768_A-12" / "vocab.txt"
    BertConfig(
        vocab_size=30522,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    ).save(tmp_path / "config.json")
    run(
        tmp_path,
        tmp_path / "out",
        f"--task_name={task}",
        "--do_train",
        "--do_eval",
        "--do_predict",
        f"--predict_file={ending[1]}",
        f"--vocab_file={vocab}",
        f"--bert_config_file={tmp_path}/config.json",
        "--max_seq_length=48",
        "--num_train_epochs=1",
        model=False,
    )
    assert len(predictions(tmp_path / "out")) == 50
    assert 0 <= float(results(tmp_path / "out")["eval_accuracy"]) <= 1
