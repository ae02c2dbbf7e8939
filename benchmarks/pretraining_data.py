"""Creating pre-training data, beside the script of tf-models-official.

All take turns on the same text, with the same flags: the script
`official.nlp.data.create_pretraining_data`, exact mode, and streaming mode
with one and with two workers. Printed are medians of CPU and wall time and
their ratios. The text is that of --input, or what Python ships: the docstrings
of its library and the language reference; --vocab_file, or a vocabulary that
tensorflow-text's learner makes of the text.

    python benchmarks/pretraining_data.py --rounds=3
    python benchmarks/pretraining_data.py --workers --rounds=10
    python benchmarks/pretraining_data.py --memory --megabytes 10,30,100
"""

import argparse
import ast
import collections
import glob
import multiprocessing
import os
import pathlib
import re
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCRIPT = str(ROOT / "create_pretraining_data.py")
PEER = "tf-models-official"
LOAD = "import tensorflow"
COMMANDS = {
    PEER: [sys.executable, "-m", "official.nlp.data.create_pretraining_data"],
    "exact": [sys.executable, SCRIPT, "--mode=exact"],
    "streaming, 1 worker": [
        sys.executable,
        SCRIPT,
        "--mode=streaming",
        "--num_workers=1",
    ],
    "streaming, 2 workers": [
        sys.executable,
        SCRIPT,
        "--mode=streaming",
        "--num_workers=2",
    ],
}


def docstrings() -> list[str]:
    """Docstrings of the standard library, read, not imported."""
    found = []
    library = sysconfig.get_path("stdlib")
    for path in sorted(glob.glob(f"{library}/**/*.py", recursive=True)):
        if "site-packages" in path or "/test" in path:
            continue
        try:
            tree = ast.parse(pathlib.Path(path).read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(
                node, (ast.Module, ast.ClassDef, ast.FunctionDef)
            ) and (text := ast.get_docstring(node)):
                found.append(text)
    return found


def make_text(path: str) -> None:
    """Writes what Python ships as documents of one sentence a line."""
    from pydoc_data.topics import topics

    with open(path, "w", encoding="utf-8") as stream:
        for text in [*topics.values(), *docstrings()]:
            sentences = re.split(r"(?<=[.:;?!])\s+|\n\s*\n", text)
            lines = [" ".join(sentence.split()) for sentence in sentences]
            stream.writelines(f"{line}\n" for line in lines if line)
            stream.write("\n")


def make_vocab(text_paths: list[str], path: str) -> None:
    """Learns 8,000 lower-case pieces with tensorflow-text's tool."""
    from tensorflow_text.tools.wordpiece_vocab import (
        wordpiece_tokenizer_learner_lib as learner,
    )

    from bert_tf.tokenization import BasicTokenizer

    tokenizer = BasicTokenizer(do_lower_case=True)
    words: collections.Counter[str] = collections.Counter()
    for text_path in text_paths:
        with open(text_path, encoding="utf-8") as stream:
            for line in stream:
                words.update(tokenizer.tokenize(line))
    pieces = learner.learn(
        list(words.items()),
        vocab_size=8000,
        reserved_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
    )
    pathlib.Path(path).write_text("\n".join(pieces) + "\n", encoding="utf-8")


def run(command: list[str], arguments: list[str]) -> dict[str, float]:
    """Seconds of CPU and of the clock, and MiB at the peak, of a process."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = time.perf_counter()
    process = subprocess.Popen(
        command + arguments,
        cwd=ROOT,
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
    )
    errors = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(errors.decode(errors="replace"))
    return {
        "wall": time.perf_counter() - start,
        "cpu": usage.ru_utime + usage.ru_stime,
        "mib": usage.ru_maxrss / 1024,
    }


def count_records(path: str) -> int:
    """Number of records in a file."""
    from bert_tf import records

    return sum(1 for _ in records.read_records(path))


def compare(options: argparse.Namespace, folder: str, flags: list[str]) -> None:
    """Runs all contenders by turns and prints medians and ratios."""
    commands = {
        name: command
        for name, command in COMMANDS.items()
        if name.startswith("streaming") or not options.workers
    }
    outputs = {
        name: os.path.join(folder, f"out{number}")
        for number, name in enumerate(commands)
    }
    times = collections.defaultdict(list)
    for number in range(options.rounds):
        if PEER in commands:
            # What TensorFlow takes to load is no part of the work.
            load = run([sys.executable, "-c", "import tensorflow"], [])
            times[LOAD].append(load)
        for name, command in commands.items():
            # Replacing a large file takes time, too.
            pathlib.Path(outputs[name]).unlink(missing_ok=True)
            found = run(command, [*flags, f"--output_file={outputs[name]}"])
            times[name].append(found)
            print(
                f"round {number + 1}: {name}: {found['cpu']:.2f} s CPU, "
                f"{found['wall']:.2f} s",
                flush=True,
            )
    medians = {
        name: {
            key: statistics.median(each[key] for each in found)
            for key in found[0]
        }
        for name, found in times.items()
    }
    load = medians.pop(LOAD, None)
    for name, median in medians.items():
        count = count_records(outputs[name])
        print(
            f"{name:22} {count:8,} records  "
            f"{1e3 * median['cpu'] / count:.4f} ms CPU a record  "
            f"{median['wall']:6.2f} s  {median['mib']:5.0f} MiB"
        )
    if load is not None:
        print_ratios(medians, load)
    one, two = (medians[f"streaming, {n}"] for n in ("1 worker", "2 workers"))
    print(f"1 worker / 2 workers: wall {one['wall'] / two['wall']:.2f}")


def print_ratios(medians: dict, load: dict) -> None:
    """Ratios of medians to the peer's, its start taken off as well."""
    print(f"{LOAD} alone: {load['cpu']:.2f} s CPU")
    peer = medians[PEER]
    for name in ("exact", "streaming, 1 worker"):
        ours = medians[name]
        print(
            f"{PEER} / {name}: CPU {peer['cpu'] / ours['cpu']:.2f} "
            f"(without loading TensorFlow "
            f"{(peer['cpu'] - load['cpu']) / ours['cpu']:.2f}), "
            f"wall {peer['wall'] / ours['wall']:.2f}"
        )


def memory(options: argparse.Namespace, folder: str, flags: list[str]) -> None:
    """Peak memory of streaming mode as the text grows."""
    paths = options.input
    text = b"\n".join(pathlib.Path(path).read_bytes() for path in paths)
    for megabytes in map(int, options.megabytes.split(",")):
        repeated = os.path.join(folder, "repeated.txt")
        with open(repeated, "wb") as stream:
            while stream.tell() < megabytes * 1e6:
                stream.write(text[: int(megabytes * 1e6) - stream.tell()])
                stream.write(b"\n\n")
        found = run(
            COMMANDS["streaming, 1 worker"],
            [
                *(f for f in flags if not f.startswith("--input_file")),
                "--encoding_errors=ignore",
                f"--input_file={repeated}",
                f"--output_file={folder}/out@4",
            ],
        )
        print(
            f"{megabytes:5} MB of text: peak {found['mib']:.0f} MiB, "
            f"{found['cpu']:.1f} s CPU",
            flush=True,
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--input", help="pattern of text files")
    parser.add_argument("--vocab_file")
    parser.add_argument("--dupe_factor", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument(
        "--workers", action="store_true", help="one beside two workers only"
    )
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--megabytes", default="10,30,100")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        if options.input:
            options.input = sorted(glob.glob(options.input))
        else:
            options.input = [os.path.join(folder, "text.txt")]
            make_text(options.input[0])
        if not options.vocab_file:
            options.vocab_file = os.path.join(folder, "vocab.txt")
            # In a process of its own: TensorFlow here would count as memory
            # of the processes started later.
            process = multiprocessing.get_context("spawn").Process(
                target=make_vocab, args=(options.input, options.vocab_file)
            )
            process.start()
            process.join()
        size = sum(map(os.path.getsize, options.input))
        print(f"{size / 1e6:.2f} MB of text, dupe_factor {options.dupe_factor}")
        flags = [
            f"--input_file={','.join(options.input)}",
            f"--vocab_file={os.path.abspath(options.vocab_file)}",
            f"--dupe_factor={options.dupe_factor}",
        ]
        (memory if options.memory else compare)(options, folder, flags)


if __name__ == "__main__":
    main()
