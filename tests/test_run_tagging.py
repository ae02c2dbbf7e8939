"""run_tagging.py end to end on a tiny model."""

import json
import random
import shutil
import subprocess
import sys

import pytest
from absl import flags
from absl.testing import flagsaver

import run_tagging
from bert_tf.checkpoint import latest_checkpoint, read_variables
from bert_tf.config import BertConfig
from bert_tf.tasks.tagging_data import ColumnLayout, read_sentences
from bert_tf.tasks.tagging_entities import score_entities

FLAGS = flags.FLAGS
NEUTRAL = ["the", "a", "saw", "left", "in", "near", "."]
ENTITIES = {
    "anna": ["B-PER"],
    "bob smith": ["B-PER", "I-PER"],
    "rome": ["B-LOC"],
    "new york": ["B-LOC", "I-LOC"],
}
LABELS = ["B-LOC", "B-PER", "I-LOC", "I-PER", "O"]
ZERO_WIDTH = "\u200b"


def sentence(rng, parts):
    lines = []
    for _ in range(parts):
        if rng.random() < 0.6:
            lines.append(f"{rng.choice(NEUTRAL)} X O")
        else:
            entity = rng.choice(list(ENTITIES))
            pairs = zip(entity.split(), ENTITIES[entity], strict=True)
            lines += [f"{word} X {label}" for word, label in pairs]
            # Two entities of a type never stand side by side.
            lines.append("the X O")
    return lines


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Sentences whose labels their words tell, three columns; some are far
    longer than a window, and one word gives no piece."""
    folder = tmp_path_factory.mktemp("data")
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = sorted({w for entity in ENTITIES for w in entity.split()})
    vocab = [*specials, *NEUTRAL, *words]
    (folder / "vocab.txt").write_text("\n".join([*vocab, ""]))
    BertConfig(
        vocab_size=len(vocab),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=32,
        type_vocab_size=2,
        initializer_range=0.1,
    ).save(folder / "bert_config.json")
    rng = random.Random(1)
    for name, count in (("train", 90), ("dev", 20)):
        lines = ["-DOCSTART- -X- O", ""]
        for i in range(count):
            lines += [*sentence(rng, 25 if i == 2 else 5), ""]
        lines.insert(4, f"{ZERO_WIDTH} X O")
        (folder / f"{name}.txt").write_text("\n".join(lines), encoding="utf-8")
    return folder


def command_line(files, output_dir, *arguments, model=True):
    given = [
        "run_tagging.py",
        f"--data_dir={files}",
        "--train_file=train.txt",
        "--eval_file=dev.txt",
        "--predict_file=dev.txt",
        f"--output_dir={output_dir}",
        "--train_batch_size=8",
        "--learning_rate=0.003",
        "--num_train_epochs=5",
    ]
    if model:
        given += [
            f"--vocab_file={files}/vocab.txt",
            f"--bert_config_file={files}/bert_config.json",
            "--max_seq_length=12",
        ]
    return [*given, *arguments]


def run(files, output_dir, *arguments, model=True):
    """The script's own main, in this process."""
    with flagsaver.flagsaver():
        FLAGS.unparse_flags()
        for flag in FLAGS.flags_by_module_dict().get("run_tagging", []):
            flag.unparse()
        line = command_line(files, output_dir, *arguments, model=model)
        run_tagging.main(FLAGS(line))


@pytest.fixture(scope="module")
def trained(files, tmp_path_factory):
    folder = tmp_path_factory.mktemp("run")
    run(files, folder, "--do_train", "--do_eval", "--do_predict")
    return folder


def results(folder):
    lines = (folder / "eval_results.txt").read_text().splitlines()
    return dict(line.split(" = ") for line in lines)


def test_packed_sentences_give_the_same_labels(files, tmp_path):
    packed = ("--pack_sequences", "--max_seq_length=32")
    run(files, tmp_path, "--do_train", "--do_eval", "--do_predict", *packed)
    rows = json.loads((tmp_path / "train_packed.json").read_text())
    assert rows["rows"] < 0.8 * rows["examples"]
    scores = results(tmp_path)
    labelled = (tmp_path / "predictions.conll").read_text("utf-8")
    assert float(scores["eval_f1"]) > 0.9
    run(files, tmp_path, "--do_eval", "--do_predict", "--max_seq_length=32")
    again = results(tmp_path)
    assert (tmp_path / "predictions.conll").read_text("utf-8") == labelled
    assert scores.keys() == again.keys()
    for name, value in scores.items():
        assert float(again[name]) == pytest.approx(float(value), abs=1e-5)


def labels_of(path):
    layout = ColumnLayout()
    return [s.labels for s in read_sentences(str(path), layout)]


def test_it_learns_and_scores(trained):
    found = results(trained)
    assert sorted(found) == [
        "eval_accuracy",
        "eval_f1",
        "eval_loss",
        "eval_precision",
        "eval_recall",
        "global_step",
    ]
    assert float(found["eval_f1"]) > 0.9
    report = json.loads((trained / "eval_metrics.json").read_text("utf-8"))
    assert report["types"].keys() == {"LOC", "PER"}
    assert report["counts"]["no_pieces"] == 1
    assert report["counts"]["cut"] == 0
    assert report["encoding"] == "IOB2"
    assert (trained / "labels.txt").read_text().split() == LABELS


def test_one_line_for_each_line_of_the_input(files, trained):
    given = (files / "dev.txt").read_text("utf-8").splitlines()
    written = (trained / "predictions.conll").read_text("utf-8").splitlines()
    assert len(written) == len(given)
    for old, new in zip(given, written, strict=True):
        if not old or old.startswith("-DOCSTART-"):
            assert new == old
        elif old.startswith(ZERO_WIDTH):
            assert new == f"{ZERO_WIDTH} X O [NO-PIECES]"
        else:
            assert new.split(" ")[:2] == old.split(" ")[:2]
            assert new.split(" ")[2] in LABELS


def test_predictions_score_exactly_as_evaluation(files, trained):
    scores = score_entities(
        labels_of(files / "dev.txt"), labels_of(trained / "predictions.conll")
    )
    assert scores["f1"] == pytest.approx(float(results(trained)["eval_f1"]))
    lines = (trained / "predictions.jsonl").read_text("utf-8").splitlines()
    labels = [[w["label"] for w in json.loads(x)["words"]] for x in lines]
    assert labels == labels_of(trained / "predictions.conll")


def test_the_folder_and_words_alone_are_enough(files, trained, tmp_path):
    """Words that were labelled in windows before, cut off now."""
    expected = labels_of(trained / "predictions.conll")
    words = tmp_path / "words.txt"
    lines = (files / "dev.txt").read_text("utf-8").splitlines()
    words.write_text(
        "\n".join(x.split(" ")[0] for x in lines if x[:1] != "-"), "utf-8"
    )
    folder = shutil.copytree(trained, tmp_path / "run")
    arguments = ["--do_predict", f"--predict_file={words}"]
    run(files, folder, *arguments, model=False)
    written = folder / "predictions.conll"
    assert labels_of(written) == expected
    assert len(written.read_text("utf-8").splitlines()[1].split("\t")) == 2
    run(files, folder, *arguments, "--long_sentences=cut", model=False)
    text = written.read_text("utf-8")
    sentences = read_sentences(str(words), ColumnLayout(), with_labels=False)
    seen = [sum(w != ZERO_WIDTH for w in s.words) for s in sentences]
    assert max(seen) > 20
    assert text.count("\tO\t[CUT]\n") == sum(max(0, n - 10) for n in seen)
    assert list(map(len, labels_of(written))) == list(map(len, expected))


def test_resume_ends_in_the_same_bits(files, tmp_path):
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    arguments = (
        "--do_train",
        "--save_checkpoints_steps=4",
        "--num_train_epochs=1",
    )
    run(files, straight, *arguments)
    shutil.copytree(straight, broken)
    last = int(latest_checkpoint(str(straight)).rsplit("-", 1)[1])
    for path in broken.glob(f"model.ckpt-{last}*"):
        path.unlink()
    (broken / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-8"\n'
        'all_model_checkpoint_paths: "model.ckpt-8"\n'
    )
    run(files, broken, *arguments)
    one, two = read_variables(straight), read_variables(broken)
    assert int(one["global_step"]) == last > 8
    for name, value in one.items():
        assert (value == two[name]).all(), name


def test_two_replicas_score_the_same(files, trained, repo_dir, tmp_path):
    folder = shutil.copytree(trained, tmp_path / "run")
    (folder / "eval_results.txt").unlink()
    line = command_line(files, folder, "--do_eval", "--num_cpu_devices=2")
    done = subprocess.run(
        [sys.executable, *line], cwd=repo_dir, capture_output=True, text=True
    )
    assert "on each of 2 replica(s)" in done.stderr, done.stderr[-2000:]
    one, two = results(trained), results(folder)
    assert one.keys() == two.keys()
    for name, value in one.items():
        assert float(two[name]) == pytest.approx(float(value), abs=1e-5), name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--do_eval", "--labels=O,B-LOC"], "holds a model with labels B-LOC"),
        (["--do_eval", "--label_column=1"], "line 3: found label 'X', allowed"),
        (["--do_eval", "--label_column=x"], "'x', expected the number of a co"),
        (["--do_eval", "--label_column=7"], "3 columns, but --label_column is"),
        (["--do_eval", "--eval_file=none"], "--eval_file: no file .*none; the"),
        (["--do_eval", "--window_stride=99"], "--window_stride is 99, expecte"),
        (["--do_eval", "--separator=tab"], "line 3: found 1 column, expected "),
    ],
)
def test_mistakes(files, trained, arguments, message):
    with pytest.raises(ValueError, match=message):
        run(files, trained, *arguments)


def test_labels_must_come_from_somewhere(files, tmp_path):
    arguments = ["--do_predict", "--init_checkpoint=none"]
    with pytest.raises(ValueError, match="the labels are not known: there is"):
        run(files, tmp_path / "new", *arguments)
    with pytest.raises(ValueError, match="--do_train needs --train_file"):
        run(files, tmp_path / "new", "--do_train", "--train_file=")


def test_data_of_the_shelf(data_dir, tmp_path):
    """The commands of the README, on a hundred sentences, one epoch."""
    for name, train, vocab in [
        ("ner_wnut17", "wnut17train.conll", "uncased_L-12_H-768_A-12"),
        ("ner_uner_zh", "train.txt", "chinese_L-12_H-768_A-12"),
    ]:
        text = (data_dir / name / train).read_text("utf-8")
        sentences = text.replace("\n\t\n", "\n\n").split("\n\n")[:100]
        given = tmp_path / name
        given.mkdir()
        (given / "train.txt").write_text("\n\n".join(sentences), "utf-8")
        vocab = data_dir / "vocab" / vocab / "vocab.txt"
        size = len(vocab.read_text("utf-8").split("\n")) - 1
        BertConfig(
            vocab_size=size,
            hidden_size=16,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=16,
            max_position_embeddings=64,
        ).save(given / "config.json")
        run(
            given,
            given / "out",
            "--do_train",
            "--do_eval",
            "--do_predict",
            "--eval_file=train.txt",
            "--predict_file=train.txt",
            f"--vocab_file={vocab}",
            f"--bert_config_file={given}/config.json",
            "--max_seq_length=32",
            "--num_train_epochs=1",
            model=False,
        )
        written = (given / "out" / "predictions.conll").read_text("utf-8")
        assert (
            written.count("\n")
            == sum(len(s.split("\n")) for s in sentences) + 99
        )
        report = json.loads(
            (given / "out/eval_metrics.json").read_text("utf-8")
        )
        assert report["counts"]["sentences"] == 100
