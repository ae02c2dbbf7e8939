"""Traces the train loop of every task under a stand-in TPUStrategy.

Run by test_tpu_ready.py as `python tpu_check.py OUTPUT.json`, since logical
devices are fixed once TensorFlow has started.
"""

import json
import sys

import fake_tpu
import tensorflow as tf
import tpu_tasks

from bert_tf import optimization
from bert_tf.training import Trainer, TrainState

CORES = 2


def trace(strategy, task, features):
    """The traced loop of the very Trainer that the runners use."""
    with strategy.scope():
        model = task.create_model(tpu_tasks.CONFIG, use_one_hot_embeddings=True)
        state = TrainState.create(task, model, optimization.AdamWeightDecay())
    batches = tf.data.Dataset.from_tensors(features).repeat()
    dataset = strategy.experimental_distribute_dataset(batches)

    def schedule(step):
        return optimization.learning_rate_at(step, 1e-4, 100, 10)

    trainer = Trainer(task, state, schedule, strategy, dataset, run_seed=1)
    loop = trainer.create_train_loop_fn()
    return loop.get_concrete_function(iter(dataset), tf.constant(5))


def main(path):
    strategy = fake_tpu.fake_tpu_strategy(CORES)
    legal = fake_tpu.legal_ops()
    report = {}
    for name, (task, features) in tpu_tasks.all_tasks(2 * CORES).items():
        function = trace(strategy, task, features)
        ops, outside = fake_tpu.compiled_ops(function)
        module = tf.mlir.experimental.convert_function(function)
        try:
            tf.mlir.experimental.run_pass_pipeline(
                module, "tf-replicated-clustering-bridge-v2"
            )
            bridge = "passes"
        except tf.errors.OpError as error:
            bridge = str(error)[:500]
        report[name] = {
            "illegal": sorted(set(ops) - legal),
            "outside": outside,
            "all_reduces": ops["CrossReplicaSum"],
            "updates": ops["ResourceApplyAdam"],
            "compiled": sum(ops.values()),
            "bridge": bridge,
        }
    with open(path, "w", encoding="utf-8") as stream:
        json.dump(report, stream)


if __name__ == "__main__":
    main(sys.argv[1])
