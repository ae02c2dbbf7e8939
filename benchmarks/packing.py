"""Fine-tuning on packed rows beside fine-tuning on padded ones.

The same short examples, the same model, the real `Trainer`: once each example
fills a row of its own with padding, once several share a row
(`--pack_sequences`). Both take turns in one process; printed are medians of
examples per second over the rounds, and their ratio. Lengths are drawn from a
log-normal distribution with the mean asked for, the rest is random.

    python benchmarks/packing.py
    python benchmarks/packing.py --layers=2 --hidden_size=128 --rounds=9
"""

import argparse
import logging
import math
import statistics
import tempfile
import time

import numpy as np

from bert_tf.environment import prepare_environment

SPREAD = 0.45  # of the logarithm of the lengths
SHORTEST = 4
NUM_EXAMPLES = 4096


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--steps", type=int, default=4, help="in each round")
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--mean_length", type=float, default=27.0)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--hidden_size", type=int, default=512)
    parser.add_argument("--vocab_size", type=int, default=30522)
    return parser.parse_args()


def random_examples(args):
    """Features of examples of all lengths."""
    rng = np.random.default_rng(1)
    middle = math.log(args.mean_length) - SPREAD**2 / 2
    longest = args.max_seq_length
    for length in rng.lognormal(middle, SPREAD, NUM_EXAMPLES):
        length = int(np.clip(round(length), SHORTEST, longest))
        ids = np.zeros(longest, int)
        ids[:length] = rng.integers(5, args.vocab_size, length)
        yield {
            "input_ids": ids,
            "input_mask": (np.arange(longest) < length).astype(int),
            "segment_ids": np.zeros(longest, int),
            "label_ids": int(rng.integers(2)),
            "is_real_example": 1,
        }


def make_trainers(args, folder: str) -> dict:
    """For each variant its trainer and the examples of one step."""
    from bert_tf.config import BertConfig
    from bert_tf.distribution import create_strategy
    from bert_tf.input_pipeline import distribute, train_batches
    from bert_tf.optimization import AdamWeightDecay
    from bert_tf.records import write_records
    from bert_tf.settings import DeviceSettings
    from bert_tf.tasks.base import RecordFiles, Split
    from bert_tf.tasks.classification import ClassificationTask
    from bert_tf.tasks.packed import PackedTask
    from bert_tf.training import Trainer, TrainState

    class GeneratedTask(ClassificationTask):
        """Its examples come from above."""

        def prepare(self, split, output_dir):
            path = f"{output_dir}/{split.record_file}"
            count = write_records(
                path, self.feature_spec(split.mode), random_examples(args)
            )
            return RecordFiles([path], count, count)

    config = BertConfig(
        args.vocab_size,
        hidden_size=args.hidden_size,
        num_hidden_layers=args.layers,
        num_attention_heads=max(1, args.hidden_size // 64),
        intermediate_size=4 * args.hidden_size,
        max_position_embeddings=max(512, args.max_seq_length),
        type_vocab_size=2,
    )
    strategy = create_strategy(
        DeviceSettings(distribution_strategy="one_device")
    )
    single = GeneratedTask(["0", "1"], args.max_seq_length)
    trainers = {}
    for name, task in (("padded", single), ("packed", PackedTask(single))):
        records = task.prepare(Split("train", "train"), folder)
        rows = records.records_of(args.batch_size)
        with strategy.scope():
            model = task.create_model(config)
            state = TrainState.create(task, model, AdamWeightDecay())

        def batches(size, share, task=task, records=records):
            return train_batches(
                records.paths,
                task.feature_spec("train"),
                size,
                records.num_records,
                seed=1,
                share=share,
            )

        trainer = Trainer(
            task,
            state,
            lambda step: 1e-4,
            strategy,
            distribute(strategy, rows, batches),
            run_seed=1,
        )
        trainers[name] = (trainer, rows * records.examples_per_record)
    return trainers


def main() -> None:
    """Trains in turns and prints the rates."""
    args = parse_arguments()
    prepare_environment()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    with tempfile.TemporaryDirectory() as folder:
        trainers = make_trainers(args, folder)
        rates: dict[str, list[float]] = {name: [] for name in trainers}
        for trainer, _ in trainers.values():
            trainer.train(1)
        for _ in range(args.rounds):
            for name, (trainer, examples) in trainers.items():
                start = time.perf_counter()
                trainer.train(args.steps)
                seconds = time.perf_counter() - start
                rates[name].append(args.steps * examples / seconds)
    medians = {name: statistics.median(v) for name, v in rates.items()}
    for name, median in medians.items():
        print(f"{name}: {median:8.1f} examples/s")
    ratios = [
        packed / padded
        for packed, padded in zip(rates["packed"], rates["padded"], strict=True)
    ]
    print(
        f"packed is {medians['packed'] / medians['padded']:.2f} times as fast "
        f"({min(ratios):.2f} to {max(ratios):.2f} in single rounds)"
    )


if __name__ == "__main__":
    main()
