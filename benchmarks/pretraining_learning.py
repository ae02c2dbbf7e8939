"""Does pre-training learn more than how often each piece occurs?

A small model is pre-trained on plain text, one document in twenty held out.
Its masked-LM loss is printed beside ln(V), where it starts, and beside the
entropy of the text's own pieces, which is the loss of the best guess that
does not look at the context. Then it is fine-tuned on a task in the layout of
SST-2, from the pre-trained and from random weights, with several seeds, and
the margin is printed. A folder that is given again goes on where it was.

    python benchmarks/pretraining_learning.py --text 'corpus/*.txt' \
        --vocab_file uncased_L-12_H-768_A-12/vocab.txt \
        --data_dir glue/SST-2 --work_dir /tmp/learning
    python benchmarks/pretraining_learning.py --text 'corpus/*.txt' \
        --data_dir glue/SST-2 --work_dir /tmp/learning_more \
        --position_init sinusoidal --initializer_range 0.088 --dropout 0 \
        --adam_bias_correction --learning_rate 1.5e-3 --max_seq_length 64 \
        --masked_lm_prob 0.3 --dupe_factor 5 --no_next_sentence \
        --task_length 128 --task_pack_sequences --task_reinit_top_layers 2 \
        --task_learning_rates 3e-4
"""

import argparse
import collections
import itertools
import json
import logging
import math
import pathlib
import statistics

from bert_tf import environment, files
from bert_tf.pretraining_data import create_pretraining_data
from bert_tf.pretraining_settings import PretrainingDataSettings
from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.learning import learn_vocabulary, save_vocabulary

HELD_OUT_EVERY = 20
EVAL_BATCH_SIZE = 32


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--text", required=True, help="pattern of text files")
    parser.add_argument(
        "--vocab_file", help="without it pieces are learned from the text"
    )
    parser.add_argument("--learned_pieces", type=int, default=4000)
    parser.add_argument("--cased", action="store_true")
    parser.add_argument("--data_dir", help="SST-2 layout; without it no task")
    parser.add_argument("--work_dir", required=True, type=pathlib.Path)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden_size", type=int, default=128)
    parser.add_argument("--optimizer", default="adam")
    parser.add_argument("--masked_lm_prob", type=float, default=0.15)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--no_next_sentence", action="store_true")
    parser.add_argument("--initializer_range", type=float, default=0.02)
    parser.add_argument("--position_init", default="random")
    parser.add_argument("--adam_bias_correction", action="store_true")
    parser.add_argument("--max_seq_length", type=int, default=128)
    parser.add_argument("--num_train_steps", type=int, default=3000)
    parser.add_argument("--num_warmup_steps", type=int, default=300)
    parser.add_argument("--batch_size", type=int, default=32)
    parser.add_argument("--learning_rate", type=float, default=1e-3)
    parser.add_argument("--dupe_factor", type=int, default=2)
    parser.add_argument(
        "--task_learning_rates", type=float, nargs="+", default=[1e-4, 3e-4]
    )
    parser.add_argument("--task_length", type=int, default=64)
    parser.add_argument("--task_pack_sequences", action="store_true")
    parser.add_argument("--task_dropout", type=float, default=0.1)
    parser.add_argument(
        "--task_reinit_top_layers",
        type=int,
        default=0,
        help="encoder layers that fine-tuning starts from random values",
    )
    parser.add_argument("--task_epochs", type=float, default=3.0)
    parser.add_argument("--task_seeds", type=int, nargs="+", default=[1, 2, 3])
    return parser.parse_args()


def split_text(pattern: str, folder: pathlib.Path) -> dict[str, str]:
    """Writes training and held-out documents; returns their paths."""
    documents = []
    for path in files.expand_patterns(pattern, "text"):
        text = files.read_bytes(path).decode("utf-8").strip()
        documents += [d.strip() for d in text.split("\n\n") if d.strip()]
    parts = {"train": [], "eval": []}
    for i, document in enumerate(documents):
        is_held_out = i % HELD_OUT_EVERY == HELD_OUT_EVERY - 1
        parts["eval" if is_held_out else "train"].append(document)
    paths = {}
    for name, chosen in parts.items():
        paths[name] = str(folder / f"{name}.txt")
        with files.atomic_write(paths[name]) as stream:
            stream.write("\n\n".join(chosen) + "\n")
    return paths


def learn_vocab(args) -> str:
    """Learns pieces from all the text, in minutes; returns their file."""
    path = str(args.work_dir / "vocab.txt")
    if not files.exists(path):
        lines = itertools.chain.from_iterable(
            files.read_bytes(name).decode("utf-8").splitlines()
            for name in files.expand_patterns(args.text, "text")
        )
        pieces = learn_vocabulary(lines, args.learned_pieces, not args.cased)
        save_vocabulary(pieces, path)
    return path


def unigram_entropy(tokenizer: FullTokenizer, path: str) -> float:
    """Entropy in nats of the distribution of a text's pieces."""
    counts: collections.Counter[int] = collections.Counter()
    with files.open_file(path) as stream:
        for line in stream:
            counts.update(tokenizer.tokenize_to_ids(line))
    total = sum(counts.values())
    return -sum(n / total * math.log(n / total) for n in counts.values())


def make_records(args, texts: dict[str, str]) -> dict[str, str]:
    """Record files of both parts; returns their paths."""
    paths = {}
    for name, text in texts.items():
        paths[name] = str(args.work_dir / f"{name}.tf_record")
        if files.exists(paths[name]):
            continue
        create_pretraining_data(
            PretrainingDataSettings(
                input_file=text,
                output_file=paths[name],
                vocab_file=args.vocab_file,
                do_lower_case=not args.cased,
                max_seq_length=args.max_seq_length,
                max_predictions_per_seq=predictions(args),
                masked_lm_prob=args.masked_lm_prob,
                dupe_factor=args.dupe_factor if name == "train" else 1,
            )
        )
    return paths


def predictions(args) -> int:
    """Places for masked tokens in a record."""
    return math.ceil(args.max_seq_length * args.masked_lm_prob)


def write_config(args, vocab_size: int, name: str, dropout: float) -> str:
    """Writes a config of the model; returns its path."""
    path = str(args.work_dir / name)
    config = {
        "vocab_size": vocab_size,
        "hidden_size": args.hidden_size,
        "num_hidden_layers": args.layers,
        "num_attention_heads": max(1, args.hidden_size // 64),
        "intermediate_size": 4 * args.hidden_size,
        "hidden_act": "gelu",
        "hidden_dropout_prob": dropout,
        "attention_probs_dropout_prob": dropout,
        "max_position_embeddings": max(128, args.max_seq_length),
        "type_vocab_size": 2,
        "initializer_range": args.initializer_range,
    }
    with files.atomic_write(path) as stream:
        json.dump(config, stream, indent=2)
    return path


def pretrain(args, config_file: str, records: dict[str, str]) -> dict:
    """Trains; returns the scores at step 0 and at the end of both parts."""
    from bert_tf import runner
    from bert_tf.tasks.pretraining import PretrainingSource, PretrainingTask

    def run(eval_part, folder, init_checkpoint=None, do_train=False):
        task = PretrainingTask(
            args.max_seq_length,
            predictions(args),
            use_next_sentence=not args.no_next_sentence,
            source=PretrainingSource(
                [records["train"]],
                [records[eval_part]],
                max_eval_records=100 * EVAL_BATCH_SIZE,
            ),
            position_init=args.position_init,
        )
        return runner.run(
            lambda config: task,
            ModelSettings(
                config_file,
                args.vocab_file,
                init_checkpoint,
                not args.cased,
                args.max_seq_length,
            ),
            RunSettings(
                str(args.work_dir / folder),
                do_train=do_train,
                do_eval=True,
                train_batch_size=args.batch_size,
                eval_batch_size=EVAL_BATCH_SIZE,
                learning_rate=args.learning_rate,
                optimizer=args.optimizer,
                adam_bias_correction=args.adam_bias_correction,
                num_train_steps=args.num_train_steps,
                num_warmup_steps=args.num_warmup_steps,
                save_checkpoints_steps=500,
                keep_checkpoint_max=0,
            ),
            DeviceSettings(),
        )["eval"]

    held_out = run("eval", "pretraining", do_train=True)
    start = str(args.work_dir / "pretraining/model.ckpt-0")
    return {
        "held out": held_out,
        "trained on": run("train", "pretraining"),
        "at step 0": run("eval", "step_0", start),
    }


def fine_tune(
    args, config_file: str, rate: float, seed: int, start: str | None
) -> float:
    """Accuracy on the dev set of one fine-tuning run."""
    from bert_tf import runner
    from bert_tf.tasks.classification import (
        ClassificationSource,
        ClassificationTask,
    )
    from bert_tf.tasks.known_data_sets import find_data_set

    kind = "pretrained" if start else "scratch"
    tokenizer = FullTokenizer(args.vocab_file, not args.cased)
    source = ClassificationSource(
        find_data_set("sst-2"), tokenizer, args.data_dir
    )
    task = ClassificationTask(
        ["0", "1"], args.task_length, "classification", source
    )
    (scores,) = runner.run(
        lambda config: task,
        ModelSettings(
            config_file,
            args.vocab_file,
            start,
            not args.cased,
            args.task_length,
        ),
        RunSettings(
            str(args.work_dir / f"task_{kind}_{rate:g}_{seed}"),
            do_train=True,
            do_eval=True,
            eval_batch_size=EVAL_BATCH_SIZE,
            learning_rate=rate,
            num_train_epochs=args.task_epochs,
            random_seed=seed,
            keep_checkpoint_max=1,
            pack_sequences=args.task_pack_sequences,
            reinit_top_layers=args.task_reinit_top_layers if start else 0,
        ),
        DeviceSettings(),
    ).values()
    return float(scores["eval_accuracy"])


def compare_fine_tuning(args, config_file: str) -> None:
    """Prints accuracies from both starts at each rate, and the margins."""
    starts = {
        "pre-trained": str(args.work_dir / "pretraining"),
        "from scratch": None,
    }
    means: dict[str, list[float]] = {name: [] for name in starts}
    for rate in args.task_learning_rates:
        found: dict[str, list[float]] = {name: [] for name in starts}
        for seed in args.task_seeds:
            for name, start in starts.items():
                accuracy = fine_tune(args, config_file, rate, seed, start)
                found[name].append(accuracy)
        for name, values in found.items():
            means[name].append(statistics.mean(values))
            listed = ", ".join(f"{value:.4f}" for value in values)
            print(
                f"rate {rate:g}, {name:12}: mean {means[name][-1]:.4f} "
                f"of {listed}"
            )
        pairs = zip(*found.values(), strict=True)
        margins = [one - other for one, other in pairs]
        print(
            f"rate {rate:g}: pre-training gains {statistics.mean(margins):+.4f}"
            f" in the mean, {min(margins):+.4f} at least"
        )
    best = {name: max(values) for name, values in means.items()}
    gain = best["pre-trained"] - best["from scratch"]
    print(f"each at its best rate: pre-training gains {gain:+.4f}")


def main() -> None:
    """Runs all of it."""
    args = parse_arguments()
    environment.prepare_environment()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    args.work_dir.mkdir(parents=True, exist_ok=True)
    texts = split_text(args.text, args.work_dir)
    args.vocab_file = args.vocab_file or learn_vocab(args)
    tokenizer = FullTokenizer(args.vocab_file, not args.cased)
    entropies = {n: unigram_entropy(tokenizer, p) for n, p in texts.items()}
    records = make_records(args, texts)
    config_file, task_config_file = (
        write_config(args, tokenizer.vocab_size, name, dropout)
        for name, dropout in (
            ("bert_config.json", args.dropout),
            ("task_config.json", args.task_dropout),
        )
    )
    scores = pretrain(args, config_file, records)
    print(
        f"ln(V)                            {math.log(tokenizer.vocab_size):.3f}"
    )
    print(f"entropy of the training pieces   {entropies['train']:.3f}")
    print(f"entropy of the held-out pieces   {entropies['eval']:.3f}")
    for name, found in scores.items():
        print(
            f"{name:12} step {found['global_step']:5d}: masked-LM loss "
            f"{found['masked_lm_loss']:.3f}, accuracy "
            f"{found['masked_lm_accuracy']:.3f}"
            + (
                ""
                if args.no_next_sentence
                else "; next-sentence accuracy "
                f"{found['next_sentence_accuracy']:.3f}"
            )
        )
    if args.data_dir:
        compare_fine_tuning(args, task_config_file)


if __name__ == "__main__":
    main()
