"""Several seeds: folders, mean and deviation."""

import json
import math

import numpy as np
import pytest

from bert_tf.seeds import run_seeds, summarise
from bert_tf.settings import RunSettings


def test_runs_differ_in_seed_and_folder(tmp_path, caplog):
    caplog.set_level("INFO", logger="bert_tf")
    asked = []

    def run_one(settings):
        asked.append(settings)
        seed = settings.random_seed
        return {"dev": {"f1": np.float32(seed / 8), "global_step": 4}}

    settings = RunSettings(
        f"{tmp_path}/", do_eval=True, num_seeds=3, random_seed=4
    )
    assert run_seeds(run_one, settings) == {"dev": {"f1": 0.625}}
    assert [s.random_seed for s in asked] == [4, 5, 6]
    assert [s.num_seeds for s in asked] == [1, 1, 1]
    folders = [s.output_dir for s in asked]
    assert folders == [f"{tmp_path}/seed-{n}" for n in (4, 5, 6)]
    assert json.loads((tmp_path / "seeds.json").read_text()) == {
        "seeds": [4, 5, 6],
        "folders": ["seed-4", "seed-5", "seed-6"],
        "scores": {
            "dev": {
                "f1": {
                    "values": [0.5, 0.625, 0.75],
                    "mean": 0.625,
                    "standard_deviation": 0.125,
                }
            }
        },
    }
    assert "f1 = 0.6250 +- 0.1250 (0.5000 0.6250 0.7500)" in caplog.text


def test_what_is_no_number():
    found = summarise(
        [
            {"dev": {"a": 1.0, "b": "x", "c": math.nan, "d": True}},
            {"dev": {"a": 3, "b": "y", "c": 0.5, "d": True}},
        ]
    )
    assert sorted(found["dev"]) == ["a", "c"]
    assert found["dev"]["a"]["standard_deviation"] == pytest.approx(2**0.5)
    assert found["dev"]["c"] == {
        "values": [None, 0.5],
        "mean": None,
        "standard_deviation": None,
    }


def test_a_score_that_one_run_lacks_is_left_out():
    found = summarise([{"dev": {"a": 1.0, "b": 1.0}}, {"dev": {"a": 2.0}}])
    assert list(found["dev"]) == ["a"]
