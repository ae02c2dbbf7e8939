"""Trains and evaluates on N replicas and saves what came out.

Run by test_distribution.py as `python replica_check.py N OUTPUT.npz`: the
number of devices is fixed once TensorFlow has started.
"""

import sys

import keras
import numpy as np
import tensorflow as tf

from bert_tf import optimization
from bert_tf.checkpoint import checkpoint_names
from bert_tf.config import BertConfig
from bert_tf.distribution import create_strategy
from bert_tf.evaluation import Evaluator
from bert_tf.settings import DeviceSettings
from bert_tf.tasks.classification import ClassificationTask
from bert_tf.tasks.pretraining import PretrainingTask
from bert_tf.training import Trainer, TrainState

STEPS, BATCH, LENGTH, PREDICTIONS, VOCAB = 20, 8, 12, 3, 60


def config(dropout):
    return BertConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=LENGTH,
        type_vocab_size=2,
        hidden_dropout_prob=dropout,
        attention_probs_dropout_prob=dropout,
    )


def data(rng):
    count = STEPS * BATCH
    ids = rng.integers(5, VOCAB, (count, LENGTH))
    lengths = rng.integers(3, LENGTH + 1, count)
    weights = rng.random((count, PREDICTIONS)) > 0.4
    # One replica's half may hold no prediction at all.
    weights[:4] = False
    return {
        "input_ids": ids,
        "input_mask": np.arange(LENGTH) < lengths[:, None],
        "segment_ids": rng.integers(0, 2, (count, LENGTH)),
        "masked_lm_positions": rng.integers(0, 3, (count, PREDICTIONS)),
        "masked_lm_ids": rng.integers(5, VOCAB, (count, PREDICTIONS)),
        "masked_lm_weights": weights.astype("float32"),
        "next_sentence_labels": rng.integers(0, 2, (count, 1)),
        "label_ids": rng.integers(0, 3, count),
    }


def run(strategy, task, values, dropout):
    keras.utils.set_random_seed(5)
    with strategy.scope():
        model = task.create_model(config(dropout))
        state = TrainState.create(task, model, optimization.AdamWeightDecay())

    def schedule(step):
        return optimization.learning_rate_at(step, 1e-3, STEPS, 4)

    values = {
        k: v.astype(v.dtype if v.dtype == "float32" else "int32")
        for k, v in values.items()
    }
    dataset = tf.data.Dataset.from_tensor_slices(values)
    batches = dataset.batch(BATCH, drop_remainder=True)
    distributed = strategy.experimental_distribute_dataset(batches)
    trainer = Trainer(task, state, schedule, strategy, distributed, run_seed=9)
    history = [trainer.train(5) for _ in range(STEPS // 5)]
    evaluator = Evaluator(task, model, strategy)
    real = 43
    part = strategy.experimental_distribute_dataset(batches.take(6))
    parts = list(evaluator.batches(part, real))
    outputs = {k: np.concatenate([p[k] for p in parts]) for k in parts[0]}
    assert all(len(v) == real for v in outputs.values())
    return (
        history,
        {n: v.numpy() for n, v in checkpoint_names(model).items()},
        outputs,
    )


def main(count, path):
    strategy = create_strategy(DeviceSettings(num_cpu_devices=count))
    assert strategy.num_replicas_in_sync == count
    values = data(np.random.default_rng(3))
    tasks = {
        "pretraining": PretrainingTask(LENGTH, PREDICTIONS),
        "classification": ClassificationTask(["a", "b", "c"], LENGTH),
    }
    saved = {}
    for name, task in tasks.items():
        for dropout in (0.0, 0.1):
            if name == "classification" and not dropout:
                # The head's own dropout must be off as well.
                create = task.create_model
                task.create_model = lambda c, create=create: create(
                    c, head_dropout=0.0
                )
            history, weights, outputs = run(strategy, task, values, dropout)
            prefix = f"{name}/{dropout}"
            for key in history[0]:
                saved[f"{prefix}/history/{key}"] = [h[key] for h in history]
            for key, value in weights.items():
                saved[f"{prefix}/weights/{key}"] = value
            for key, value in outputs.items():
                saved[f"{prefix}/outputs/{key}"] = value
            task.create_model = type(task).create_model.__get__(task)
    np.savez(path, **saved)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
