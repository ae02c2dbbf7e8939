"""run_classifier.py end to end on a tiny model."""

import json
import os
import random
import signal

import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

import run_classifier
from bert_tf import train_loop
from bert_tf.checkpoint import latest_checkpoint, read_variables
from bert_tf.config import BertConfig
from bert_tf.inference.model_folder import open_model_folder
from bert_tf.tasks import packed

FLAGS = flags.FLAGS
WORDS = (
    *("the", "a", "cat", "dog", "sat", "ran", "good", "fine", "bad", "poor"),
    *("was", "on", "mat", "film", "it"),
)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Texts whose label is told by one word, a vocabulary, a config."""
    folder = tmp_path_factory.mktemp("data")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    (folder / "vocab.txt").write_text("\n".join([*specials, *WORDS, ""]))
    BertConfig(
        vocab_size=len(specials) + len(WORDS),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=16,
        type_vocab_size=2,
        hidden_dropout_prob=0.1,
        attention_probs_dropout_prob=0.1,
        initializer_range=0.1,
    ).save(folder / "bert_config.json")
    rng = random.Random(1)
    neutral = [w for w in WORDS if w not in ("good", "fine", "bad", "poor")]
    for name, count in (("train", 96), ("dev", 21)):
        rows = ["id\tlabel\ttext"]
        for i in range(count):
            label = rng.choice(["neg", "pos"])
            told = rng.choice(
                ["good", "fine"] if label == "pos" else ["bad", "poor"]
            )
            text = [rng.choice(neutral) for _ in range(rng.randrange(2, 8))]
            text.insert(rng.randrange(len(text)), told)
            rows.append(f"{name}{i}\t{label}\t{' '.join(text)}")
        (folder / f"{name}.tsv").write_text("\n".join(rows) + "\n")
    return folder


def run(files, output_dir, *arguments, model=True):
    """The script's own main, in this process."""
    given = [
        "run_classifier.py",
        "--task_name=custom",
        f"--data_dir={files}",
        "--train_file=train.tsv",
        "--eval_file=dev.tsv",
        "--predict_file=dev.tsv",
        "--text_column=text",
        "--label_column=label",
        "--id_column=id",
        f"--output_dir={output_dir}",
        "--train_batch_size=8",
        "--learning_rate=0.001",
        "--num_train_epochs=8",
        "--log_every_steps=20",
    ]
    if model:
        given += [
            f"--vocab_file={files}/vocab.txt",
            f"--bert_config_file={files}/bert_config.json",
            "--max_seq_length=12",
        ]
    with flagsaver.flagsaver():
        FLAGS.unparse_flags()
        for flag in FLAGS.flags_by_module_dict().get("run_classifier", []):
            flag.unparse()
        run_classifier.main(FLAGS([*given, *arguments]))


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run(files, folder, "--do_train", "--do_eval", "--do_predict")
    return folder


def results(folder, name="eval_results.txt"):
    lines = (folder / name).read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


def accuracy_of_predictions(files, folder):
    rows = (files / "dev.tsv").read_text().splitlines()[1:]
    labels = [row.split("\t")[1] for row in rows]
    lines = (folder / "predictions.jsonl").read_text().splitlines()
    predictions = [json.loads(line) for line in lines]
    assert [p["id"] for p in predictions] == [r.split("\t")[0] for r in rows]
    right = [
        p["label"] == label
        for p, label in zip(predictions, labels, strict=True)
    ]
    return np.float32(np.mean(right))


def test_it_learns_and_writes_the_originals_files(files, trained):
    found = results(trained)
    assert sorted(found) == [
        "eval_accuracy",
        "eval_loss",
        "global_step",
        "loss",
    ]
    assert found["global_step"] == "96"
    assert float(found["eval_accuracy"]) > 0.8
    names = {path.name for path in trained.iterdir()}
    assert names >= {
        "model.ckpt-0.index",
        "model.ckpt-96.index",
        "model.ckpt-96.data-00000-of-00001",
        "checkpoint",
        "train.tf_record",
        "eval.tf_record",
        "predict.tf_record",
        "eval_results.txt",
        "eval_metrics.json",
        "test_results.tsv",
        "predictions.jsonl",
        "vocab.txt",
        "bert_config.json",
        "labels.txt",
        "run.json",
    }
    table = np.loadtxt(trained / "test_results.tsv", delimiter="\t")
    assert table.shape == (21, 2)
    np.testing.assert_allclose(table.sum(axis=1), 1.0, atol=1e-5)
    assert (trained / "labels.txt").read_text() == "neg\npos\n"


def test_predictions_score_exactly_as_evaluation(files, trained):
    expected = results(trained)["eval_accuracy"]
    assert str(accuracy_of_predictions(files, trained)) == expected
    for size in (1, 5, 32):
        run(
            files,
            trained,
            "--do_eval",
            "--do_predict",
            f"--eval_batch_size={size}",
            f"--predict_batch_size={size}",
        )
        assert results(trained)["eval_accuracy"] == expected
        assert str(accuracy_of_predictions(files, trained)) == expected


def test_packed_rows_learn_and_score_as_single_ones(
    files, tmp_path, caplog, monkeypatch
):
    # Several chunks in a file.
    monkeypatch.setattr(packed, "_CHUNK", 8)
    caplog.set_level("INFO", logger="bert_tf")
    run(
        files,
        tmp_path,
        *("--do_train", "--do_eval", "--do_predict", "--pack_sequences"),
        *("--max_seq_length=16", "--eval_batch_size=5"),
    )
    assert "21 examples packed in" in caplog.text
    assert "an update takes" in caplog.text
    found = results(tmp_path)
    table = np.loadtxt(tmp_path / "test_results.tsv")
    assert float(found["eval_accuracy"]) > 0.8
    accuracy = found["eval_accuracy"]
    assert str(accuracy_of_predictions(files, tmp_path)) == accuracy
    # The same weights, one example in a row.
    run(
        files,
        tmp_path,
        *("--do_eval", "--do_predict", "--max_seq_length=16"),
        "--eval_batch_size=5",
    )
    single = results(tmp_path)
    assert single["eval_accuracy"] == accuracy
    for name in ("loss", "eval_loss"):
        assert float(found[name]) == pytest.approx(
            float(single[name]), abs=1e-5
        )
    np.testing.assert_allclose(
        np.loadtxt(tmp_path / "test_results.tsv"), table, atol=1e-5
    )


def test_packed_and_evaluated_in_between(files, tmp_path):
    run(
        files,
        tmp_path,
        *("--do_train", "--do_eval", "--pack_sequences"),
        *("--max_seq_length=16", "--eval_every=20", "--num_seeds=2"),
        "--best_metric=eval_accuracy",
    )
    assert len(list(tmp_path.glob("**/best"))) == 2


def forget(folder, step):
    """Leaves the folder as a process killed after `step` leaves it."""
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "model.ckpt-{step}"\n'
        f'all_model_checkpoint_paths: "model.ckpt-{step}"\n'
    )
    for path in folder.glob("model.ckpt-*"):
        if int(path.name.split("-")[1].split(".")[0]) > step:
            path.unlink()


def test_packed_run_resumes_in_the_same_bits(files, tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    arguments = ("--do_train", "--pack_sequences", "--max_seq_length=16")
    run(files, straight, *arguments, "--save_checkpoints_steps=30")
    run(files, broken, *arguments, "--save_checkpoints_steps=30")
    forget(broken, 30)
    run(files, broken, *arguments)
    one, two = read_variables(straight), read_variables(broken)
    assert int(one["global_step"]) > 60
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)


def test_tensorboard_scalars(trained):
    (path,) = trained.glob("events.out.tfevents.*")
    tags = set()
    for record in tf.data.TFRecordDataset(str(path)):
        event = tf.compat.v1.Event.FromString(record.numpy())
        tags |= {value.tag for value in event.summary.value}
    assert {"loss", "learning_rate", "examples_per_second"} <= tags


def test_the_folder_is_enough_to_predict(files, trained, tmp_path):
    before = (trained / "test_results.tsv").read_text()
    run(files, trained, "--do_predict", model=False)
    after = (trained / "test_results.tsv").read_text()
    np.testing.assert_allclose(
        np.fromstring(after, sep=" "),
        np.fromstring(before, sep=" "),
        atol=1e-6,
    )


def test_finished_run_is_told_and_left_alone(files, trained, caplog):
    before = latest_checkpoint(str(trained))
    run(files, trained, "--do_train", "--do_eval")
    assert latest_checkpoint(str(trained)) == before
    assert any(
        "skipping training" in r.message and "96" in r.message
        for r in caplog.records
    )


def test_resume_ends_in_the_same_bits(files, tmp_path):
    """Stopped after 60 steps of 96 and taken up again."""
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    arguments = ("--do_train", "--save_checkpoints_steps=30")
    run(files, straight, *arguments)
    run(files, broken, *arguments)
    forget(broken, 60)
    run(files, broken, *arguments)
    one = read_variables(straight)
    two = read_variables(broken)
    assert int(one["global_step"]) == 96
    assert set(one) == set(two)
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)


def test_labels_of_a_folder_cannot_change(files, trained):
    with pytest.raises(ValueError, match=r"lists neg, pos.*are pos, neg"):
        run(files, trained, "--do_eval", "--labels=pos,neg")


def test_folder_of_another_model(files, trained, tmp_path):
    config = json.loads((files / "bert_config.json").read_text())
    other = tmp_path / "other.json"
    other.write_text(json.dumps({**config, "hidden_size": 16}))
    with pytest.raises(ValueError, match="checkpoint of another model") as e:
        run(files, trained, "--do_eval", f"--bert_config_file={other}")
    assert "[20, 16]" in str(e.value) and "[20, 32]" in str(e.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--do_eval"], "nothing to evaluate"),
        (["--do_train", "--max_seq_length=17"], "17.*16 positions"),
        (["--do_train", "--num_train_epochs=0.01"], "0 steps: 96 examples"),
        (["--do_train", "--text_column=body"], "body"),
        (["--do_train", "--train_file=none.tsv"], "no file .*none.tsv"),
        (["--do_train", "--labels=neg"], "the only label is 'neg'"),
        (["--do_train", "--labels=neg,good"], "'pos'"),
        (["--do_train", "--task_name=snli"], "no task 'snli'"),
        (["--do_train", "--predict_file=", "--do_predict"], "--predict_file"),
        (["--do_eval", "--init_checkpoint=/none/x"], "/none/x"),
        ([], "at least one of --do_train"),
    ],
)
def test_mistakes(files, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run(files, tmp_path / "new", *arguments)


def test_vocabulary_of_another_size(files, tmp_path):
    vocab = tmp_path / "vocab.txt"
    vocab.write_text((files / "vocab.txt").read_text() + "extra\n")
    with pytest.raises(ValueError, match="21") as error:
        run(files, tmp_path / "new", "--do_train", f"--vocab_file={vocab}")
    assert "20" in str(error.value)


def test_golden_evaluation_and_prediction(golden_dir, tmp_path):
    start = golden_dir / "checkpoints/clf"
    with flagsaver.flagsaver():
        run_classifier.main(
            FLAGS(
                [
                    "run_classifier.py",
                    "--task_name=MNLI",
                    f"--data_dir={golden_dir}/classifier/data/MNLI",
                    f"--vocab_file={start}/vocab.txt",
                    f"--bert_config_file={start}/bert_config.json",
                    f"--init_checkpoint={start}/bert_model.ckpt",
                    "--max_seq_length=24",
                    "--eval_batch_size=5",
                    "--predict_batch_size=5",
                    "--do_eval",
                    "--do_predict",
                    f"--output_dir={tmp_path}",
                ]
            )
        )
    expected = results(
        golden_dir / "end_to_end", "classifier_MNLI_eval_results.txt"
    )
    found = results(tmp_path)
    assert sorted(found) == sorted(expected)
    for key, value in expected.items():
        assert float(found[key]) == pytest.approx(float(value), abs=2e-5)
    np.testing.assert_allclose(
        np.loadtxt(tmp_path / "test_results.tsv"),
        np.loadtxt(golden_dir / "end_to_end/classifier_MNLI_test_results.tsv"),
        atol=1e-5,
    )


def test_sigterm_saves_and_the_same_command_goes_on(
    files, tmp_path, monkeypatch
):
    straight, stopped = tmp_path / "straight", tmp_path / "stopped"
    run(files, straight, "--do_train")
    train = train_loop.Trainer.train
    calls = []

    def interrupted(self, count):
        calls.append(count)
        if len(calls) == 4:
            os.kill(os.getpid(), signal.SIGTERM)
        return train(self, count)

    with monkeypatch.context() as patch:
        patch.setattr(train_loop.Trainer, "train", interrupted)
        with pytest.raises(train_loop.Preempted, match="SIGTERM at step") as e:
            run(files, stopped, "--do_train")
    step = sum(calls)
    assert f"step {step}" in str(e.value) and step < 96
    assert latest_checkpoint(str(stopped)).endswith(f"-{step}")
    run(files, stopped, "--do_train")
    one, two = read_variables(straight), read_variables(stopped)
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)


def test_out_of_memory_splits_the_batch(files, tmp_path, monkeypatch, caplog):
    train = train_loop.Trainer.train

    def too_small(self, count):
        if 8 // self.options.accumulation > 2:
            raise tf.errors.ResourceExhaustedError(None, None, "OOM")
        return train(self, count)

    monkeypatch.setattr(train_loop.Trainer, "train", too_small)
    arguments = ("--do_train", "--num_train_epochs=0.5")
    with pytest.raises(ValueError, match="out of memory with 8 examples"):
        run(files, tmp_path / "a", *arguments)
    run(files, tmp_path / "b", *arguments, "--auto_batch")
    told = [r.message for r in caplog.records if "micro-batches" in r.message]
    assert len(told) == 2 and "in 4 micro-batches" in told[1]
    assert latest_checkpoint(str(tmp_path / "b")).endswith("-6")


def test_evaluating_in_between_keeps_the_best(files, tmp_path):
    folder = tmp_path / "run"
    run(
        files,
        folder,
        "--do_train",
        "--do_eval",
        "--num_train_epochs=2",
        "--eval_every=8",
        "--best_metric=eval_loss",
    )
    best = json.loads((folder / "best.json").read_text())
    assert best["step"] in (8, 16, 24)
    found = results(folder)
    assert found["global_step"] == str(best["step"])
    assert float(found["eval_loss"]) == pytest.approx(best["value"], abs=1e-6)
    names = {path.name for path in (folder / "best").iterdir()}
    assert {"run.json", "vocab.txt", "bert_config.json"} <= names


def test_the_best_weights_are_those_in_use_later(files, tmp_path, caplog):
    caplog.set_level("INFO", "bert_tf")
    folder = tmp_path / "run"
    training = (
        *("--do_train", "--do_eval", "--do_predict", "--num_train_epochs=2"),
        *("--eval_every=10", "--best_metric=eval_loss"),
    )
    run(files, folder, *training)
    best = json.loads((folder / "best.json").read_text())["step"]
    last = latest_checkpoint(str(folder))
    assert not last.endswith(f"-{best}")
    kept = latest_checkpoint(str(folder / "best"))
    assert open_model_folder(folder).checkpoint == kept
    expected = (folder / "test_results.tsv").read_text()
    for again in (["--do_predict"], training):
        (folder / "test_results.tsv").unlink()
        caplog.clear()
        run(files, folder, *again)
        assert f"using the weights of {kept}" in caplog.text
        assert (folder / "test_results.tsv").read_text() == expected
    # A training that keeps none makes its last weights those in use.
    run(files, folder, "--do_train", "--num_train_epochs=3")
    assert open_model_folder(folder).checkpoint.endswith("-36")


@pytest.mark.parametrize(
    "flag",
    [
        "--dtype=bfloat16",
        "--dtype=float16",
        "--recompute",
        "--jit_compile",
        "--gradient_accumulation_steps=2",
        "--optimizer=lamb",
    ],
)
def test_ways_to_compute(files, tmp_path, flag):
    folder = tmp_path / "run"
    run(files, folder, "--do_train", "--num_train_epochs=0.5", flag)
    values = read_variables(folder)
    assert int(values["global_step"]) == 6
    assert {v.dtype.name for k, v in values.items() if k != "global_step"} == {
        "float32"
    }
    assert all(np.isfinite(v).all() for v in values.values())


def test_batch_that_cannot_be_divided(files, tmp_path):
    with pytest.raises(ValueError, match=r"gradient_accumulation_steps\s+3"):
        run(
            files,
            tmp_path / "new",
            "--do_train",
            "--gradient_accumulation_steps=3",
        )
