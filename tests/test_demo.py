"""The demo's text, and the demo itself in small."""

import subprocess
import sys

import pytest

from bert_tf.demo import story, texts
from bert_tf.tokenization import learning


def test_sentences_leave_out_examples():
    text = (
        "Return the first item of it. It must be there. X.\n\n"
        ">>> first([1])\n1\n\n"
        "Lines that are\nbroken here are joined."
    )
    assert texts.sentences(text) == [
        "Return the first item of it.",
        "Lines that are broken here are joined.",
    ]


def test_labelled_sentences():
    rows = texts.labelled_sentences(per_family=30, seed=2)
    assert len(rows) == len(set(rows)) == 30 * len(texts.FAMILIES)
    assert {family for family, _ in rows} == set(texts.FAMILIES)
    assert rows == texts.labelled_sentences(per_family=30, seed=2)
    assert rows != texts.labelled_sentences(per_family=30, seed=3)


def test_no_source_runs(tmp_path):
    path = tmp_path / "m.py"
    path.write_text('"""Says what it is."""\nraise SystemExit("ran")\n')
    assert list(texts.docstrings(path)) == ["Says what it is."]
    path.write_text("def (")
    assert list(texts.docstrings(path)) == []


def test_vocabulary_fits_the_tokenizer(tmp_path):
    lines = ["Reading files, writing files!", "A file is read."] * 30
    pieces = learning.learn_vocabulary(lines, 60)
    assert pieces[:5] == list(learning.SPECIAL_TOKENS)
    assert len(pieces) <= 60 and "files" in pieces
    assert any(piece.startswith("##") for piece in pieces)
    with pytest.raises(ValueError, match="no text to learn"):
        learning.learn_vocabulary([], 60)


def test_the_whole_story(tmp_path, monkeypatch, capsys):
    documents = texts.corpus_documents()[:60]
    monkeypatch.setattr(texts, "corpus_documents", lambda: documents)
    monkeypatch.setattr(story, "VOCAB_SIZE", 400)
    folder = tmp_path / "demo"
    story.tell(str(folder), pretraining_steps=6, per_family=20, seed=1)
    shown = capsys.readouterr().out
    for words in ("largest class", "from scratch", "pre-trained first"):
        assert words in shown
    assert shown.count("truth:") == 3
    for family in texts.FAMILIES:
        assert f"  {family}" in shown
    assert "[MASK]" in shown
    png = (folder / "loss.png").read_bytes()
    assert png.startswith(b"\x89PNG") and len(png) > 5000
    held_out = (folder / "dev.tsv").read_text("utf-8").splitlines()[1:]
    corpus = set((folder / "corpus.txt").read_text("utf-8").splitlines())
    assert not corpus & {row.split("\t")[1] for row in held_out}
    with pytest.raises(ValueError, match="is not empty"):
        story.tell(str(folder), 6, 20, 1)


def test_help():
    result = subprocess.run(
        [sys.executable, "-m", "bert_tf.demo", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--pretraining_steps" in result.stdout
