"""`eval_results.txt` of the original's pre-training evaluation."""

import json

import pytest

from bert_tf import runner
from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings
from bert_tf.tasks.pretraining import PretrainingSource, PretrainingTask

FILES = (
    "pretraining_eval_trained_sample_s64_b8_n6.txt",
    "pretraining_eval_trained_sample_s64_wwm_b5_n9.txt",
    "pretraining_eval_tiny_sample_s64_b7_n20.txt",
    "pretraining_eval_tiny_sample_s128_wwm_b8_n3.txt",
)


def read_results(path):
    lines = path.read_text().splitlines()
    return {
        name: float(value)
        for name, value in (line.split(" = ") for line in lines)
    }


@pytest.mark.parametrize("file", FILES)
def test_original_evaluation(golden_dir, tmp_path, file):
    settings = {
        entry.get("file"): entry
        for entry in json.loads(
            (golden_dir / "end_to_end/settings.json").read_text()
        )
    }[file]
    checkpoint = golden_dir / "checkpoints" / settings["checkpoint"]
    records = golden_dir / "pretraining_data" / settings["tf_record"]
    batch_size = settings["eval_batch_size"]
    task = PretrainingTask(
        settings["max_seq_length"],
        settings["max_predictions_per_seq"],
        source=PretrainingSource(
            eval_paths=[str(records)],
            max_eval_records=settings["max_eval_steps"] * batch_size,
            eval_repeats=True,
        ),
    )
    runner.run(
        lambda config: task,
        ModelSettings(
            str(checkpoint / "bert_config.json"),
            init_checkpoint=str(checkpoint / "bert_model.ckpt"),
            max_seq_length=settings["max_seq_length"],
        ),
        RunSettings(str(tmp_path), do_eval=True, eval_batch_size=batch_size),
        DeviceSettings(),
    )
    found = read_results(tmp_path / "eval_results.txt")
    expected = read_results(golden_dir / "end_to_end" / file)
    assert list(found) == list(expected)
    for name, value in expected.items():
        exact = name == "global_step" or name.endswith("accuracy")
        assert found[name] == pytest.approx(
            value, rel=0, abs=1e-7 if exact else 2e-5
        ), name
