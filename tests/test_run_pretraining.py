"""`run_pretraining.py` from end to end, on a model of two small layers."""

import json
import logging
import os
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tiny_records
from absl.testing import flagsaver

from bert_tf import common_flags, pretraining_run_flags, runner
from bert_tf.checkpoint import (
    latest_checkpoint,
    read_sidecar,
    read_variables,
)
from bert_tf.common_flags import FLAGS
from bert_tf.config import BertConfig
from bert_tf.layers import sinusoidal_positions
from bert_tf.train_loop import steps_done

common_flags.define_model_flags()
common_flags.define_run_flags(("train", "eval"))
common_flags.define_device_flags()
pretraining_run_flags.define_flags()

EVAL_LINES = [
    "global_step",
    "loss",
    "masked_lm_accuracy",
    "masked_lm_loss",
    "next_sentence_accuracy",
    "next_sentence_loss",
]


def arguments(folder, **flags):
    """A command line: small numbers, and what the test sets; None unsets."""
    flags = {
        "bert_config_file": folder / "bert_config.json",
        "input_file": folder / "records*",
        "max_seq_length": 16,
        "max_predictions_per_seq": 3,
        "train_batch_size": 4,
        "num_train_steps": 6,
        "num_warmup_steps": 2,
        "learning_rate": 0.01,
        "shuffle_buffer": 10,
        "save_checkpoints_steps": 3,
        **flags,
    }
    return [
        f"--{name}={value}"
        for name, value in flags.items()
        if value is not None
    ]


def run(folder, **flags):
    """What the script's `main` does, in this process."""
    with flagsaver.flagsaver():
        FLAGS(["run_pretraining.py", *arguments(folder, **flags)])
        model = pretraining_run_flags.model_settings()
        settings = common_flags.run_settings(counts_steps=True)
        return runner.run(
            lambda config: pretraining_run_flags.create_task(
                config, model=model, run=settings
            ),
            model,
            settings,
            common_flags.device_settings(),
            common_flags.command_line(),
        )


@pytest.fixture
def folder(tmp_path):
    """Config and two record files of 15 records."""
    tiny_records.write_config(tmp_path)
    for i in range(2):
        tiny_records.write_static(tmp_path / f"records-{i}", 15, seed=i)
    return tmp_path


def assert_same_bits(first, second):
    a, b = (read_variables(latest_checkpoint(str(x))) for x in (first, second))
    assert set(a) == set(b)
    for name, value in a.items():
        np.testing.assert_array_equal(value, b[name], err_msg=name)
    assert any(name.endswith("adam_v") and a[name].any() for name in a)


def read_results(path):
    lines = (path / "eval_results.txt").read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


def test_packed_rows(folder, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    for i in range(2):
        tiny_records.write_static(folder / f"records-{i}", 15, 24, 3, seed=i)
    # Short sequences in rows of 24 pieces, as in a second phase.
    flags = {
        "max_seq_length": 24,
        "do_train": True,
        "do_eval": True,
        "save_checkpoints_steps": 4,
        "pack_sequences": True,
    }
    out, broken = folder / "out", folder / "broken"
    scores = run(folder, output_dir=out, **flags)["eval"]
    assert "train: 30 examples packed in" in caplog.text
    assert sorted(p.name for p in out.glob("train_packed.tf_record*")) == [
        "train_packed.tf_record-00000-of-00002",
        "train_packed.tf_record-00001-of-00002",
    ]
    assert list(read_results(out)) == EVAL_LINES
    single = run(folder, output_dir=out, **{**flags, "do_train": False})["eval"]
    assert single == scores
    run(folder, output_dir=broken, stop_at_step=4, **flags)
    run(folder, output_dir=broken, **flags)
    assert_same_bits(out, broken)


def test_records_without_masks_cannot_be_packed(folder):
    tiny_records.write_dynamic(folder / "records-0", 15)
    tiny_records.write_dynamic(folder / "records-1", 15)
    with pytest.raises(ValueError, match=r"masked_lm_ids.*--masking=static"):
        run(
            folder,
            output_dir=folder / "out",
            do_train=True,
            pack_sequences=True,
        )


def test_train_and_evaluate(folder, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    out = folder / "out"
    scores = run(folder, output_dir=out, do_train=True, do_eval=True)["eval"]
    lines = read_results(out)
    assert list(lines) == EVAL_LINES
    assert lines["global_step"] == "6"
    assert float(lines["loss"]) == pytest.approx(scores["loss"])
    assert 0 < float(lines["masked_lm_loss"]) < 2 * np.log(60)
    assert f"--input_file={folder}/records*: 2 file(s)" in caplog.text
    assert f"{folder}/records-1" in caplog.text
    assert "evaluating on all 30 examples" in caplog.text
    record = json.loads((out / "run.json").read_text())
    assert record["task"] == "pretraining"
    assert record["max_seq_length"] == 16
    assert "do_lower_case" not in record
    # A second run says that it has nothing to do, and evaluates again; what
    # the folder knows need not be said again.
    again = run(
        folder,
        output_dir=out,
        bert_config_file=None,
        do_train=True,
        do_eval=True,
    )["eval"]
    assert "is at step 6 already, this run ends at 6" in caplog.text
    assert again["loss"] == pytest.approx(scores["loss"], abs=1e-6)


def test_evaluation_modes(folder, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    start, out = folder / "start", folder / "out"
    run(folder, output_dir=start, do_train=True, num_train_steps=1)
    settings = {
        "output_dir": out,
        "init_checkpoint": start,
        "do_eval": True,
        "eval_batch_size": 8,
    }
    whole = run(folder, **settings)["eval"]
    one = {**settings, "eval_batch_size": 1}
    assert run(folder, **one)["eval"] == pytest.approx(
        {**whole, "loss": pytest.approx(whole["loss"], abs=0.5)}, abs=1e-5
    )
    # Twice over the 30 records is the mean of once.
    twice = {**one, "eval_mode": "repeat", "max_eval_steps": 60}
    twice = run(folder, **twice)["eval"]
    assert twice["masked_lm_loss"] == pytest.approx(
        whole["masked_lm_loss"], abs=1e-5
    )
    # Four batches of 8 run 2 records over the end.
    over = run(folder, **settings, eval_mode="repeat", max_eval_steps=4)
    assert over["eval"]["masked_lm_loss"] != pytest.approx(
        whole["masked_lm_loss"], abs=1e-5
    )
    part = run(folder, **settings, max_eval_steps=2)["eval"]
    assert "evaluating on the first 16 examples" in caplog.text
    assert part["masked_lm_loss"] != pytest.approx(
        whole["masked_lm_loss"], abs=1e-5
    )
    other = tiny_records.write_static(folder / "held_out", 7, seed=9)
    run(folder, **settings, eval_input_file=other)
    assert "evaluating on all 7 examples" in caplog.text


@pytest.mark.parametrize("kind", ["static", "dynamic"])
def test_an_interrupted_run_ends_in_the_same_bits(folder, kind):
    if kind == "dynamic":
        for i in range(2):
            tiny_records.write_dynamic(folder / f"records-{i}", 15, seed=i)
    run(folder, output_dir=folder / "whole", do_train=True, num_train_steps=9)
    parts = {"output_dir": folder / "parts", "do_train": True}
    run(folder, **parts, num_train_steps=9, stop_at_step=4)
    stopped = latest_checkpoint(str(folder / "parts"))
    assert stopped.endswith("model.ckpt-4")
    run(folder, **parts, num_train_steps=9)
    assert_same_bits(folder / "whole", folder / "parts")


def test_second_phase_in_the_same_folder(folder, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    out = folder / "out"
    run(folder, output_dir=out, do_train=True, stop_at_step=4)
    first = read_variables(latest_checkpoint(str(out)))
    longer = tiny_records.write_static(
        folder / "longer", 20, length=24, predictions=5
    )
    caplog.clear()
    run(
        folder,
        output_dir=out,
        do_train=True,
        input_file=longer,
        max_seq_length=24,
        max_predictions_per_seq=5,
    )
    # The rate of step 4 of 6: one schedule for both phases.
    assert "resuming at step 4 of 6, learning rate 0.00333" in caplog.text
    assert "read from their beginning" in caplog.text
    prefix = latest_checkpoint(str(out))
    second = read_variables(prefix)
    assert second["global_step"] == 6
    assert set(first) == set(second)
    sidecar = read_sidecar(prefix)["training_data"]
    assert sidecar["examples_read"] == 2 * 4
    record = json.loads((out / "run.json").read_text())
    assert record["max_seq_length"] == 24
    assert record["max_predictions_per_seq"] == 5
    # Positions beyond the first phase's length have been trained only now.
    moments = "bert/embeddings/position_embeddings/adam_v"
    assert not first[moments][16:].any() and first[moments][:16].any()
    assert second[moments][16:].any()
    # The lengths of the latest phase are the folder's own now.
    scores = run(
        folder,
        output_dir=out,
        do_eval=True,
        input_file=longer,
        max_seq_length=None,
        max_predictions_per_seq=None,
    )
    assert scores["eval"]["global_step"] == 6


def test_second_phase_in_a_new_folder(folder):
    run(folder, output_dir=folder / "first", do_train=True)
    longer = tiny_records.write_static(folder / "longer", 20, length=24)
    run(
        folder,
        output_dir=folder / "second",
        do_train=True,
        init_checkpoint=folder / "first",
        input_file=longer,
        max_seq_length=24,
        num_train_steps=2,
    )
    start = read_variables(str(folder / "second/model.ckpt-0"))
    end = read_variables(latest_checkpoint(str(folder / "first")))
    assert start["global_step"] == 0
    for name, value in start.items():
        if name.endswith(("adam_m", "adam_v")):
            assert not value.any(), name  # slots start anew
        elif name != "global_step":
            np.testing.assert_array_equal(value, end[name], err_msg=name)
    assert latest_checkpoint(str(folder / "second")).endswith("ckpt-2")


def test_masked_lm_alone(folder):
    out = folder / "out"
    train = {"output_dir": out, "do_train": True, "use_next_sentence": False}
    scores = run(folder, **train, do_eval=True)["eval"]
    assert sorted(scores) == EVAL_LINES[:4]
    names = read_variables(latest_checkpoint(str(out)))
    assert not any("seq_relationship" in name for name in names)
    assert "bert/pooler/dense/kernel" in names
    assert "bert/pooler/dense/kernel/adam_m" not in names
    # The folder knows what it holds; the other kind of model is refused.
    again = run(folder, output_dir=out, do_eval=True)["eval"]
    assert again["loss"] == pytest.approx(scores["loss"], abs=1e-6)
    with pytest.raises(ValueError, match="use next sentence False"):
        run(folder, output_dir=out, do_eval=True, use_next_sentence=True)


def test_sinusoidal_positions_are_where_training_starts(folder):
    out = folder / "out"
    run(folder, output_dir=out, do_train=True, position_init="sinusoidal")
    name = "bert/embeddings/position_embeddings"
    start = read_variables(str(out / "model.ckpt-0"), [name])[name]
    config = BertConfig.from_json_file(folder / "bert_config.json")
    expected = sinusoidal_positions(*start.shape, config.initializer_range)
    np.testing.assert_array_equal(start, expected)
    end = read_variables(latest_checkpoint(str(out)), [name])[name]
    assert np.abs(end - start)[:16].min(axis=1).max() > 0


@pytest.mark.parametrize(("corrected", "factor"), [(True, 1), (False, 10**0.5)])
def test_first_step_of_adam(folder, corrected, factor):
    """m / sqrt(v) is (1 - 0.9) g / sqrt((1 - 0.999) g^2) at the start."""
    run(
        folder,
        output_dir=folder / "out",
        do_train=True,
        num_train_steps=1,
        num_warmup_steps=0,
        learning_rate=0.001,
        adam_bias_correction=corrected,
    )
    name = "cls/predictions/output_bias"
    start, end = (
        read_variables(str(folder / f"out/model.ckpt-{step}"), [name])[name]
        for step in (0, 1)
    )
    assert np.abs(end - start).max() == pytest.approx(0.001 * factor, rel=0.01)


def test_lamb_and_a_vocabulary(folder):
    vocab = folder / "vocab.txt"
    vocab.write_text("".join(f"word{i}\n" for i in range(60)))
    out = folder / "out"
    settings = {"output_dir": out, "do_train": True, "optimizer": "lamb"}
    run(folder, **settings, vocab_file=vocab, do_lower_case=False)
    assert (out / "vocab.txt").read_bytes() == vocab.read_bytes()
    assert json.loads((out / "run.json").read_text())["do_lower_case"] is False
    before = read_variables(str(out / "model.ckpt-0"))
    after = read_variables(latest_checkpoint(str(out)))
    kernel = "bert/encoder/layer_0/output/dense/kernel"
    # LAMB: each step moves a decayed variable by the rate times its norm.
    moved = np.linalg.norm(after[kernel] - before[kernel])
    rates = 0.01 * (0.5 + 4 / 6 + 3 / 6 + 2 / 6 + 1 / 6)
    norm = np.linalg.norm(before[kernel])
    assert 0.2 * rates * norm < moved < 1.2 * rates * norm
    vocab.write_text("short\n")
    with pytest.raises(ValueError, match="1 lines"):
        run(
            folder,
            output_dir=folder / "other",
            do_train=True,
            vocab_file=vocab,
        )


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ({"input_file": "nowhere*"}, ["--input_file", "nowhere*"]),
        ({"max_seq_length": 20}, ["records-0", "--max_seq_length"]),
        (
            {"max_predictions_per_seq": 4},
            ["records-0", "--max_predictions_per_seq"],
        ),
        ({"max_seq_length": 25}, ["--max_seq_length is 25", "24 positions"]),
        ({"num_train_steps": 0}, ["--num_train_steps is 0"]),
        (
            {"position_init": "sinusoidal", "init_checkpoint": "other"},
            ["--position_init is 'sinusoidal'", "--init_checkpoint"],
        ),
        ({"num_warmup_steps": -1}, ["--num_warmup_steps is -1"]),
        ({"max_eval_steps": 0}, ["--max_eval_steps is 0"]),
        ({"masked_lm_prob": 1.5}, ["--masked_lm_prob is 1.5"]),
        ({"do_train": False}, ["--do_train", "--do_eval"]),
        (
            {"do_train": False, "do_eval": True},
            ["nothing to evaluate", "--init_checkpoint"],
        ),
        (
            {"input_file": "records@3"},
            ["--input_file", "records-00000-of-00003"],
        ),
    ],
)
def test_what_is_refused(folder, monkeypatch, flags, words):
    monkeypatch.chdir(folder)
    with pytest.raises(ValueError) as caught:
        run(folder, **{"output_dir": "out", "do_train": True, **flags})
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("flag", ["input_file", "eval_input_file"])
def test_local_records_and_a_remote_tpu(folder, flag):
    path = folder / "records*"
    given = [f"--{flag}=gs://bucket/records,{path}", "--use_tpu"]
    with flagsaver.flagsaver():
        FLAGS(["run_pretraining.py", *given, "--tpu_name=grpc://10.0.0.1:8470"])
        message = re.escape(f"--{flag}={path} is a local path")
        with pytest.raises(ValueError, match=message):
            pretraining_run_flags.find_files(flag)
        # A TPU VM reads its own disk.
        FLAGS(["run_pretraining.py", f"--{flag}={path}", "--tpu_name=local"])
        assert len(pretraining_run_flags.find_files(flag)) == 2


def test_shards_by_number(folder, caplog):
    for i in range(2):
        os.rename(folder / f"records-{i}", folder / f"part-{i:05d}-of-00002")
    caplog.set_level(logging.INFO, "bert_tf")
    run(
        folder,
        output_dir=folder / "out",
        do_train=True,
        input_file=folder / "part@2",
        num_train_steps=1,
    )
    assert "part@2: 2 file(s)" in caplog.text


class Command:
    """The script in a process of its own."""

    def __init__(self, repo_dir, folder, out, **flags):
        self.out = folder / out
        self.log = open(folder / f"{out}.log", "a+")  # noqa: SIM115
        self._process = subprocess.Popen(
            [
                sys.executable,
                str(repo_dir / "run_pretraining.py"),
                *arguments(folder, output_dir=self.out, **flags),
            ],
            cwd=repo_dir,
            stdout=self.log,
            stderr=subprocess.STDOUT,
        )

    def kill_after(self, name):
        """SIGKILL once a file is there."""
        while not (self.out / name).exists():
            assert self._process.poll() is None, self.text()
            time.sleep(0.002)
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait() == -signal.SIGKILL

    def kill_after_progress(self, step, seconds):
        """SIGKILL some time after a checkpoint beyond `step` is whole."""
        while steps_done(str(self.out)) <= step:
            assert self._process.poll() is None, self.text()
            time.sleep(0.01)
        time.sleep(seconds)
        self._process.send_signal(signal.SIGKILL)
        assert self._process.wait() == -signal.SIGKILL, self.text()

    def finish(self):
        """Waits for a good end."""
        assert self._process.wait() == 0, self.text()

    def text(self):
        self.log.seek(0)
        return self.log.read()


def test_killed_and_restarted(repo_dir, folder):
    flags = {
        "do_train": True,
        "num_train_steps": 100,
        "save_checkpoints_steps": 5,
        "keep_checkpoint_max": 0,
    }
    whole = Command(repo_dir, folder, "whole", **flags)
    killed = Command(repo_dir, folder, "killed", **flags)
    killed.kill_after("model.ckpt-20.index")
    assert not (folder / "killed/model.ckpt-100.index").exists()
    restarted = Command(repo_dir, folder, "killed", **flags)
    restarted.finish()
    whole.finish()
    assert "resuming at step" in restarted.text()
    assert_same_bits(folder / "whole", folder / "killed")


@pytest.mark.slow
@pytest.mark.parametrize(
    "devices",
    [
        {"distribution_strategy": "one_device"},
        {"distribution_strategy": "mirrored", "num_cpu_devices": 2},
    ],
    ids=["one_device", "mirrored"],
)
def test_killed_ten_times_at_random(repo_dir, folder, devices):
    """Each time somewhere else, in a step or in a write."""
    flags = {
        "do_train": True,
        "num_train_steps": 3000,
        "save_checkpoints_steps": 20,
        "keep_checkpoint_max": 2,
        **devices,
    }
    whole = Command(repo_dir, folder, "whole", **flags)
    moments = np.random.default_rng(5).uniform(0, 0.3, 10)
    reached = []
    for seconds in moments:
        killed = Command(repo_dir, folder, "killed", **flags)
        killed.kill_after_progress(reached[-1] if reached else 0, seconds)
        reached.append(steps_done(str(folder / "killed")))
    assert reached[-1] < 3000, reached
    assert reached == sorted(set(reached)), reached
    last = Command(repo_dir, folder, "killed", **flags)
    last.finish()
    whole.finish()
    assert f"resuming at step {reached[-1]} of" in last.text()
    assert_same_bits(folder / "whole", folder / "killed")
