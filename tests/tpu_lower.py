"""Lowers the real training step to StableHLO, for tpu_compile.py.

    python tpu_lower.py FOLDER [--config_file=bert_config.json]
      [--max_seq_length=128] [--train_batch_size=32]
      [--max_predictions_per_seq=20] [--dtype=bfloat16]

writes FOLDER/step.stablehlo, one pre-training update of one replica, and
FOLDER/arguments.json, what each argument of it is. Without --config_file it
is the published base model. Needs our TensorFlow, and no TPU.

The step is lowered by TensorFlow's XLA for the CPU, which has every kernel
that a TPU has and makes the same operations of them, but for random numbers:
it spells out the Philox generator where a TPU draws bits by one operation.
The dropout's random numbers are drawn by that operation here too, and layers
are traced one by one, as they are for a TPU.
"""

import argparse
import contextlib
import functools
import json
import pathlib
from unittest import mock

import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla

from bert_tf import modeling
from bert_tf.config import BertConfig
from bert_tf.optimization import AdamWeightDecay, learning_rate_at
from bert_tf.tasks.pretraining import PretrainingTask
from bert_tf.training import Trainer, TrainState

BASE = BertConfig(vocab_size=30522, type_vocab_size=2)
POLICIES = {"bfloat16": "mixed_bfloat16", "float32": "float32"}


def create_trainer(config, length, predictions, dtype) -> Trainer:
    """The very Trainer that run_pretraining.py uses, on one replica."""
    task = PretrainingTask(length, predictions)
    model = task.create_model(
        config, use_one_hot_embeddings=True, dtype=POLICIES[dtype]
    )
    return Trainer(
        task,
        TrainState.create(task, model, AdamWeightDecay()),
        lambda step: learning_rate_at(step, 1e-4, 1_000_000, 10_000),
        tf.distribute.get_strategy(),
        tf.data.Dataset.range(1),  # Nothing is read.
        run_seed=1,
    )


def _uniform(shape, dtype, seed):
    """Uniform values of [0, 1), their bits from one XLA operation."""
    start = tf.raw_ops.StatelessRandomGetKeyCounter(seed=seed)
    _, bits = xla.rng_bit_generator(
        tf.random.Algorithm.PHILOX,  # tpu_compile.py takes the TPU's own.
        tf.concat([start.key, start.counter[:1]], 0),
        shape,
        dtype=tf.uint32,
    )
    one = tf.constant(0x3F800000, tf.uint32)
    bits = tf.bitwise.bitwise_or(tf.bitwise.right_shift(bits, 9), one)
    return tf.cast(tf.bitcast(bits, tf.float32) - 1.0, dtype)


def _dropout(x, rate, seed):
    sampler = functools.partial(_uniform, seed=seed)
    return tf.nn.experimental.general_dropout(x, rate, sampler)


@contextlib.contextmanager
def traced_as_on_a_tpu():
    """Layers and random numbers of the dropout, in the block."""
    with (
        mock.patch.object(tf.nn.experimental, "stateless_dropout", _dropout),
        mock.patch.object(modeling, "_on_tpu", return_value=True),
    ):
        yield


def describe_arguments(trainer, features, function) -> list[dict]:
    """Name, kind, shape and dtype of each argument of the lowered step."""
    state = trainer.state
    kinds = {"parameter": state.optimizer.variables}
    kinds["slot"] = state.optimizer.slots
    kinds["step"] = {"global_step": state.global_step}
    # Slots are captured by their handles alone.
    known = {id(v.handle): ("other", "", v) for v in function.graph.variables}
    known |= {
        id(variable.handle): (kind, name, variable)
        for kind, variables in kinds.items()
        for name, variable in variables.items()
    }
    arguments = [("feature", name, features[name]) for name in sorted(features)]
    arguments += [
        known.get(id(tensor), ("other", "", tensor))
        for tensor in function.captured_inputs
    ]
    return [
        {
            "kind": kind,
            "name": name,
            "shape": list(value.shape),
            "dtype": value.dtype.name,
        }
        for kind, name, value in arguments
    ]


def lower(folder, config, length, batch, predictions, dtype) -> None:
    """Writes the two files."""
    trainer = create_trainer(config, length, predictions, dtype)
    features = {
        f.name: tf.zeros((batch, *f.shape), f.dtype.replace("int64", "int32"))
        for f in trainer.task.feature_spec("train")
    }
    step = tf.function(trainer._replica_step, jit_compile=True, autograph=False)
    with traced_as_on_a_tpu():
        function = step.get_concrete_function(features)
        module = step.experimental_get_compiler_ir(features)(
            stage="stablehlo_serialized", platform_name="CPU"
        )
    arguments = describe_arguments(trainer, features, function)
    trained = sum(a["kind"] == "parameter" for a in arguments)
    slots = sum(a["kind"] == "slot" for a in arguments)
    assert slots == 2 * trained == 2 * len(trainer.state.optimizer.variables)
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "step.stablehlo").write_bytes(module)
    (folder / "arguments.json").write_text(json.dumps(arguments, indent=1))
    print(f"{len(module)} bytes, {len(arguments)} arguments in {folder}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--config_file", help="default: the base model")
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--train_batch_size", type=int, default=32)
    parser.add_argument("--max_predictions_per_seq", type=int, default=20)
    parser.add_argument("--dtype", choices=POLICIES, default="bfloat16")
    flags = parser.parse_args()
    config = BASE
    if flags.config_file:
        config = BertConfig.from_json_file(flags.config_file)
    lower(
        flags.folder,
        config,
        flags.max_seq_length,
        flags.train_batch_size,
        flags.max_predictions_per_seq,
        flags.dtype,
    )


if __name__ == "__main__":
    main()
