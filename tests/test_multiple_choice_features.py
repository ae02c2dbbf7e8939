"""One sequence for each choice, and what is counted on the way."""

import logging

import pytest

from bert_tf.records import decode_example
from bert_tf.tasks.multiple_choice_data import ChoiceExample
from bert_tf.tasks.multiple_choice_features import (
    ChoiceStats,
    feature_spec,
    featurize,
    records,
)
from bert_tf.tokenization import FullTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "d"]
CLS, SEP, A, B, C, D = 2, 3, 5, 6, 7, 8


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return FullTokenizer(str(path))


def test_context_then_choice(tokenizer):
    example = ChoiceExample("a b", ("c", "d d", ""), 1)
    assert featurize(example, 7, tokenizer) == {
        "input_ids": [
            *[CLS, A, B, SEP, C, SEP, 0],
            *[CLS, A, B, SEP, D, D, SEP],
            *[CLS, A, B, SEP, 0, 0, 0],
        ],
        "input_mask": [1] * 6 + [0] + [1] * 7 + [1] * 4 + [0] * 3,
        "segment_ids": [0] * 4 + [1, 1, 0] + [0] * 4 + [1] * 3 + [0] * 7,
        "label_ids": 1,
        "is_real_example": 1,
    }


def test_the_longer_text_is_cut(tokenizer):
    example = ChoiceExample("a b c d", ("d", "d d d d"))
    found = featurize(example, 7, tokenizer)
    assert found["input_ids"] == [
        *[CLS, A, B, C, SEP, D, SEP],
        *[CLS, A, B, SEP, D, D, SEP],
    ]
    assert found["label_ids"] == 0, "a place holder where no label is known"


def test_spec_fits_the_features(tokenizer):
    spec = feature_spec(2, 6)
    values = featurize(ChoiceExample("a", ("b", "c"), 1), 6, tokenizer)
    assert decode_example(spec.serialize(values)) == {
        **values,
        "label_ids": [1],
        "is_real_example": [1],
    }
    (shape,) = {f.shape for f in spec if f.name.startswith("input")}
    assert shape == (2, 6)
    assert decode_example(spec.padding_record())["is_real_example"] == [0]


def test_what_was_met_is_counted(tokenizer, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    examples = [
        ChoiceExample("a", ("b", "c"), where="f, line 1"),
        ChoiceExample("a", ("b", "\u200b"), where="f, line 2"),
        ChoiceExample("a b c", ("b b", "b b"), where="f, line 3"),
    ]
    stats = ChoiceStats()
    assert len(list(records(examples, 6, tokenizer, stats, "train"))) == 3
    stats.log("train", 6)
    assert (
        "3 examples; 2 sequences cut to 6 pieces; the longest has 8 (f, "
        in (caplog.text)
    )
    assert "1 choice(s) without pieces, the first in f, line 2" in caplog.text
    assert (
        "1 example(s) with the same choice twice, the first in f, line 3"
        in (caplog.text)
    )
