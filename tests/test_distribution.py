"""Strategies: what is made of the settings, and 1 against 2 replicas."""

import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import distribution
from bert_tf.settings import DeviceSettings

SCRIPT = pathlib.Path(__file__).with_name("replica_check.py")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("replicas")
    processes = {
        count: subprocess.Popen(
            [sys.executable, SCRIPT, str(count), folder / f"{count}.npz"],
            stderr=subprocess.PIPE,
            text=True,
        )
        for count in (1, 2)
    }
    found = {}
    for count, process in processes.items():
        _, errors = process.communicate(timeout=600)
        assert process.returncode == 0, errors[-3000:]
        found[count] = np.load(folder / f"{count}.npz")
    return found


@pytest.mark.parametrize("task", ["pretraining", "classification"])
def test_two_replicas_make_the_same_updates(runs, task):
    one, two = runs[1], runs[2]
    keys = [k for k in one if k.startswith(f"{task}/0.0/")]
    assert sum("/history/" in k for k in keys) >= 2
    assert sum("/weights/" in k for k in keys) > 30
    for key in keys:
        # The gradient of a key bias is rounding noise, which Adam amplifies.
        atol = 1e-4 if key.endswith("key/bias") else 1e-5
        np.testing.assert_allclose(
            two[key], one[key], atol=atol, rtol=1e-5, err_msg=key
        )


def test_replicas_draw_their_own_dropout(runs):
    """With dropout the runs differ, for half of the rows in each batch."""
    key = "classification/0.1/weights/output_weights"
    assert np.abs(runs[1][key] - runs[2][key]).max() > 1e-4


def test_one_device_by_default():
    strategy = distribution.create_strategy(DeviceSettings())
    assert isinstance(strategy, tf.distribute.OneDeviceStrategy)


def test_mirrored_on_request():
    strategy = distribution.create_strategy(
        DeviceSettings(distribution_strategy="mirrored")
    )
    assert isinstance(strategy, tf.distribute.MirroredStrategy)
    assert strategy.num_replicas_in_sync == 1


def test_no_tpu_here():
    with pytest.raises(ValueError, match=r"no TPU at 'local' \(--use_tpu"):
        distribution.create_strategy(DeviceSettings(use_tpu=True))


def test_devices_cannot_be_split_later():
    tf.constant(1) + 1
    with pytest.raises(ValueError, match="--num_cpu_devices=64"):
        distribution.create_strategy(DeviceSettings(num_cpu_devices=64))


def test_batch_size_must_divide():
    assert distribution.check_batch_size("train_batch_size", 32, 8) == 4
    with pytest.raises(ValueError, match=r"--eval_batch_size is 9.*4 replicas"):
        distribution.check_batch_size("eval_batch_size", 9, 4)
