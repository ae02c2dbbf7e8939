"""Flags -> settings, stray arguments, errors without traceback."""

import types

import pytest
from absl import flags
from absl.testing import flagsaver

from bert_tf import common_flags
from bert_tf.settings import RunSettings

FLAGS = flags.FLAGS


@pytest.fixture(scope="module", autouse=True)
def defined():
    for _ in range(2):  # A second script in one process defines them again.
        common_flags.define_model_flags()
        common_flags.define_run_flags()
        common_flags.define_epoch_flags()
        common_flags.define_device_flags()


@pytest.fixture(autouse=True)
def clean():
    with flagsaver.flagsaver():
        yield


def parse(*arguments):
    left = FLAGS(["script", *arguments])
    common_flags.start(left)


def test_defaults_are_the_originals(tmp_path):
    parse("--do_train", f"--output_dir={tmp_path}")
    settings = common_flags.run_settings()
    assert settings == RunSettings(str(tmp_path), do_train=True)
    assert (settings.train_batch_size, settings.eval_batch_size) == (32, 8)
    assert settings.learning_rate == 5e-5
    assert settings.num_train_epochs == 3.0
    assert settings.warmup_proportion == 0.1
    assert settings.save_checkpoints_steps == 1000
    assert settings.iterations_per_loop == 1000
    devices = common_flags.device_settings()
    assert not devices.use_tpu and devices.num_tpu_cores == 8


@pytest.mark.parametrize(
    ("folder", "path", "expected"),
    [
        ("", "a/b", "a/b"),
        ("data", "a/b", "data/a/b"),
        ("data", "/a/b", "/a/b"),
        ("data", "gs://a/b", "gs://a/b"),
        ("gs://data", "a/b", "gs://data/a/b"),
        ("gs://data", "/a/b", "/a/b"),
    ],
)
def test_paths_in_the_data_folder(monkeypatch, folder, path, expected):
    values = types.SimpleNamespace(data_dir=folder)
    monkeypatch.setattr(common_flags, "FLAGS", values)
    assert common_flags.in_data_dir(path) == expected


def test_stray_argument():
    with pytest.raises(flags.Error, match="unexpected argument 'False'"):
        parse("--do_lower_case", "False")


def test_required_flag():
    parse("--do_train")
    with pytest.raises(flags.Error, match="--output_dir must have a value"):
        common_flags.run_settings()


def test_run_folder_fills_in_what_is_left_out(tmp_path):
    (tmp_path / "run.json").write_text(
        '{"do_lower_case": false, "max_seq_length": 77}'
    )
    (tmp_path / "vocab.txt").write_text("")
    (tmp_path / "bert_config.json").write_text("{}")
    parse(f"--output_dir={tmp_path}", "--max_seq_length=33")
    model = common_flags.model_settings()
    assert model.vocab_file == str(tmp_path / "vocab.txt")
    assert model.bert_config_file == str(tmp_path / "bert_config.json")
    assert not model.do_lower_case and model.max_seq_length == 33


def test_nothing_to_fill_in_from(tmp_path):
    parse(f"--output_dir={tmp_path}")
    with pytest.raises(flags.Error, match="--bert_config_file is not given"):
        common_flags.model_settings()
    parse(f"--output_dir={tmp_path}", f"--init_checkpoint={tmp_path}/x.ckpt")
    with pytest.raises(flags.Error, match=r"beside --init_checkpoint=.*x.ckpt"):
        common_flags.model_settings()


@pytest.mark.parametrize("start", ["", "/bert_model.ckpt", "/model.index"])
def test_the_checkpoints_folder_fills_in_what_is_left(tmp_path, caplog, start):
    """As released, config and vocabulary lie beside the checkpoint."""
    bert, out = tmp_path / "bert", tmp_path / "out"
    bert.mkdir()
    out.mkdir()
    (bert / "vocab.txt").write_text("")
    (bert / "bert_config.json").write_text("{}")
    parse(f"--output_dir={out}", f"--init_checkpoint={bert}{start}")
    caplog.set_level("INFO", logger="absl")
    model = common_flags.model_settings()
    assert model.vocab_file == str(bert / "vocab.txt")
    assert model.bert_config_file == str(bert / "bert_config.json")
    assert model.do_lower_case and model.max_seq_length == 128
    assert f"--vocab_file is not given, taking {bert}/vocab.txt" in caplog.text
    assert f"taking {bert}/bert_config.json" in caplog.text
    # A folder that pre-training left knows the casing of its vocabulary.
    (bert / "run.json").write_text(
        '{"do_lower_case": false, "max_seq_length": 64}'
    )
    model = common_flags.model_settings()
    assert not model.do_lower_case and model.max_seq_length == 128
    # What the run folder holds comes first.
    (out / "bert_config.json").write_text("{}")
    (out / "vocab.txt").write_text("")
    model = common_flags.model_settings()
    assert model.bert_config_file == str(out / "bert_config.json")
    assert model.vocab_file == str(out / "vocab.txt")
    assert model.do_lower_case
    assert not common_flags.model_settings(reads_text=False).vocab_file


def test_command_line_is_recorded(tmp_path):
    parse(f"--output_dir={tmp_path}", "--do_eval")
    given = common_flags.command_line()
    assert given["do_eval"] is True and given["output_dir"] == str(tmp_path)


def test_our_errors_come_without_traceback(monkeypatch):
    def run(main):
        monkeypatch.setattr(common_flags.app, "run", lambda f: f(["x"]))
        common_flags.run_main(main)

    def ours(argv):
        RunSettings("x")

    def foreign(argv):
        int("no number")

    with pytest.raises(SystemExit, match="error: at least one of"):
        run(ours)
    with pytest.raises(ValueError, match="invalid literal"):
        run(foreign)


def test_steps_of_another_script_do_not_leak(tmp_path):
    """All scripts can live in one process."""
    common_flags.define(
        flags.DEFINE_integer, "num_train_steps", 100_000, "of pre-training"
    )
    parse("--do_train", f"--output_dir={tmp_path}", "--num_train_epochs=2")
    assert common_flags.run_settings().num_train_steps is None
    by_steps = common_flags.run_settings(counts_steps=True)
    assert by_steps.num_train_steps == 100_000
    assert by_steps.num_train_epochs == 3.0
