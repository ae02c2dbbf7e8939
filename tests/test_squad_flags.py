"""Flags of run_squad: defaults, mistakes, what the run folder remembers."""

import json
import subprocess
import sys

import pytest
from absl.testing import flagsaver

from bert_tf import common_flags, squad_flags
from bert_tf.settings import ModelSettings
from bert_tf.tasks.squad_settings import SquadSettings

FLAGS = common_flags.FLAGS


@pytest.fixture
def squad_file(tmp_path):
    path = tmp_path / "squad.json"
    path.write_text('{"data": []}')
    return str(path)


@pytest.fixture
def settings_for(tmp_path):
    """A command line -> `SquadSettings`."""
    common_flags.define_run_flags()
    squad_flags.define_flags()

    def parse(*arguments, max_seq_length=384):
        with flagsaver.flagsaver():
            FLAGS(["run_squad.py", f"--output_dir={tmp_path}", *arguments])
            model = ModelSettings("config", max_seq_length=max_seq_length)
            return squad_flags.squad_settings(model)

    return parse


def test_defaults_are_the_originals(settings_for, squad_file):
    found = settings_for("--do_predict", f"--predict_file={squad_file}")
    assert found == SquadSettings(
        predict_file=squad_file,
        eval_file=squad_file,
        max_seq_length=384,
        doc_stride=128,
        max_query_length=64,
        n_best_size=20,
        max_answer_length=30,
    )


def test_threshold_counts_as_given_only_if_it_is(settings_for, squad_file):
    base = ("--do_predict", f"--predict_file={squad_file}")
    assert settings_for(*base).null_score_diff_threshold is None
    found = settings_for(*base, "--null_score_diff_threshold=0")
    assert found.null_score_diff_threshold == 0.0


def test_eval_file_of_its_own(settings_for, squad_file, tmp_path):
    other = tmp_path / "other.json"
    other.write_text("")
    found = settings_for(
        "--do_eval", f"--predict_file={squad_file}", f"--eval_file={other}"
    )
    assert found.file_of("eval") == str(other)
    assert found.file_of("predict") == squad_file


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--do_train"], "--do_train needs --train_file"),
        (["--do_predict"], "--do_predict needs --predict_file"),
        (["--do_eval"], "--do_eval needs --eval_file or --predict_file"),
        (["--do_train", "--train_file=absent"], "--train_file=absent: no such"),
    ],
)
def test_files_that_are_not_there(settings_for, arguments, message):
    with pytest.raises(ValueError, match=message):
        settings_for(*arguments)


def test_lengths_without_room(settings_for):
    with pytest.raises(ValueError, match=r"--max_seq_length \(67\) must be"):
        settings_for("--do_predict", max_seq_length=67)


def test_the_run_folder_remembers(settings_for, squad_file, tmp_path):
    stored = SquadSettings(
        version_2_with_negative=True, doc_stride=7, split_cjk_words=True
    ).description()
    (tmp_path / "run.json").write_text(json.dumps(stored))
    base = ("--do_predict", f"--predict_file={squad_file}")
    found = settings_for(*base)
    assert found.description() == stored
    found = settings_for(*base, "--noversion_2_with_negative", "--doc_stride=9")
    assert not found.version_2_with_negative
    assert found.doc_stride == 9
    assert found.split_cjk_words


def run_script(repo_dir, *arguments):
    code = (
        "import sys, run_squad\n"
        "try:\n"
        "    run_squad.command()\n"
        "finally:\n"
        "    assert 'tensorflow' not in sys.modules\n"
    )
    return subprocess.run(
        [sys.executable, "-c", code, *arguments],
        cwd=repo_dir,
        capture_output=True,
        text=True,
    )


def test_help_needs_no_tensorflow(repo_dir):
    done = run_script(repo_dir, "--helpfull")
    assert "--[no]version_2_with_negative" in done.stdout + done.stderr
    assert "AssertionError" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--version_2_with_negative", "False"], "unexpected argument 'False'"),
        (["--do_predict", "\\"], "unexpected argument '\\\\'"),
        (["--no_such_flag"], "Unknown command line flag 'no_such_flag'"),
        (["--do_predict"], "--output_dir must have a value"),
    ],
)
def test_mistakes_end_at_once(repo_dir, arguments, message):
    """A lost flag is reported, not trained without."""
    done = run_script(repo_dir, *arguments)
    assert done.returncode == 1
    assert message in done.stderr
    assert "Traceback" not in done.stderr
