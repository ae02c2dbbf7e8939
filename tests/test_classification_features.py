"""Features of examples, and what is counted on the way."""

import pytest

from bert_tf.records import decode_example
from bert_tf.tasks.classification_data import Example
from bert_tf.tasks.classification_features import (
    FeaturizeStats,
    feature_spec,
    featurize,
)
from bert_tf.tokenization import FullTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
CLS, SEP, A, B, C = 2, 3, 5, 6, 7
LABELS = ["no", "yes"]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return FullTokenizer(str(path))


def example(text_a, text_b=None, label="yes"):
    return Example("train-0", text_a, text_b, label, where="t.tsv, line 1")


def test_pair(tokenizer):
    got = featurize(example("a b", "c"), LABELS, 8, tokenizer)
    assert got == {
        "input_ids": [CLS, A, B, SEP, C, SEP, 0, 0],
        "input_mask": [1, 1, 1, 1, 1, 1, 0, 0],
        "segment_ids": [0, 0, 0, 0, 1, 1, 0, 0],
        "label_ids": 1,
        "is_real_example": 1,
    }


@pytest.mark.parametrize("text_b", [None, "", "   ", "\u200b"])
def test_second_text_without_tokens_makes_a_single(tokenizer, text_b):
    got = featurize(example("a b c d", text_b), LABELS, 5, tokenizer)
    assert got["input_ids"] == [CLS, A, B, C, SEP]
    assert got["segment_ids"] == [0] * 5


def test_empty_text(tokenizer):
    got = featurize(example(""), LABELS, 4, tokenizer)
    assert got["input_ids"] == [CLS, SEP, 0, 0]


def test_no_label_takes_the_first_for_its_place(tokenizer):
    unknown = example("a", label=None)
    assert featurize(unknown, LABELS, 4, tokenizer)["label_ids"] == 0
    assert (
        featurize(unknown, None, 4, tokenizer, "regression")["label_values"]
        == 0.0
    )


def test_numbers_and_several_labels(tokenizer):
    got = featurize(example("a", label=2.5), None, 4, tokenizer, "regression")
    assert got["label_values"] == 2.5 and "label_ids" not in got
    several = example("a", label=("z", "x"))
    got = featurize(several, ["x", "y", "z"], 4, tokenizer, "multi_label")
    assert got["label_values"] == [1.0, 0.0, 1.0]


def test_faults_name_the_row(tokenizer):
    with pytest.raises(ValueError, match=r"line 1: found label 'x', allowed: "):
        featurize(example("a", label="x"), LABELS, 4, tokenizer)
    with pytest.raises(
        ValueError, match="line 1: text must be a string, found"
    ):
        featurize(example(float("nan")), LABELS, 4, tokenizer)
    with pytest.raises(ValueError, match="line 1: second text must be a str"):
        featurize(example("a", 1), LABELS, 4, tokenizer)
    with pytest.raises(ValueError, match="max_seq_length is 2; 3 special"):
        featurize(example("a", "b"), LABELS, 2, tokenizer)


def test_what_was_cut_is_counted(tokenizer):
    stats = FeaturizeStats()
    texts = [("a", "b"), ("a b c d", "a b"), ("a b", None), ("", None)]
    for text_a, text_b in texts:
        featurize(example(text_a, text_b), LABELS, 5, tokenizer, stats=stats)
    # [CLS] a b c d [SEP] a b [SEP] has nine; the others fit exactly or well.
    assert (stats.examples, stats.truncated, stats.longest) == (4, 1, 9)
    assert stats.without_tokens == 1
    assert stats.summary(5) == (
        "4 examples; 1 cut to 5 pieces; the longest has 9 (t.tsv, line 1); "
        "1 without any token; labels: yes 4"
    )


@pytest.mark.parametrize(
    ("kind", "label", "labels"),
    [
        ("classification", "yes", LABELS),
        ("regression", 2.5, None),
        ("multi_label", ("yes",), LABELS),
    ],
)
def test_spec_fits_the_features(tokenizer, kind, label, labels):
    spec = feature_spec(6, kind, 2)
    values = featurize(example("a", label=label), labels, 6, tokenizer, kind)
    assert spec.names() == list(values)
    decoded = decode_example(spec.serialize(values))
    assert decoded["input_ids"] == values["input_ids"]
    padding = decode_example(spec.padding_record())
    assert padding["is_real_example"] == [0]
    assert not any(padding["input_mask"])
