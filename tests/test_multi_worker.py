"""The script on one device, on two, and in two worker processes."""

import json
import os
import socket
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoint import read_variables
from bert_tf.config import BertConfig
from bert_tf.records import write_records
from bert_tf.tasks.pretraining import PretrainingTask

LENGTH, LONGEST, PREDICTIONS, VOCAB, STEPS = 24, 12, 4, 60, 20


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("workers")
    BertConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        type_vocab_size=2,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    ).save(folder / "bert_config.json")
    rng = np.random.default_rng(1)
    rows = [
        {
            "input_ids": rng.integers(5, VOCAB, LENGTH),
            "input_mask": np.arange(LENGTH) < rng.integers(4, LONGEST + 1),
            "segment_ids": rng.integers(0, 2, LENGTH),
            "masked_lm_positions": rng.integers(0, 4, PREDICTIONS),
            "masked_lm_ids": rng.integers(5, VOCAB, PREDICTIONS),
            "masked_lm_weights": np.arange(PREDICTIONS) < rng.integers(1, 3),
            "next_sentence_labels": rng.integers(0, 2, 1),
        }
        for _ in range(53)
    ]
    spec = PretrainingTask(LENGTH, PREDICTIONS).feature_spec("train")
    write_records(str(folder / "records"), spec, iter(rows))
    return folder


def free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()


def start_workers(repo, files, name, *arguments):
    """Two processes that train together."""
    workers = [f"127.0.0.1:{port}" for port in free_ports(2)]
    return [
        start(
            repo,
            files,
            name,
            "--distribution_strategy=multi_worker",
            *arguments,
            tf_config={
                "cluster": {"worker": workers},
                "task": {"type": "worker", "index": index},
            },
        )
        for index in range(2)
    ]


def start(repo, files, name, *arguments, tf_config=None):
    environment = {**os.environ}
    if tf_config:
        environment["TF_CONFIG"] = json.dumps(tf_config)
    return subprocess.Popen(
        [
            sys.executable,
            str(repo / "run_pretraining.py"),
            "--do_train",
            "--do_eval",
            f"--input_file={files}/records",
            f"--bert_config_file={files}/bert_config.json",
            f"--output_dir={files}/{name}",
            f"--max_seq_length={LENGTH}",
            f"--max_predictions_per_seq={PREDICTIONS}",
            "--train_batch_size=8",
            "--eval_batch_size=8",
            "--learning_rate=0.001",
            f"--num_train_steps={STEPS}",
            "--num_warmup_steps=4",
            *arguments,
        ],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module", params=["single", "packed"])
def runs(repo_dir, files, request):
    """Folders of the same run on all strategies, in a folder of their own."""
    group = request.param
    (files / group).mkdir()
    flags = []
    if group == "packed":
        flags = ["--pack_sequences", "--train_batch_size=9"]
    processes = [
        start(repo_dir, files, f"{group}/one", *flags),
        start(
            repo_dir,
            files,
            f"{group}/mirrored",
            "--num_cpu_devices=2",
            "--gradient_accumulation_steps=2",
            *flags,
        ),
        *start_workers(repo_dir, files, f"{group}/workers", *flags),
    ]
    for process in processes:
        _, errors = process.communicate(timeout=900)
        assert process.returncode == 0, errors[-3000:]
        # One batch size in rows, or there is nothing to compare.
        assert ("an update takes 4 rows" in errors) == (group == "packed")
    return files / group


@pytest.mark.parametrize("name", ["mirrored", "workers"])
def test_same_weights_on_all_strategies(runs, name):
    one, other = read_variables(runs / "one"), read_variables(runs / name)
    assert set(one) == set(other)
    assert int(one["global_step"]) == int(other["global_step"]) == STEPS
    for key, value in one.items():
        atol = 1e-4 if "key/bias" in key else 1e-5
        np.testing.assert_allclose(other[key], value, atol=atol, err_msg=key)


@pytest.mark.parametrize("name", ["mirrored", "workers"])
def test_same_scores_on_all_strategies(runs, name):
    def scores(folder):
        lines = (folder / "eval_results.txt").read_text().splitlines()
        return {k: float(v) for k, v in (x.split(" = ") for x in lines)}

    one, other = scores(runs / "one"), scores(runs / name)
    assert set(one) == set(other) and len(one) == 6
    for key, value in one.items():
        assert other[key] == pytest.approx(value, abs=1e-5), key


def test_only_one_worker_writes(runs):
    names = {path.name for path in (runs / "workers").iterdir()}
    assert names >= {"checkpoint", "run.json", "eval_results.txt"}
    assert not any("temp" in name or name.endswith(".tmp") for name in names)


@pytest.mark.parametrize("killed", [0, 1])
def test_a_worker_alone_says_that_the_other_is_gone(repo_dir, files, killed):
    folder = f"killed_{killed}"
    workers = start_workers(
        repo_dir,
        files,
        folder,
        "--num_train_steps=1000000",
        "--save_checkpoints_steps=10",
    )
    try:
        saved = files / folder / "model.ckpt-10.index"
        deadline = time.monotonic() + 300
        while not saved.exists() and time.monotonic() < deadline:
            assert workers[0].poll() is None, workers[0].communicate()[1]
            time.sleep(0.1)
        workers[killed].kill()
        _, errors = workers[1 - killed].communicate(timeout=300)
    finally:
        for worker in workers:
            worker.kill()
    assert workers[1 - killed].returncode == 1
    assert "start all workers again" in errors
    latest = tf.train.latest_checkpoint(files / folder)
    assert f"they go on from {latest}. " in errors
    assert "Traceback" not in errors
