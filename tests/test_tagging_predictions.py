"""Files of predicted labels: one line for each word, nothing lost."""

import json

import numpy as np
import pytest

from bert_tf.tasks.tagging_data import (
    ColumnLayout,
    Sentence,
    read_lines,
    read_sentences,
)
from bert_tf.tasks.tagging_predictions import (
    describe_sentence,
    has_label_column,
    tag_sentence,
    write_explained,
    write_labelled,
)

LABELS = ["B-LOC", "I-LOC", "O"]


def rows(*winners):
    for winner in winners:
        row = np.full(3, 0.1, np.float32)
        row[winner] = 0.8
        yield row


def tagged(winners=(0, 1, 2), words=("New", "York", "is")):
    sentence = Sentence(0, list(words), None, [3, 4, 5], "f")
    return tag_sentence(sentence, [None] * 3, rows(*winners), LABELS)


def test_rows_are_taken_for_the_words_that_were_seen():
    sentence = Sentence(0, ["a", "b", "c", "d"], None, [1, 2, 3, 4])
    stream = rows(0, 1, 0)
    found = tag_sentence(
        sentence, [None, "no_pieces", None, "cut"], stream, LABELS
    )
    assert found.labels == ["B-LOC", "O", "I-LOC", "O"]
    assert [p is None for p in found.probabilities] == [False, True] * 2
    assert int(next(stream).argmax()) == 0, "one row is left"


def test_description():
    found = json.loads(json.dumps(describe_sentence(tagged(), LABELS)))
    assert found["text"] == "New York is"
    assert (found["id"], found["line"]) == (0, 3)
    assert found["words"][1] == {
        "word": "York",
        "start": 4,
        "end": 8,
        "label": "I-LOC",
        # As float32 prints, not 0.10000000149011612.
        "probabilities": {"B-LOC": 0.1, "I-LOC": 0.8, "O": 0.1},
    }
    assert found["entities"] == [
        {
            "type": "LOC",
            "start": 0,
            "end": 8,
            "first_word": 0,
            "last_word": 1,
            "text": "New York",
            "probability": 0.8,
        }
    ]
    assert "entities" not in describe_sentence(tagged(), LABELS, False)


def test_words_that_were_not_seen_say_why():
    sentence = Sentence(0, ["a", "b"], None, [1, 2])
    found = tag_sentence(sentence, ["cut", "no_pieces"], rows(), LABELS)
    words = describe_sentence(found, LABELS)["words"]
    assert [w["mark"] for w in words] == ["cut", "no_pieces"]
    assert [w["label"] for w in words] == ["O", "O"]
    assert "probabilities" not in words[0]


def test_explained_lines_are_plain_text(tmp_path):
    path = str(tmp_path / "p.jsonl")
    sentences = [tagged(words=("東", "京", "は")), tagged()]
    assert list(write_explained(path, sentences, LABELS)) == sentences
    with open(path, encoding="utf-8") as stream:
        lines = stream.read().split("\n")
    assert "東 京" in lines[0] and json.loads(lines[1]) and lines[2:] == [""]


@pytest.mark.parametrize(
    ("source", "replaces", "expected"),
    [
        (
            "-DOCSTART- O\n\nNew O\nYork O\n\nis O",
            True,
            "-DOCSTART- O\n\nNew B-LOC\nYork O [CUT]\n\nis O\n",
        ),
        (
            "New\tN\tO\nYork\tN\tO\n\t\nis\tV\tO\n",
            True,
            "New\tN\tB-LOC\nYork\tN\tO\t[CUT]\n\t\nis\tV\tO\n",
        ),
        ("New\nYork\n\nis\n", False, "New\tB-LOC\nYork\tO\t[CUT]\n\nis\tO\n"),
        ("New N\nYork N\n\nis V\n", False, None),
    ],
)
def test_the_input_again_with_labels(tmp_path, source, replaces, expected):
    given, path = str(tmp_path / "given.txt"), str(tmp_path / "written.txt")
    with open(given, "w", encoding="utf-8", newline="") as stream:
        stream.write(source)
    words = [("B-LOC", None), ("O", "cut"), ("O", None)]
    layout = ColumnLayout()
    assert has_label_column(given, layout, LABELS)[0] is replaces
    assert write_labelled(path, given, layout, words, replaces) == 3
    with open(path, encoding="utf-8", newline="") as stream:
        written = stream.read()
    if expected is not None:
        assert written == expected
    assert written.count("\n") == len(list(read_lines(given, layout)))
    labels = [s.labels for s in read_sentences(path, layout)]
    assert labels == [["B-LOC", "O"], ["O"]]


def test_label_column_of_another_place(tmp_path):
    given, path = str(tmp_path / "given.txt"), str(tmp_path / "written.txt")
    with open(given, "w", encoding="utf-8") as stream:
        stream.write("1 New O x\n2 York O x\n")
    layout = ColumnLayout(word_column=1, label_column=2)
    write_labelled(path, given, layout, [("B-LOC", None), ("O", None)], True)
    with open(path, encoding="utf-8") as stream:
        assert stream.read() == "1 New B-LOC x\n2 York O x\n"


def test_what_speaks_against_a_label_column(tmp_path):
    given = str(tmp_path / "given.txt")
    with open(given, "w", encoding="utf-8") as stream:
        stream.write("New O\nYork X\n")
    found = has_label_column(given, ColumnLayout(), LABELS)
    assert found == (False, "line 2 has 'X' there")
