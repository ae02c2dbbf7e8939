"""Rows of instances, and the records made of them."""

import numpy as np
import pytest
from pretraining_text import make_settings, write_vocab

from bert_tf import records
from bert_tf.pretraining_corpus import Corpus
from bert_tf.pretraining_draws import mix, random_bits
from bert_tf.pretraining_rows import InstanceRows, RowEncoder, row_dtype
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_vocabulary import Vocabulary, load_tokenizer

S = 32


def corpus(with_words=False):
    rng = np.random.default_rng(0)
    tokens = rng.integers(5, 120, 2000).astype("<u2")
    starts = (rng.random(2000) < 0.5).astype(np.uint8) if with_words else None
    return Corpus(tokens, np.zeros(1), np.zeros(1), starts)


def fill(source, n=40):
    rows = InstanceRows(
        row_dtype(S, np.dtype("<u2"), source.word_starts is not None), n
    )
    rng = np.random.default_rng(1)
    ranges = []
    for number in range(n):
        a, b = rng.integers(1, 14, 2)
        start_a, start_b = rng.integers(0, 1900, 2)
        ranges.append((start_a, start_a + a, start_b, start_b + b))
        rows.add(
            9,
            number,
            source,
            (start_a, start_a + a),
            source,
            (start_b, start_b + b),
            number % 3 == 0,
        )
    return rows, ranges


def test_rows_hold_both_texts_and_keys():
    source = corpus(with_words=True)
    rows, ranges = fill(source)
    assert rows.is_full and len(rows) == 40
    taken = rows.take()
    assert len(rows) == 0 and not rows.is_full
    keys = taken["key"]
    assert (keys == random_bits(np.uint64(9), np.arange(40))).all()
    assert keys[0] == mix(9 + 0x9E3779B97F4A7C15)
    for row, (a, a_end, b, b_end) in zip(taken, ranges, strict=True):
        length_a, length = row["length_a"], row["length_a"] + row["length_b"]
        assert row["ids"][:length_a].tolist() == source.tokens[a:a_end].tolist()
        assert (row["ids"][length_a:length] == source.tokens[b:b_end]).all()
        words = row["word_starts"]
        assert (words[:length_a] == source.word_starts[a:a_end]).all()
        assert (words[length_a:length] == source.word_starts[b:b_end]).all()
    assert taken["label"].tolist() == [number % 3 == 0 for number in range(40)]
    # Nothing held gives nothing.
    assert len(rows.take()) == 0


@pytest.fixture
def vocabulary(tmp_path):
    return Vocabulary.of(load_tokenizer(write_vocab(tmp_path), True))


def encode(settings, vocabulary, rows):
    statistics = Statistics()
    encoder = RowEncoder(settings, vocabulary)
    batches = encoder.encode(rows, statistics)
    return [
        records.decode_example(record) for batch in batches for record in batch
    ], statistics


def restored(example):
    ids = list(example["input_ids"])
    count = int(sum(example["masked_lm_weights"]))
    for position, label in zip(
        example["masked_lm_positions"][:count],
        example["masked_lm_ids"][:count],
        strict=True,
    ):
        ids[position] = label
    return ids


@pytest.mark.parametrize("whole_words", [False, True])
def test_static_and_dynamic_records_hold_the_same_text(
    tmp_path, vocabulary, whole_words
):
    source = corpus()
    rows = fill(source)[0].take()
    static = make_settings(tmp_path, do_whole_word_mask=whole_words)
    dynamic = make_settings(
        tmp_path, do_whole_word_mask=whole_words, masking="dynamic"
    )
    masked, statistics = encode(static, vocabulary, rows)
    plain, none = encode(dynamic, vocabulary, rows)
    assert statistics.counts["masked"] > 40 and not none.counts
    changed = 0
    for one, other in zip(masked, plain, strict=True):
        assert restored(one) == other["input_ids"]
        for name in ("input_mask", "segment_ids", "next_sentence_labels"):
            assert one[name] == other[name]
        assert other["masking_vocabulary"] == [4, vocabulary.size]
        assert ("word_starts" in other) == whole_words
        changed += one["input_ids"] != other["input_ids"]
    assert changed > 30


def test_a_second_text_never_goes_on_with_a_word_of_the_first(
    tmp_path, vocabulary
):
    # All pieces continue a word, so that each text is one word.
    piece = int(np.flatnonzero(vocabulary.is_continuation)[0])
    source = Corpus(np.full(2000, piece, "<u2"), np.zeros(1), np.zeros(1))
    rows = fill(source, 200)[0].take()
    settings = make_settings(
        tmp_path,
        do_whole_word_mask=True,
        max_predictions_per_seq=8,
        masked_lm_prob=0.5,
    )
    examples, _ = encode(settings, vocabulary, rows)
    for example, row in zip(examples, rows, strict=True):
        positions = set(
            example["masked_lm_positions"][
                : int(sum(example["masked_lm_weights"]))
            ]
        )
        a, b = int(row["length_a"]), int(row["length_b"])
        first = set(range(1, a + 1))
        second = set(range(a + 2, a + b + 2))
        assert positions in (set(), first, second, first | second)


def test_word_starts_of_a_segmenter_come_into_the_record(tmp_path, vocabulary):
    source = corpus(with_words=True)
    rows, ranges = fill(source)
    taken = rows.take()
    settings = make_settings(
        tmp_path,
        do_whole_word_mask=True,
        masking="dynamic",
        word_segmenter="some:words",
    )
    examples, _ = encode(settings, vocabulary, taken)
    for example, (a, a_end, b, b_end) in zip(examples, ranges, strict=True):
        first, second = source.word_starts[a:a_end], source.word_starts[b:b_end]
        expected = [0, 1, *first[1:], 0, 1, *second[1:], 0]
        found = example["word_starts"]
        assert found[: len(expected)] == expected
        assert not any(found[len(expected) :])


def test_count_masks_counts_what_encode_counts(tmp_path, vocabulary):
    rows = fill(corpus())[0].take()
    settings = make_settings(tmp_path)
    _, statistics = encode(settings, vocabulary, rows)
    counted = Statistics()
    RowEncoder(settings, vocabulary).count_masks(rows, counted)
    assert counted.counts == statistics.counts
