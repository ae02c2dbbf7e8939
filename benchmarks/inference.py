"""Texts through a loaded model: this package beside others, and itself padded.

Each variant is a process of its own; all are loaded, then they take turns.
Figures are medians over the rounds and their ratios.

  variable: short texts of all lengths. `sorted` is `bert_tf.inference`;
    `padded` pads every batch of 32 to 128 pieces, on the same model with the
    same tokenizer. The vectors of both must be equal to 1e-5.
  batch: 8 rows of 128 pieces.
  single: one text of 64 pieces.

In the last two `bert_tf` is compared with tf-models-official and with
transformers on PyTorch, each as it comes, where they are installed
(transformers may be in an environment of its own, whose Python the variable
BERT_TF_TRANSFORMERS_PYTHON names). Weights
are random.

    python benchmarks/inference.py
    python benchmarks/inference.py --cases=variable --size=base \\
        --texts=comments.txt --vocab_file=vocab.txt
"""

import argparse
import ast
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import numpy as np

SIZES = {
    "base": {},
    "small": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "intermediate_size": 1536,
    },
}
SHAPES = {"batch": (8, 128), "single": (1, 64)}
VARIANTS = {
    "variable": ("sorted", "padded"),
    "batch": ("bert_tf", "tf-models-official", "transformers"),
    "single": ("bert_tf", "tf-models-official", "transformers"),
}
PADDED_LENGTH = 128
TRANSFORMERS_PYTHON = "BERT_TF_TRANSFORMERS_PYTHON"
PADDED_ROWS = 32
CALLS_BEFORE_TIMING = 50
TOLERANCE = 1e-5


# Data -------------------------------------------------------------------


def docstring_sentences() -> Iterator[str]:
    """First lines of docstrings of Python's standard library."""
    root = pathlib.Path(os.__file__).parent
    for path in sorted(root.glob("*.py")):
        for node in ast.walk(ast.parse(path.read_bytes())):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef):
                lines = (ast.get_docstring(node) or "").splitlines()
                if lines and lines[0].strip():
                    yield lines[0].strip()


def read_texts(path: pathlib.Path) -> list[str]:
    """Lines of a text file, or the first column of a .csv with a header."""
    with path.open(encoding="utf-8", newline="") as stream:
        if path.suffix == ".csv":
            return [row[0] for row in csv.reader(stream)][1:]
        return [line.strip() for line in stream if line.strip()]


def make_folder(folder: str, texts: list[str], args) -> None:
    """Writes a model with random weights and the texts to run on."""
    from bert_tf.config import BertConfig
    from bert_tf.tokenization import load_vocab

    vocab_file = pathlib.Path(folder, "vocab.txt")
    if args.vocab_file:
        vocab_file.write_bytes(pathlib.Path(args.vocab_file).read_bytes())
    else:
        characters = sorted({char for text in texts for char in text.lower()})
        words = sorted({word for text in texts for word in text.split()})
        pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words]
        pieces += [*characters, *("##" + char for char in characters)]
        vocab_file.write_text(
            "".join(f"{piece}\n" for piece in dict.fromkeys(pieces)),
            encoding="utf-8",
        )
    config = BertConfig(
        load_vocab(vocab_file).line_count, type_vocab_size=2, **SIZES[args.size]
    )
    config.save(pathlib.Path(folder, "bert_config.json"))
    pathlib.Path(folder, "texts.json").write_text(json.dumps(texts))
    code = (
        "import bert_tf, sys; folder = sys.argv[1]; "
        "config = bert_tf.BertConfig.from_json_file("
        "folder + '/bert_config.json'); "
        "bert_tf.save_checkpoint(bert_tf.BertModel(config), "
        "folder + '/bert_model.ckpt')"
    )
    subprocess.run([sys.executable, "-c", code, folder], check=True)


# Variants: (folder, case) -> a function that does one round's work --------


def sorted_texts(folder: str, case: str) -> Callable:
    """What a user of the package calls."""
    from bert_tf.inference import Embedder

    embedder = Embedder(folder, do_lower_case=True, pooling="mean")
    texts = json.loads(pathlib.Path(folder, "texts.json").read_text())
    return lambda: embedder(texts)


def padded_texts(folder: str, case: str) -> Callable:
    """The same model, every batch padded to one length."""
    from bert_tf.inference import Embedder
    from bert_tf.pooling import pool

    embedder = Embedder(folder, do_lower_case=True)
    texts = json.loads(pathlib.Path(folder, "texts.json").read_text())

    import tensorflow as tf

    @tf.function
    def compute(features):
        outputs = embedder.model(features, training=False)
        return pool(outputs, features["input_mask"], [-1], "mean")

    def run():
        vectors = []
        for first in range(0, len(texts), PADDED_ROWS):
            rows = [
                embedder.tokenizer.encode(text, max_seq_length=PADDED_LENGTH)
                for text in texts[first : first + PADDED_ROWS]
            ]
            rows += rows[:1] * (PADDED_ROWS - len(rows))
            features = {
                name: tf.constant([row[name] for row in rows], tf.int32)
                for name in rows[0]
            }
            vectors.append(compute(features).numpy())
        return np.concatenate(vectors)[: len(texts)]

    return run


def random_rows(folder: str, case: str) -> dict[str, np.ndarray]:
    """Full rows of random ids."""
    config = json.loads(pathlib.Path(folder, "bert_config.json").read_text())
    ids = np.random.default_rng(1).integers(
        5, config["vocab_size"], SHAPES[case], dtype=np.int32
    )
    return {
        "input_ids": ids,
        "input_mask": np.ones_like(ids),
        "segment_ids": np.zeros_like(ids),
    }


def bert_tf_model(folder: str, case: str) -> Callable:
    """This package's runner, as all of `bert_tf.inference` uses it."""
    from bert_tf.environment import prepare_environment

    prepare_environment()

    import bert_tf
    from bert_tf.batch_runner import BatchRunner

    config = bert_tf.BertConfig.from_json_file(f"{folder}/bert_config.json")
    model = bert_tf.BertModel(config)

    def select(outputs, features):
        names = ("sequence_output", "pooled_output")
        return {name: outputs[name] for name in names}

    length = SHAPES[case][1]
    runner = BatchRunner(model, select, length)
    arrays = random_rows(folder, case)
    rows = [
        {
            name: array[i].tolist()
            for name, array in arrays.items()
            if name != "input_mask"
        }
        for i in range(SHAPES[case][0])
    ]
    return lambda: runner.run(rows, length)["sequence_output"]


def model_garden(folder: str, case: str) -> Callable:
    """tf-models-official's encoder with its defaults."""
    import tensorflow as tf
    from official.nlp.modeling.networks import BertEncoderV2

    config = json.loads(pathlib.Path(folder, "bert_config.json").read_text())
    encoder = BertEncoderV2(
        vocab_size=config["vocab_size"],
        hidden_size=config["hidden_size"],
        num_layers=config["num_hidden_layers"],
        num_attention_heads=config["num_attention_heads"],
        inner_dim=config["intermediate_size"],
    )
    arrays = random_rows(folder, case)
    features = {
        "input_word_ids": arrays["input_ids"],
        "input_mask": arrays["input_mask"],
        "input_type_ids": arrays["segment_ids"],
    }

    @tf.function
    def compute(features):
        outputs = encoder(features, training=False)
        return outputs["sequence_output"], outputs["pooled_output"]

    def run():
        tensors = {k: tf.constant(v) for k, v in features.items()}
        sequence_output, pooled_output = compute(tensors)
        pooled_output.numpy()
        return sequence_output.numpy()

    return run


def transformers_model(folder: str, case: str) -> Callable:
    """transformers' `BertModel` on PyTorch with its defaults."""
    import torch
    from transformers import BertConfig, BertModel

    config = json.loads(pathlib.Path(folder, "bert_config.json").read_text())
    model = BertModel(BertConfig.from_dict(config)).eval()
    arrays = random_rows(folder, case)

    def run():
        with torch.inference_mode():
            outputs = model(
                input_ids=torch.from_numpy(arrays["input_ids"]).long(),
                attention_mask=torch.from_numpy(arrays["input_mask"]).long(),
                token_type_ids=torch.from_numpy(arrays["segment_ids"]).long(),
            )
        return outputs.last_hidden_state.numpy()

    return run


MAKERS = {
    "sorted": sorted_texts,
    "padded": padded_texts,
    "bert_tf": bert_tf_model,
    "tf-models-official": model_garden,
    "transformers": transformers_model,
}


def work(variant: str, case: str, folder: str) -> None:
    """The worker: loads, warms up, then runs once for each line of input."""
    try:
        function = MAKERS[variant](folder, case)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    start = time.perf_counter()
    outputs = function()
    first = time.perf_counter() - start
    repeats = 1
    if case != "variable":
        # A round lasts some seconds, and is not before the choice between
        # programs for shapes that come again.
        warm_up = CALLS_BEFORE_TIMING if case == "single" else 2
        for _ in range(warm_up):
            function()
        start = time.perf_counter()
        function()
        repeats = max(1, round(2.0 / (time.perf_counter() - start)))
    np.save(os.path.join(folder, f"{case}_{variant}.npy"), outputs)
    print(json.dumps({"first": first}), flush=True)
    for _ in sys.stdin:
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(repeats):
            function()
        wall = time.perf_counter() - wall
        cpu = time.process_time() - cpu
        figures = {"wall": wall / repeats, "cpu": cpu / repeats}
        print(json.dumps(figures), flush=True)


# Driver -----------------------------------------------------------------


class Worker:
    """One variant in its own process."""

    def __init__(self, variant: str, case: str, folder: str, log):
        python = sys.executable
        if variant == "transformers":
            python = os.environ.get(TRANSFORMERS_PYTHON, python)
        command = [python, __file__, "--worker", variant, case, folder]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
        )
        self.variant = variant
        self.rounds: list[dict] = []
        self.loaded = self._answer()

    def _answer(self) -> dict:
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"{self.variant} has died; see the log")

    def run(self) -> None:
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        self.rounds.append(self._answer())

    def median(self, key: str = "wall") -> float:
        return statistics.median(x[key] for x in self.rounds)

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def other_load() -> float:
    """Processes that run or want to, as the system counts them."""
    return os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")


def compare(case: str, folder: str, num_texts: int, rounds: int, log) -> None:
    """Loads the variants of a case, lets them take turns, prints ratios."""
    workers = []
    for variant in VARIANTS[case]:
        worker = Worker(variant, case, folder, log)
        if "missing" in worker.loaded:
            print(f"  {variant}: not installed, left out")
            worker.close()
        else:
            workers.append(worker)
    for _ in range(rounds):
        for worker in workers:
            worker.run()
    for worker in workers:
        worker.close()
    if case == "variable":
        items, unit = num_texts, "texts/s"
    else:
        rows, length = SHAPES[case]
        items, unit = rows * length, "pieces/s"
    print(f"{case}: {rounds} rounds, load average {other_load():.1f}")
    own = workers[0].median()
    for worker in workers:
        wall = worker.median()
        print(
            f"  {worker.variant:20} {items / wall:9.1f} {unit}, "
            f"{worker.median('cpu'):7.3f} CPU s a round, first call "
            f"{worker.loaded['first']:.1f} s; {workers[0].variant} is "
            f"{wall / own:.2f} times as fast"
        )
    if case == "variable":
        arrays = [
            np.load(os.path.join(folder, f"{case}_{worker.variant}.npy"))
            for worker in workers
        ]
        difference = float(np.abs(arrays[0] - arrays[1]).max())
        print(f"  largest difference of the vectors: {difference:.1e}")
        if difference > TOLERANCE:
            raise SystemExit(f"the vectors differ by more than {TOLERANCE}")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--cases", nargs="+", default=list(VARIANTS))
    parser.add_argument("--size", choices=SIZES, default="base")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--texts", nargs="*", type=pathlib.Path, help="UTF-8: lines, or .csv"
    )
    parser.add_argument("--num_texts", type=int, default=256)
    parser.add_argument("--vocab_file", help="default: made of the texts")
    parser.add_argument("--worker", nargs=3, help="used by the script itself")
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if args.worker:
        work(*args.worker)
        return
    if args.texts:
        texts = [text for path in args.texts for text in read_texts(path)]
    else:
        texts = list(docstring_sentences())
    # Spread over the whole, so that the lengths are those of the whole.
    texts = texts[:: max(1, len(texts) // args.num_texts)][: args.num_texts]
    with (
        tempfile.TemporaryDirectory() as folder,
        open(os.path.join(folder, "log"), "w+") as log,
    ):
        make_folder(folder, texts, args)
        for case in args.cases:
            compare(case, folder, len(texts), args.rounds, log)


if __name__ == "__main__":
    main()
