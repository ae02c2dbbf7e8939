"""The training step, compiled by the compiler of TPUs.

Updates are made in place, and a step that is not or does not fit is refused.
Needs a Python with jax and libtpu, named by BERT_TF_TPU_PYTHON
(docs/devices.md); what judges a report is tested without.
"""

import copy
import json
import os
import pathlib
import subprocess

import pytest
import tpu_compile
import tpu_lower
import tpu_tasks

SCRIPT = pathlib.Path(tpu_compile.__file__)
REPORT = {
    "chip": "TPU v5 lite",
    "seconds": 5.0,
    "arguments": 3 * 2**30,
    "outputs": 2 * 2**30,
    "aliased": 2 * 2**30,
    "temporaries": 2**30,
    "program": 0,
    "flops": 1e9,
    "bytes_accessed": 2**30,
    "in_place": [
        {"kind": "parameter", "name": "a", "in_place": True},
        {"kind": "slot", "name": "a/adam_m", "in_place": True},
    ],
}


@pytest.fixture(scope="module")
def lowered(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lowered")
    tpu_lower.lower(
        folder,
        tpu_tasks.CONFIG,
        length=tpu_tasks.LENGTH,
        batch=4,
        predictions=tpu_tasks.PREDICTIONS,
        dtype="bfloat16",
    )
    return folder


def run_compiler(folder, *flags):
    python = os.environ.get("BERT_TF_TPU_PYTHON")
    if not python:
        pytest.skip("BERT_TF_TPU_PYTHON names no Python with jax and libtpu")
    return subprocess.run(
        [python, str(SCRIPT), str(folder), *flags],
        capture_output=True,
        text=True,
        check=False,
    )


def test_lowered_step_is_described(lowered):
    arguments = json.loads((lowered / "arguments.json").read_text())
    kinds = [argument["kind"] for argument in arguments]
    assert kinds.count("feature") == 7
    assert kinds.count("parameter") > 30
    assert kinds.count("slot") == 2 * kinds.count("parameter")
    word = next(a for a in arguments if a["kind"] == "parameter")
    assert word["name"] == "bert/embeddings/word_embeddings"
    assert word["shape"] == [tpu_tasks.VOCAB, tpu_tasks.CONFIG.hidden_size]


def test_aliased_arguments_are_read_from_the_header():
    header = (
        "HloModule step, is_scheduled=true, input_output_alias={ {0}: (7, {},"
        " may-alias), {11}: (19, {}, may-alias) }, entry_computation_layout="
        "{(s32[4,16]{1,0:T(4,128)}, f32[])->(f32[], s64[])}\n"
    )
    body = "  x = f32[] custom-call(), aliasing={ {0}: (3, {}) }\n"
    assert tpu_compile.aliased_arguments(header + body) == {7, 19}


def test_memory_is_not_counted_twice():
    assert tpu_compile.total_memory(REPORT) == 4 * 2**30
    assert tpu_compile.faults(REPORT) == []


def test_a_copied_slot_is_a_fault():
    report = copy.deepcopy(REPORT)
    report["in_place"][1]["in_place"] = False
    (fault,) = tpu_compile.faults(report)
    assert "1 of 2" in fault and "a/adam_m" in fault


def test_a_step_without_variables_is_a_fault():
    (fault,) = tpu_compile.faults({**REPORT, "in_place": []})
    assert "neither parameters nor slots" in fault


def test_too_little_memory_is_a_fault():
    (fault,) = tpu_compile.faults(REPORT, hbm_gib=3.9)
    assert "does not fit: 4.00 GiB of 3.9" in fault


@pytest.mark.tpu_compiler
def test_step_is_updated_in_place_and_fits(lowered):
    result = run_compiler(lowered)
    assert result.returncode == 0, result.stdout + result.stderr[-3000:]
    assert "FLOPs" in result.stdout
    arguments = json.loads((lowered / "arguments.json").read_text())
    for kind in ("parameter", "slot"):
        count = sum(a["kind"] == kind for a in arguments)
        assert f"{count} of {count} {kind}s updated in place" in result.stdout


@pytest.mark.tpu_compiler
def test_copies_and_too_little_memory_are_caught(lowered):
    result = run_compiler(lowered, "--not_in_place", "--hbm_gib=0.001")
    assert result.returncode == 1, result.stderr[-3000:]
    assert "\n0 of " in result.stdout
    assert "are not updated in place" in result.stdout
    assert "does not fit" in result.stdout
