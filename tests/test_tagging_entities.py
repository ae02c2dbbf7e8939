"""Entities in any encoding: spans, faults, scores equal to seqeval's."""

import random

import pytest

from bert_tf.tasks.tagging_entities import (
    EncodingCheck,
    Entity,
    encoding_of_labels,
    find_entities,
    format_table,
    marks_entities,
    score_entities,
    split_label,
)

# The same entities, LOC 0-2, LOC 2-3, PER 4-5, in each encoding.
SAME = {
    "IOB1": "I-LOC I-LOC B-LOC O I-PER",
    "IOB2": "B-LOC I-LOC B-LOC O B-PER",
    "BIOES": "B-LOC E-LOC S-LOC O S-PER",
    "BILOU": "B-LOC L-LOC U-LOC O U-PER",
    "BMEWO": "B-LOC E-LOC W-LOC O W-PER",
}


def test_split_label():
    assert split_label("O") == ("O", "")
    assert split_label("B-creative-work") == ("B", "creative-work")
    assert split_label("M-LOC") == ("I", "LOC")
    assert split_label("E") == ("E", "_")


@pytest.mark.parametrize("labels", SAME.values(), ids=SAME)
def test_the_same_entities_in_each_encoding(labels):
    assert find_entities(labels.split()) == [
        Entity("LOC", 0, 2),
        Entity("LOC", 2, 3),
        Entity("PER", 4, 5),
    ]


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("O O", []),
        ("O I-LOC", [("LOC", 1, 2)]),
        ("B-LOC I-PER", [("LOC", 0, 1), ("PER", 1, 2)]),
        ("E-LOC E-LOC", [("LOC", 0, 1), ("LOC", 1, 2)]),
        ("B M E S", [("_", 0, 3), ("_", 3, 4)]),
        ("", []),
    ],
)
def test_odd_sequences(labels, expected):
    assert find_entities(labels.split()) == expected


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ("B-LOC I-LOC O", True),
        ("B M E S", True),
        ("NOUN VERB O", False),
        # The tags of speech of a set that has an M.
        ("M NOUN VERB", False),
        ("O", False),
    ],
)
def test_marks_entities(labels, expected):
    assert marks_entities(labels.split()) is expected


def test_half_of_the_labels_mark_entities():
    with pytest.raises(ValueError, match=r"B-LOC mark .* but X have no prefix"):
        marks_entities(["O", "B-LOC", "X"])


@pytest.mark.parametrize(
    ("sentences", "encoding", "faults", "where"),
    [
        (["I-LOC I-LOC B-LOC O"], "IOB1", 0, ""),
        (["B-LOC I-LOC O B-PER"], "IOB2", 0, ""),
        (["B-LOC O I-LOC", "I-PER B-LOC I-PER"], "IOB2", 3, "0:2"),
        (["B-LOC E-LOC O S-PER"], "BIOES", 0, ""),
        (["B-LOC O E-LOC", "S-PER B-LOC"], "BIOES", 3, "0:1"),
        (["B-LOC E-PER S-LOC"], "BIOES", 1, "0:1"),
        (["I-LOC O I-LOC"], "IO", 0, ""),
        (["O"], "IO", 0, ""),
    ],
)
def test_encoding_and_faults(sentences, encoding, faults, where):
    check = EncodingCheck()
    for i, labels in enumerate(map(str.split, sentences)):
        check.add(labels, [f"{i}:{k}" for k in range(len(labels))])
    assert check.encoding == encoding
    assert check.inconsistent() == (faults, where)


def test_predictions_are_checked_under_the_encoding_of_the_data():
    check = EncodingCheck("IOB2")
    check.add(["I-LOC", "I-LOC"])
    assert check.inconsistent() == (1, "")


def test_encoding_of_labels():
    assert encoding_of_labels(["O", "B-LOC", "I-LOC"]) == "IOB2"
    assert encoding_of_labels(["O", "B-LOC", "L-LOC"]) == "BIOES"
    assert encoding_of_labels(["O", "I-LOC"]) == "IO"


def test_scores_by_hand():
    targets = [["B-LOC", "I-LOC", "O", "B-PER"], ["B-LOC", "O"]]
    predictions = [["B-LOC", "I-LOC", "O", "B-LOC"], ["O", "O"]]
    scores = score_entities(targets, predictions)
    assert (scores["precision"], scores["recall"]) == (1 / 2, 1 / 3)
    assert scores["f1"] == pytest.approx(0.4)
    assert scores["support"] == 3
    assert scores["types"] == {
        "LOC": {"precision": 0.5, "recall": 0.5, "f1": 0.5, "support": 2},
        "PER": {"precision": 0.0, "recall": 0.0, "f1": 0.0, "support": 1},
    }


def test_no_entity_at_all_scores_zero():
    assert score_entities([["O"]], [["O"]])["f1"] == 0.0


def test_lengths_must_agree():
    with pytest.raises(ValueError, match="2 labels but 1 predictions"):
        score_entities([["O", "O"]], [["O"]])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("prefixes", ["BI", "BIES", "I"])
def test_scores_are_those_of_seqeval(prefixes):
    """Random labels hold every fault that a sequence can have."""
    seqeval = pytest.importorskip("seqeval.metrics")
    draw = random.Random(len(prefixes))
    labels = [f"{p}-{t}" for p in prefixes for t in ("A", "B-C", "LOC")]

    def sentences(weight):
        draw_from = ["O"] * weight + labels
        return [
            [draw.choice(draw_from) for _ in range(1 + i % 9)]
            for i in range(300)
        ]

    targets, predictions = sentences(3), sentences(5)
    for target, prediction in zip(targets, predictions, strict=True):
        for i, label in enumerate(target):
            # Random entities would hardly ever be equal.
            prediction[i] = label if draw.random() < 0.7 else prediction[i]
    scores = score_entities(targets, predictions)
    report = seqeval.classification_report(
        targets, predictions, output_dict=True
    )
    assert 0.2 < scores["f1"] < 0.9
    for name, expected in [("micro avg", scores), *scores["types"].items()]:
        found = report[name]
        assert found["support"] == expected["support"]
        for ours, theirs in [("f1", "f1-score"), ("recall", "recall")]:
            assert expected[ours] == pytest.approx(found[theirs], abs=1e-12)
        assert expected["precision"] == pytest.approx(found["precision"])
    assert {"LOC", "A", "B-C"} == scores["types"].keys()


def test_table():
    row = {"precision": 0.5, "recall": 1.0, "f1": 2 / 3, "support": 12}
    assert format_table({"LOC": row}).splitlines() == [
        "type  precision  recall      f1  support",
        "LOC      0.5000  1.0000  0.6667       12",
    ]
