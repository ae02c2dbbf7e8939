"""Settings: arithmetic of steps, refusals."""

import pytest

from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings


def settings(**kwargs):
    return RunSettings(output_dir="/tmp/x", do_train=True, **kwargs)


@pytest.mark.parametrize(
    ("examples", "batch", "epochs", "steps", "warmup"),
    [
        (3668, 32, 3.0, 343, 34),
        (100, 8, 0.5, 6, 0),
        (10, 3, 1.0, 3, 0),
        (800, 8, 1.0, 100, 10),
    ],
)
def test_steps_are_the_originals(examples, batch, epochs, steps, warmup):
    found = settings(
        train_batch_size=batch, num_train_epochs=epochs
    ).with_train_steps(examples)
    assert (found.num_train_steps, found.num_warmup_steps) == (steps, warmup)


def test_no_step_at_all_says_what_to_change():
    with pytest.raises(ValueError, match=r"0 steps: 7 examples .* 32"):
        settings(num_train_epochs=1.0).with_train_steps(7)


def test_something_must_be_done():
    with pytest.raises(ValueError, match="--do_train, --do_eval"):
        RunSettings(output_dir="x")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("train_batch_size", 0),
        ("learning_rate", -1.0),
        ("save_checkpoints_steps", 0),
        ("warmup_proportion", 1.5),
        ("optimizer", "sgd"),
    ],
)
def test_bad_values_name_the_flag(name, value):
    with pytest.raises(ValueError, match=f"--{name} is"):
        settings(**{name: value})


def test_length_must_be_positive():
    with pytest.raises(ValueError, match="--max_seq_length is 0"):
        ModelSettings("c.json", max_seq_length=0)


def test_remote_tpu_needs_remote_paths():
    tpu = DeviceSettings(use_tpu=True, tpu_name="mine")
    tpu.check_paths({"output_dir": "gs://b/x", "init_checkpoint": None})
    with pytest.raises(ValueError, match=r"--output_dir=/tmp/x .* TPU mine"):
        tpu.check_paths({"output_dir": "/tmp/x"})
    DeviceSettings(use_tpu=True).check_paths({"output_dir": "/tmp/x"})
    DeviceSettings().check_paths({"output_dir": "/tmp/x"})


def test_placeholder_bucket():
    with pytest.raises(ValueError, match="put your own bucket"):
        DeviceSettings().check_paths({"output_dir": "gs://YOUR_BUCKET/bert"})


def test_devices():
    assert DeviceSettings(distribution_strategy="tpu").on_tpu
    assert not DeviceSettings(use_tpu=True).remote_tpu
    assert DeviceSettings(use_tpu=True, master="grpc://h:8470").remote_tpu
    with pytest.raises(ValueError, match="contradicts"):
        DeviceSettings(use_tpu=True, distribution_strategy="mirrored")
    with pytest.raises(ValueError, match="--distribution_strategy is 'x'"):
        DeviceSettings(distribution_strategy="x")
