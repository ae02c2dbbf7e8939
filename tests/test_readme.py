"""Every command of the README, on tiny data and a tiny model."""

import csv
import json
import os
import pathlib
import random
import re
import shlex
import string
import subprocess
import sys

import keras
import pytest

import bert_tf

ROOT = pathlib.Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
WORDS = (
    *("the", "cat", "sat", "on", "the", "mat", "and", "a", "dog", "ran"),
    *("to", "it", "good", "bad"),
)
LABELS = ("neg", "pos")


def blocks(language):
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.S)


def commands():
    """Whole commands of all shell blocks, continued lines joined."""
    found = []
    for block in blocks("sh"):
        joined = block.replace("\\\n", " ")
        found += [line.strip() for line in joined.splitlines() if line.strip()]
    return found


RUN = [c for c in commands() if not c.startswith("pip ")]


def sentence(rng):
    return " ".join(rng.choice(WORDS) for _ in range(rng.randrange(3, 7)))


def write_lines(path, lines):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def write_table(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w", encoding="utf-8", newline="") as stream:
        csv.writer(stream).writerows(rows)


def make_model(folder):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    pieces += sorted(set(WORDS)) + list(string.ascii_lowercase[1:])
    pieces += [f"##{c}" for c in string.ascii_lowercase] + [".", "?"]
    write_lines(folder / "vocab.txt", dict.fromkeys(pieces))
    size = len(dict.fromkeys(pieces))
    config = bert_tf.BertConfig(size, 32, 2, 2, 64, type_vocab_size=2)
    config.save(folder / "bert_config.json")
    keras.utils.set_random_seed(1)
    model = bert_tf.BertForPreTraining(config)
    bert_tf.save_checkpoint(model, folder / "bert_model.ckpt")


def make_squad(path, rng):
    paragraphs = []
    for i in range(24):
        context = f"{sentence(rng)} mat {sentence(rng)}"
        impossible = i % 3 == 0
        answer = {"text": "mat", "answer_start": context.index("mat")}
        question = {
            "id": f"q{i}",
            "question": "on the mat ?",
            "answers": [] if impossible else [answer],
            "is_impossible": impossible,
        }
        paragraphs.append({"context": context, "qas": [question]})
    data = {"version": "v2.0", "data": [{"paragraphs": paragraphs}]}
    write_lines(path, [json.dumps(data)])


def make_data(folder):
    rng = random.Random(1)
    for part in ("train", "dev"):
        write_lines(
            folder / f"messages/{part}.tsv",
            [f"{rng.choice(LABELS)}\t{sentence(rng)}" for _ in range(40)],
        )
        pairs = [
            f"{rng.randrange(2)}\t{i}\t{i}\t{sentence(rng)}\t{sentence(rng)}"
            for i in range(40)
        ]
        names = "\t#1 ID\t#2 ID\t#1 String\t#2 String"
        write_lines(folder / f"MRPC/{part}.tsv", [f"Quality{names}", *pairs])
        make_squad(folder / f"squad/{part}-v2.0.json", rng)
        lines = []
        for _ in range(40):
            words = sentence(rng).split()
            lines += [f"{w} {'B-X' if w == 'cat' else 'O'}" for w in words]
            lines.append("")
        write_lines(folder / f"ner/{part}.conll", lines)
    write_lines(
        folder / "MRPC/test.tsv",
        [f"index{names}", *[f"{i}\t{p[2:]}" for i, p in enumerate(pairs)]],
    )
    header = ["", "video-id", "fold-ind", "startphrase", "sent1", "sent2"]
    header += ["gold-source", *(f"ending{i}" for i in range(4)), "label"]
    for part in ("train", "val"):
        rows = [
            [i, "v", i, sentence(rng), sentence(rng), "the", "gold"]
            + [sentence(rng) for _ in range(4)]
            + [rng.randrange(4)]
            for i in range(40)
        ]
        write_table(folder / f"swag/{part}.csv", [header, *rows])
    text = [sentence(rng) if i % 6 else "" for i in range(200)]
    write_lines(folder / "text/a.txt", text)
    write_lines(folder / "text/b.txt", text[::-1])
    write_lines(folder / "lines.txt", ["the cat ||| on the mat", "a dog"])


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    make_model(folder / "bert")
    make_data(folder / "data")
    return folder


def run(words):
    """`python ...` as a user runs it."""
    result = subprocess.run(
        [sys.executable, *words[1:]],
        capture_output=True,
        text=True,
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]


def test_the_first_block_has_two_commands():
    first = blocks("sh")[0].strip().splitlines()
    assert len(first) == 2 and all("pip install" in line for line in first)
    assert first[0].endswith("python -m bert_tf.demo")
    assert first[1].endswith("python -m pytest")


# In the order of the page: some go on with what others have made.
@pytest.mark.parametrize("number", range(len(RUN)))
def test_command(place, number, monkeypatch):
    monkeypatch.setenv("BERT", str(place / "bert"))
    monkeypatch.setenv("DATA", str(place / "data"))
    command = RUN[number].replace("/tmp/", f"{place}/")
    run(shlex.split(os.path.expandvars(command)))
    for made in re.findall(r"/tmp/([\w.]+)", RUN[number]):
        assert list(place.glob(f"{made}*")), made


def test_python_block(place, monkeypatch):
    monkeypatch.chdir(place / "bert")
    (code,) = blocks("python")
    names = {}
    exec(code, names)
    assert names["outputs"]["pooled_output"].shape == (1, 32)
    assert not names["report"].fresh


def test_links():
    for target in re.findall(r"\]\(([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


def test_every_script_is_mentioned():
    scripts = [p.name for p in ROOT.glob("*.py") if p.name != "setup.py"]
    assert [name for name in scripts if name not in README] == []
