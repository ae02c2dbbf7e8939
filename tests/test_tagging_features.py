"""Windows of tagged sentences: each word is labelled once, or marked."""

import logging
import random

import pytest

from bert_tf.records import decode_example
from bert_tf.tasks.tagging_data import Sentence
from bert_tf.tasks.tagging_entities import EncodingCheck
from bert_tf.tasks.tagging_features import (
    TaggingFeaturizer,
    TaggingStats,
    best_window,
    feature_spec,
    window_spans,
)
from bert_tf.tokenization import FullTokenizer

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c", "##a"]
CLS, SEP, A, B, C, AA = 2, 3, 5, 6, 7, 8
ZERO_WIDTH = "\u200b"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(WORDS) + "\n", encoding="utf-8")
    return FullTokenizer(str(path))


def test_the_first_piece_carries_the_label(tokenizer):
    featurizer = TaggingFeaturizer(tokenizer, 8)
    (window,), marks, pieces = featurizer.featurize(["baa", "c"])
    assert window.input_ids == [CLS, B, AA, AA, C, SEP]
    assert (marks, pieces) == ([None, None], 4)
    assert window.record(8, [3, 5]) == {
        "input_ids": [CLS, B, AA, AA, C, SEP, 0, 0],
        "input_mask": [1] * 6 + [0, 0],
        "segment_ids": [0] * 8,
        "label_ids": [-1, 3, -1, -1, 5, -1, -1, -1],
    }
    assert window.record(8)["label_ids"] == [-1, 0, -1, -1, 0, -1, -1, -1]


def test_words_without_pieces_are_marked(tokenizer):
    featurizer = TaggingFeaturizer(tokenizer, 8)
    (window,), marks, _ = featurizer.featurize([ZERO_WIDTH, "a", " ", "b"])
    assert marks == ["no_pieces", None, "no_pieces", None]
    assert (window.words, window.positions) == ([1, 3], [1, 2])
    assert featurizer.featurize([ZERO_WIDTH]) == ([], ["no_pieces"], 0)


def test_sentences_are_cut_on_request(tokenizer):
    featurizer = TaggingFeaturizer(tokenizer, 5, "cut")
    (window,), marks, pieces = featurizer.featurize(["a", "baa", "b", "c"])
    # A word whose first piece is seen is labelled.
    assert window.input_ids == [CLS, A, B, AA, SEP]
    assert (window.words, pieces) == ([0, 1], 6)
    assert marks == [None, None, "cut", "cut"]


def test_windows_overlap_and_the_last_is_full():
    assert window_spans(3, 4, 2) == [(0, 3)]
    assert window_spans(4, 4, 2) == [(0, 4)]
    assert window_spans(5, 4, 2) == [(0, 4), (1, 5)]
    assert window_spans(9, 4, 2) == [(0, 4), (2, 6), (4, 8), (5, 9)]
    assert window_spans(0, 4, 2) == [(0, 0)]


def test_a_piece_belongs_where_most_is_shown_around_it():
    spans = [(0, 6), (3, 9), (6, 12)]
    owners = [best_window(spans, piece) for piece in range(12)]
    assert owners == [0, 0, 0, 0, 0, 1, 1, 1, 2, 2, 2, 2]
    # Two on the smaller side in both; the first window wins.
    assert best_window([(0, 6), (1, 7)], 3) == 0


@pytest.mark.parametrize("seed", range(5))
def test_each_word_is_labelled_once_and_in_order(tokenizer, seed):
    draw = random.Random(seed)
    words = ["".join(["b", "a" * draw.randrange(4)]) for _ in range(60)]
    words[7] = ZERO_WIDTH
    featurizer = TaggingFeaturizer(
        tokenizer, draw.randrange(6, 20), window_stride=draw.randrange(1, 5)
    )
    windows, marks, _ = featurizer.featurize(words)
    labelled = [word for window in windows for word in window.words]
    assert labelled == [i for i in range(60) if i != 7]
    assert marks.count(None) == 59
    for window in windows:
        assert len(window.input_ids) <= featurizer.max_seq_length
        assert window.words
        for position in window.positions:
            assert window.input_ids[position] == B


def test_an_endless_word_is_labelled_once(tokenizer):
    featurizer = TaggingFeaturizer(tokenizer, 6)
    (window,), marks, pieces = featurizer.featurize(["b" + "a" * 20])
    assert (marks, pieces, window.positions) == ([None], 21, [1])


def test_impossible_settings(tokenizer):
    with pytest.raises(ValueError, match="--max_seq_length is 2; two special"):
        TaggingFeaturizer(tokenizer, 2)
    with pytest.raises(ValueError, match="--window_stride is 7, expected 1 to"):
        TaggingFeaturizer(tokenizer, 8, window_stride=7)
    with pytest.raises(ValueError, match="--long_sentences is 'drop'"):
        TaggingFeaturizer(tokenizer, 8, "drop")


def test_what_does_not_fit_is_counted(tokenizer, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    sentences = [
        Sentence(0, ["a", ZERO_WIDTH], ["B-X", "O"], [1, 2], "f"),
        Sentence(1, ["a", "b", "c", "a"], ["O", "I-X", "O", "O"], [4, 5, 6, 7]),
    ]
    stats = TaggingStats(encoding=EncodingCheck())
    featurizer = TaggingFeaturizer(tokenizer, 5, "cut")
    labels = ["O", "B-X", "I-X"]
    records = list(featurizer.records(sentences, labels, stats))
    assert [r["label_ids"] for r in records] == [
        [-1, 1, -1, -1, -1],
        [-1, 0, 2, 0, -1],
    ]
    stats.log("train")
    assert "2 sentences, 6 words, 2 windows" in caplog.text
    assert "1 word(s) cut off" in caplog.text
    assert "1 word(s) without pieces, the first in f, line 2" in caplog.text
    assert (
        "1 label(s) that do not fit their neighbours in encoding IOB2, the "
        in (caplog.text)
    )
    assert "first on line 5" in caplog.text


def test_spec_fits_the_records(tokenizer):
    (window,), _, _ = TaggingFeaturizer(tokenizer, 6).featurize(["a"])
    spec = feature_spec(6)
    values = window.record(6, [1])
    assert decode_example(spec.serialize(values)) == values
    padding = decode_example(spec.padding_record())
    assert padding["label_ids"] == [-1] * 6
