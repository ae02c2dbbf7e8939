"""What checkpoints, logging and input cost a training run.

A whole run, as `run_pretraining.py` makes it (records from disk, shuffled and
parsed, log lines, TensorBoard, checkpoints), beside the same number of bare
steps of the same `Trainer` on one batch in memory. The bare steps are taken
half before and half after the run, so that a machine that grows faster or
slower favours neither. The first call of each, which traces, is not counted.

    python benchmarks/loop_overhead.py
    python benchmarks/loop_overhead.py --steps=500 --save_checkpoints_steps=50
"""

import argparse
import json
import logging
import pathlib
import tempfile
import time

import numpy as np

from bert_tf.environment import prepare_environment

NUM_RECORDS = 4096


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--save_checkpoints_steps", type=int, default=250)
    parser.add_argument("--log_every_steps", type=int, default=100)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--predictions", type=int, default=20)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden_size", type=int, default=256)
    parser.add_argument("--vocab_size", type=int, default=30522)
    return parser.parse_args()


def write_files(args, folder: pathlib.Path) -> None:
    """A config, and records of random pieces."""
    from bert_tf.pretraining_settings import static_features
    from bert_tf.records import write_records

    config = {
        "vocab_size": args.vocab_size,
        "hidden_size": args.hidden_size,
        "num_hidden_layers": args.layers,
        "num_attention_heads": max(1, args.hidden_size // 64),
        "intermediate_size": 4 * args.hidden_size,
        "max_position_embeddings": max(512, args.length),
        "type_vocab_size": 2,
    }
    (folder / "bert_config.json").write_text(json.dumps(config))
    rng = np.random.default_rng(1)
    spec = static_features(args.length, args.predictions)

    def rows():
        for _ in range(NUM_RECORDS):
            ids = rng.integers(5, args.vocab_size, args.length)
            places = np.sort(rng.integers(1, args.length, args.predictions))
            yield {
                "input_ids": ids,
                "input_mask": np.ones(args.length, int),
                "segment_ids": np.zeros(args.length, int),
                "masked_lm_positions": places,
                "masked_lm_ids": ids[places],
                "masked_lm_weights": np.ones(args.predictions),
                "next_sentence_labels": int(rng.integers(2)),
            }

    write_records(str(folder / "train.tf_record"), spec, rows())


def whole_run(args, folder: pathlib.Path) -> float:
    """Seconds per step of a run from its second call on."""
    from bert_tf import runner, train_loop
    from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings
    from bert_tf.tasks.pretraining import PretrainingSource, PretrainingTask

    calls = []

    class TimedTrainer(train_loop.Trainer):
        """Remembers when its calls ended."""

        def train(self, num_steps):
            values = super().train(num_steps)
            calls.append((time.perf_counter(), int(num_steps)))
            return values

    original, train_loop.Trainer = train_loop.Trainer, TimedTrainer
    try:
        runner.run(
            lambda config: PretrainingTask(
                args.length,
                args.predictions,
                source=PretrainingSource([str(folder / "train.tf_record")]),
            ),
            ModelSettings(
                str(folder / "bert_config.json"), max_seq_length=args.length
            ),
            RunSettings(
                str(folder / "run"),
                do_train=True,
                train_batch_size=args.batch_size,
                num_train_steps=args.steps + 1,
                num_warmup_steps=10,
                save_checkpoints_steps=args.save_checkpoints_steps,
                log_every_steps=args.log_every_steps,
            ),
            DeviceSettings(distribution_strategy="one_device"),
        )
    finally:
        train_loop.Trainer = original
    end = time.perf_counter()
    first_end, first_steps = calls[0]
    return (end - first_end) / (args.steps + 1 - first_steps)


def bare_trainer(args, folder: pathlib.Path):
    """The same step on one batch in memory."""
    import tensorflow as tf

    from bert_tf.config import BertConfig
    from bert_tf.distribution import create_strategy
    from bert_tf.input_pipeline import distribute, train_batches
    from bert_tf.optimization import AdamWeightDecay, learning_rate_at
    from bert_tf.settings import DeviceSettings
    from bert_tf.tasks.pretraining import PretrainingTask
    from bert_tf.training import Trainer, TrainState

    strategy = create_strategy(
        DeviceSettings(distribution_strategy="one_device")
    )
    task = PretrainingTask(args.length, args.predictions)
    with strategy.scope():
        model = task.create_model(
            BertConfig.from_json_file(str(folder / "bert_config.json"))
        )
        state = TrainState.create(task, model, AdamWeightDecay())

    def batches(size, share):
        read = train_batches(
            [str(folder / "train.tf_record")],
            task.feature_spec("train"),
            size,
            NUM_RECORDS,
            seed=1,
            share=share,
        )
        return tf.data.Dataset.from_tensors(next(iter(read))).repeat()

    return Trainer(
        task,
        state,
        lambda step: learning_rate_at(step, 1e-4, 10_000, 10),
        strategy,
        distribute(strategy, args.batch_size, batches),
        run_seed=1,
    )


def main() -> None:
    """Times bare steps, the run, and bare steps again."""
    args = parse_arguments()
    prepare_environment()
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write_files(args, folder)
        trainer = bare_trainer(args, folder)
        trainer.train(2)

        def bare(steps):
            start = time.perf_counter()
            trainer.train(steps)
            return time.perf_counter() - start

        half = args.steps // 2
        before = bare(half)
        run = whole_run(args, folder)
        after = bare(half)
    steps = (before + after) / (2 * half)
    print(
        f"bare steps: {1000 * before / half:.1f} ms before, "
        f"{1000 * after / half:.1f} ms after the run"
    )
    print(
        f"a run of {args.steps} steps, checkpoint every "
        f"{args.save_checkpoints_steps}: {1000 * run:.1f} ms a step, "
        f"{100 * (run / steps - 1):+.1f}%"
    )


if __name__ == "__main__":
    main()
