"""The script `create_pretraining_data.py` and its flags."""

import subprocess
import sys

import pytest
from pretraining_text import make_settings, make_text, read_all, write_vocab

from bert_tf.pretraining_data import create_pretraining_data


@pytest.fixture
def script(tmp_path, repo_dir):
    """Runs the script on a small text; returns status and output."""
    write_vocab(tmp_path)
    (tmp_path / "text.txt").write_text(make_text(10))

    def run(*arguments):
        done = subprocess.run(
            [
                sys.executable,
                str(repo_dir / "create_pretraining_data.py"),
                *arguments,
            ],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=120,
        )
        return done.returncode, done.stdout + done.stderr

    return run


REQUIRED = ("--input_file=text.txt", "--vocab_file=vocab.txt")


def test_flags_become_settings(script, tmp_path):
    status, output = script(
        *REQUIRED,
        "--output_file=out@2",
        "--max_seq_length=32",
        "--max_predictions_per_seq=5",
        "--nodo_lower_case",
        "--do_whole_word_mask",
        "--random_seed=7",
        "--dupe_factor=3",
        "--masked_lm_prob=0.2",
        "--short_seq_prob=0.3",
    )
    assert status == 0, output
    assert "masked tokens" in output
    settings = make_settings(
        tmp_path,
        output_file=str(tmp_path / "same@2"),
        do_lower_case=False,
        do_whole_word_mask=True,
        random_seed=7,
        dupe_factor=3,
        masked_lm_prob=0.2,
        short_seq_prob=0.3,
    )
    create_pretraining_data(settings)
    for path in settings.output_paths():
        own = path.replace("same", "out")
        with open(path, "rb") as one, open(own, "rb") as other:
            assert one.read() == other.read()
    assert read_all(settings)


def test_help_needs_no_tensorflow_and_names_all_flags(script, repo_dir):
    status, output = script("--help")
    assert status == 1  # absl's way
    for flag in ("input_file", "dupe_factor", "mode", "masking", "runner"):
        assert f"--{flag}" in output or f"--[no]{flag}" in output, flag
    code = (
        "import sys, create_pretraining_data;"
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=repo_dir)


def test_dry_run_needs_no_output(script, tmp_path):
    before = sorted(tmp_path.iterdir())
    status, output = script(*REQUIRED, "--dry_run")
    assert status == 0 and "documents              10" in output
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "--input_file must have a value"),
        (REQUIRED, "--output_file must have a value"),
        (
            (*REQUIRED, "--output_file=out", "--do_lower_case", "False"),
            "unexpected argument 'False'",
        ),
        (
            (*REQUIRED, "--output_file=out", "--", "--region=x"),
            "need --runner",
        ),
        (
            (*REQUIRED, "--output_file=out", "stray", "--", "--region=x"),
            "unexpected argument 'stray'",
        ),
        ((*REQUIRED, "--output_file=out", "--mode=fast"), "mode"),
        (
            (*REQUIRED, "--output_file=out", "--max_seq_length=3"),
            "--max_seq_length is 3",
        ),
        (
            ("--input_file=no*", "--vocab_file=vocab.txt", "--dry_run"),
            "no file matches 'no*'",
        ),
    ],
)
def test_errors_are_one_line_and_a_status(script, arguments, message):
    status, output = script(*arguments)
    assert status != 0 and message in output
    assert "Traceback" not in output
