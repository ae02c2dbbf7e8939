"""The train loop of every task is fit for a TPU, judged without one.

Traced under a stand-in TPUStrategy, it holds only ops that a TPU compiles,
nothing is left to the host, and TensorFlow's TPU bridge accepts it; compiled
with XLA and run on the CPU, the step has static shapes throughout. Negative
controls show that each check can fail.
"""

import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
import tpu_tasks

from bert_tf import optimization
from bert_tf.training import Trainer, TrainState

SCRIPT = pathlib.Path(__file__).with_name("tpu_check.py")
GOOD = list(tpu_tasks.good_tasks())


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("tpu") / "report.json"
    result = subprocess.run(
        [sys.executable, str(SCRIPT), str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(path.read_text())


@pytest.mark.parametrize("name", GOOD)
def test_only_legal_ops(report, name):
    found = report[name]
    assert found["illegal"] == []
    assert found["outside"] == []
    assert found["compiled"] > 1000


@pytest.mark.parametrize("name", GOOD)
def test_gradients_cross_the_cores(report, name):
    found = report[name]
    assert found["all_reduces"] >= found["updates"] > 30


@pytest.mark.parametrize("name", GOOD)
def test_the_tpu_bridge_accepts_it(report, name):
    assert report[name]["bridge"] == "passes"


def test_text_and_printing_are_caught(report):
    assert {"AsString", "StringLength"} <= set(report["strings"]["illegal"])
    assert "PrintV2" in report["printing"]["illegal"]
    for name in ("strings", "printing"):
        assert "invalid op" in report[name]["bridge"]


def compiled_step(task, features):
    """One whole update, optimizer included, as one XLA program."""
    keras.utils.set_random_seed(1)
    strategy = tf.distribute.get_strategy()
    model = task.create_model(tpu_tasks.CONFIG, use_one_hot_embeddings=True)
    state = TrainState.create(task, model, optimization.AdamWeightDecay())
    dataset = tf.data.Dataset.from_tensors(features).repeat()
    trainer = Trainer(
        task,
        state,
        lambda step: tf.constant(1e-3),
        strategy,
        dataset,
        run_seed=1,
    )
    tf.function(trainer._replica_step, jit_compile=True)(features)
    return trainer


@pytest.mark.parametrize("name", GOOD)
def test_step_compiles_and_runs(name):
    task = tpu_tasks.good_tasks()[name]
    features = tpu_tasks.features_of(task.feature_spec("train"), 4)
    trainer = compiled_step(task, features)
    assert int(trainer.state.global_step) == 1
    assert np.isfinite(float(trainer._sums["loss"]))
    moments = [
        float(tf.reduce_max(tf.abs(v)))
        for n, v in trainer.state.optimizer.slots.items()
        if n.endswith("adam_m")
    ]
    assert sum(m > 0 for m in moments) > 30


def test_shapes_that_depend_on_values_are_caught():
    task = tpu_tasks.DynamicTask(["a", "b"], tpu_tasks.LENGTH)
    features = tpu_tasks.features_of(task.feature_spec("train"), 4)
    with pytest.raises(tf.errors.InvalidArgumentError):
        compiled_step(task, features)
