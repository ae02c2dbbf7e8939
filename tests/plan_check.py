"""Measures the memory that grows with the batch, in a process of its own.

    python plan_check.py CONFIG_JSON SMALL LARGE [recompute] [DTYPE]

prints one JSON line: bytes by which the peak of a real training step with
LARGE examples is above that with SMALL ones. Linux only.
"""

import json
import os
import re
import sys

# Every larger tensor is a mapping of its own, given back when it is freed.
if "MALLOC_MMAP_THRESHOLD_" not in os.environ:
    os.environ["MALLOC_MMAP_THRESHOLD_"] = "65536"
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    os.execv(sys.executable, [sys.executable, *sys.argv])

import numpy as np
import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.optimization import AdamWeightDecay
from bert_tf.tasks.pretraining import PretrainingTask
from bert_tf.training import Trainer, TrainState

LENGTH, PREDICTIONS = 128, 4


def batches(config: BertConfig, size: int) -> tf.data.Dataset:
    """One batch of random examples, for ever."""
    rng = np.random.default_rng(1)
    ids = rng.integers(5, config.vocab_size, (size, LENGTH))
    positions = rng.integers(0, LENGTH, (size, PREDICTIONS))
    features = {
        "input_ids": ids.astype(np.int32),
        "input_mask": np.ones_like(ids, np.int32),
        "segment_ids": np.zeros_like(ids, np.int32),
        "masked_lm_positions": positions.astype(np.int32),
        "masked_lm_ids": ids[:, :PREDICTIONS].astype(np.int32),
        "masked_lm_weights": np.ones((size, PREDICTIONS), np.float32),
        "next_sentence_labels": np.ones((size, 1), np.int32),
    }
    return tf.data.Dataset.from_tensors(features).repeat()


def peak_of(run) -> int:
    """Largest resident memory during a call, in bytes."""
    with open("/proc/self/clear_refs", "w") as stream:
        stream.write("5")
    run()
    with open("/proc/self/status") as stream:
        return 1024 * int(re.search(r"VmHWM:\s+(\d+)", stream.read())[1])


def main() -> None:
    config = BertConfig.from_json_file(sys.argv[1])
    small, large = map(int, sys.argv[2:4])
    dtypes = {"bfloat16": "mixed_bfloat16", "float16": "mixed_float16"}
    dtype = next((dtypes[x] for x in sys.argv[4:] if x in dtypes), "float32")
    task = PretrainingTask(LENGTH, PREDICTIONS)
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = task.create_model(
            config, dtype=dtype, recompute="recompute" in sys.argv[4:]
        )
        state = TrainState.create(task, model, AdamWeightDecay())
    peaks = []
    for size in (small, large):
        trainer = Trainer(
            task,
            state,
            lambda step: tf.constant(1e-4),
            strategy,
            strategy.experimental_distribute_dataset(batches(config, size)),
            run_seed=1,
        )
        trainer.train(1)
        peaks.append(peak_of(lambda trainer=trainer: trainer.train(2)))
    print(json.dumps({"bytes": peaks[1] - peaks[0]}))


if __name__ == "__main__":
    main()
