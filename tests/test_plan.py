"""The plan of a step beside the models, the graphs and a measured run."""

import json
import pathlib
import subprocess
import sys

import pytest
import tensorflow as tf
from tensorflow.python.framework.convert_to_constants import (
    convert_variables_to_constants_v2,
)

from bert_tf import derivatives, plan
from bert_tf.config import BertConfig
from bert_tf.heads import (
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
)
from bert_tf.plan.__main__ import main
from bert_tf.tasks.pretraining import PretrainingTask

CONFIG = BertConfig(
    1000,
    hidden_size=128,
    num_hidden_layers=4,
    num_attention_heads=4,
    intermediate_size=512,
    max_position_embeddings=128,
    type_vocab_size=2,
)
BASE = BertConfig(30522, type_vocab_size=2)
MODELS = {
    "pretraining": lambda: BertForPreTraining(CONFIG),
    "classification": lambda: BertForSequenceClassification(CONFIG, 3),
    "squad": lambda: BertForQuestionAnswering(CONFIG),
}
PREDICTIONS = 4
# How far the plan may be from the resident memory of a real run.
MEASURED = 0.15


def step_of(config=CONFIG, **kwargs):
    values = {"max_predictions_per_seq": PREDICTIONS, "num_labels": 3}
    return plan.Step(config, **{**values, **kwargs})


@pytest.mark.parametrize("task", MODELS)
def test_parameters_are_those_of_the_built_model(task):
    model = MODELS[task]()
    step = step_of(task=task)
    total = sum(plan.count_parameters(step).values())
    assert total == model.count_params()
    unused = 0 if model.uses_pooler else model.bert.pooler.count_params()
    assert plan.count_trained(step) == total - unused


def test_parameters_of_the_published_base_model():
    counts = plan.count_parameters(step_of(BASE))
    encoder = sum(n for part, n in counts.items() if part != "head")
    assert encoder == 109_482_240


def test_flops_by_hand():
    flops = plan.step_flops(
        plan.Step(
            BertConfig(
                30522,
                hidden_size=512,
                num_hidden_layers=4,
                num_attention_heads=8,
                intermediate_size=2048,
            ),
            train_batch_size=16,
        )
    )
    assert sum(flops.values()) / 1e9 == pytest.approx(191.6, abs=0.1)
    parameters = 4 * (4 * 512**2 + 2 * 512 * 2048)
    assert flops["layer matrices"] == 6 * parameters * 16 * 128


# What TensorFlow traces ---------------------------------------------------


def traced(model, task, batch_size=8):
    """The graph of a forward and backward pass, before optimization."""
    ids = tf.TensorSpec([batch_size, 128], tf.int32)
    masked = tf.TensorSpec([batch_size, PREDICTIONS], tf.int32)
    features = {
        "input_ids": ids,
        "input_mask": ids,
        "segment_ids": ids,
        "masked_lm_positions": masked,
        "masked_lm_ids": masked,
        "masked_lm_weights": tf.TensorSpec(masked.shape, tf.float32),
        "next_sentence_labels": tf.TensorSpec([batch_size, 1], tf.int32),
    }
    variables = list(task.trained_variables(model).values())

    @tf.function
    def passes(features):
        with tf.GradientTape() as tape:
            outputs = model(
                features, training=True, dropout_seed=tf.constant([1, 2])
            )
            sums = task.loss_sums(outputs, features)
            loss = tf.add_n(list(sums.values()))
        gradients = tape.gradient(loss, variables)
        return [tf.convert_to_tensor(g) for g in gradients]

    # A layer is a function of its own, called for each.
    inlined = convert_variables_to_constants_v2(
        passes.get_concrete_function(features), aggressive_inlining=True
    )
    return inlined.graph


@pytest.fixture(scope="module")
def graph():
    task = PretrainingTask(128, PREDICTIONS)
    return traced(task.create_model(CONFIG), task)


def is_backward(operation):
    # Sums of gradients are outside the tape's name scope.
    is_derived = operation.name.startswith(("gradient_tape", "AddN"))
    scopes = operation.name.split("/")
    return is_derived or "gradients" in scopes or derivatives.SCOPE in scopes


def product_flops(operation):
    """2 m k n of a product, whatever its transpositions."""
    a, b = (set_of.shape.as_list() for set_of in operation.inputs)
    result = operation.outputs[0].shape.as_list()
    m, n = result[-2:]
    rows, columns = a[-2:]
    inner = columns if rows == m else rows
    assert inner in b[-2:]
    return 2 * inner * n * tf.TensorShape(result[:-1]).num_elements()


def graph_flops(graph):
    """(forward, backward) of all matrix products of the traced graph."""
    sums = [0, 0]
    for operation in graph.get_operations():
        if operation.type in ("MatMul", "BatchMatMulV2"):
            sums[is_backward(operation)] += product_flops(operation)
    return sums


def test_flops_are_those_of_the_traced_step(graph):
    step = step_of(train_batch_size=8)
    expected = sum(plan.step_flops(step).values())
    forward, backward = graph_flops(graph)
    assert forward + backward == pytest.approx(expected, rel=0.02)
    assert forward == pytest.approx(expected / 3, rel=0.02)


def needed_operations(graph):
    """All that the gradients depend on; the rest is never run."""
    waiting = [tensor.op for tensor in graph.outputs]
    needed = set()
    while waiting:
        operation = waiting.pop()
        if operation not in needed:
            needed.add(operation)
            waiting += [tensor.op for tensor in operation.inputs]
    return needed


def kept_bytes(graph, batch_size):
    """Size of what the backward pass takes from the forward pass.

    Views of one buffer count once; constants, weights and features do not
    count.
    """
    views = ("Reshape", "Identity", "Squeeze", "ExpandDims")
    sizes = {}
    for operation in filter(is_backward, needed_operations(graph)):
        if operation.type in ("Shape", "ShapeN", "Size", "Rank"):
            continue  # Static here: it becomes a constant.
        for tensor in operation.inputs:
            while tensor.op.type in views:
                tensor = tensor.op.inputs[0]
            elements = tensor.shape.num_elements() or 0
            outside = tensor.op.type == "Placeholder"
            # Shapes and scalars do not grow with the batch.
            if is_backward(tensor.op) or outside or elements < batch_size:
                continue
            if tensor.op.type != "Const":
                sizes[tensor.name] = elements * tensor.dtype.size
    return sum(sizes.values())


def test_activations_are_what_the_traced_step_keeps(graph):
    memory = plan.step_memory(step_of(train_batch_size=8))
    # The derivative of the logits is kept; they themselves are not.
    expected = memory.parts["activations"] + memory.parts["logits"] / 2
    assert kept_bytes(graph, 8) == pytest.approx(expected, rel=0.02)


@pytest.mark.skipif(
    not pathlib.Path("/proc/self/clear_refs").exists(),
    reason="the peak of a process can be set back on Linux only",
)
def test_memory_of_a_measured_run(tmp_path):
    CONFIG.save(tmp_path / "bert_config.json")
    script = pathlib.Path(__file__).with_name("plan_check.py")
    small, large = 8, 40
    result = subprocess.run(
        [
            sys.executable,
            str(script),
            str(tmp_path / "bert_config.json"),
            str(small),
            str(large),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-2000:]
    measured = json.loads(result.stdout)["bytes"]
    planned = [
        plan.step_memory(step_of(train_batch_size=size)).peak
        for size in (small, large)
    ]
    assert planned[1] - planned[0] == pytest.approx(measured, rel=MEASURED)


# Options ------------------------------------------------------------------


def test_options_change_what_they_should():
    plain = step_of(BASE, train_batch_size=64)
    split = step_of(
        BASE, train_batch_size=64, gradient_accumulation_steps=2, replicas=2
    )
    assert split.micro_batch_size == 16
    assert plan.step_flops(split) == plan.step_flops(plain)
    before = plan.step_memory(plain).parts
    after = plan.step_memory(split).parts
    assert after["activations"] * 4 == before["activations"]
    assert after["gradients"] == 2 * before["gradients"]
    half = plan.step_memory(step_of(BASE, dtype="bfloat16")).parts
    whole = plan.step_memory(step_of(BASE)).parts
    assert half["weights"] == whole["weights"]
    assert half["copies in low precision"] == whole["weights"] / 2
    assert half["activations"] < 0.7 * whole["activations"]


def test_recomputation_trades_memory_for_arithmetic():
    plain, again = (step_of(BASE, recompute=x) for x in (False, True))
    assert plan.step_memory(again).peak < plan.step_memory(plain).peak / 2
    ratio = sum(plan.step_flops(again).values()) / sum(
        plan.step_flops(plain).values()
    )
    assert ratio == pytest.approx(4 / 3, rel=0.02)


def test_smallest_changes_that_fit():
    step = step_of(BASE, train_batch_size=32)
    peak = plan.step_memory(step).peak
    assert plan.changes_that_fit(step, peak) == [step]
    split, again = plan.changes_that_fit(step, int(0.4 * peak))
    assert not split.recompute and again.recompute
    limit = int(0.4 * peak)
    assert plan.step_memory(split).peak <= limit
    assert plan.step_memory(again).peak <= limit
    fewer = split.gradient_accumulation_steps // 2
    assert fewer > again.gradient_accumulation_steps // 2
    larger = step_of(
        BASE, train_batch_size=32, gradient_accumulation_steps=fewer
    )
    assert plan.step_memory(larger).peak > limit
    assert plan.changes_that_fit(step, 2**20) == []


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"train_batch_size": 30, "replicas": 4}, "train_batch_size is 30"),
        ({"max_seq_length": 129}, "max_seq_length is 129"),
        ({"replicas": 0}, "replicas is 0"),
        ({"dtype": "float64"}, "dtype is 'float64'"),
        ({"task": "tagging"}, "task is 'tagging'"),
    ],
)
def test_errors_name_the_flag(values, message):
    with pytest.raises(ValueError, match=f"--{message}"):
        step_of(**values)


# Command ------------------------------------------------------------------


def test_command(tmp_path, capsys):
    path = tmp_path / "bert_config.json"
    BASE.save(path)
    arguments = [f"--bert_config_file={path}", "--max_seq_length=128"]
    main([*arguments, "--memory_gib=16"])
    output = capsys.readouterr().out
    assert "110,106,428" in output
    assert "fits into 16 GiB" in output
    main([*arguments, "--memory_gib=4"])
    output = capsys.readouterr().out
    assert "does not fit into 4 GiB" in output
    assert "--gradient_accumulation_steps=" in output
    assert "--recompute" in output
    main([*arguments, "--memory_gib=1"])
    assert "not even one example" in capsys.readouterr().out
    with pytest.raises(SystemExit, match=r"--memory_gib is -1\.0"):
        main([*arguments, "--memory_gib=-1"])
    with pytest.raises(SystemExit, match=r"absent\.json"):
        main(["--bert_config_file=absent.json"])


def test_command_takes_no_tensorflow(tmp_path):
    path = tmp_path / "bert_config.json"
    BASE.save(path)
    code = (
        "import sys\n"
        "from bert_tf.plan.__main__ import main\n"
        f"main(['--bert_config_file={path}'])\n"
        "print('tensorflow' in sys.modules)"
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=pathlib.Path(__file__).parent.parent,
        check=True,
    )
    assert result.stdout.endswith("False\n")
