"""Windows against plain searches, and the counts that are reported."""

import itertools
import logging
import random
import re

import numpy as np
import pytest

from bert_tf.tasks import squad_windows
from bert_tf.tasks.squad_data import Paragraph, SquadExample
from bert_tf.tasks.squad_windows import DocSpan, SquadFeaturizer
from bert_tf.tokenization import FullTokenizer


@pytest.fixture
def tokenizer(tmp_path):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "who", "?"]
    (tmp_path / "vocab.txt").write_text("\n".join([*pieces, *"abcdefg"]))
    return FullTokenizer(tmp_path / "vocab.txt")


def _example(context, answer=None, words=(None, None), **more):
    return SquadExample(
        "q1",
        "who",
        Paragraph(context, re.compile("[^ ]+")),
        orig_answer_text=answer,
        start_position=words[0],
        end_position=words[1],
        **more,
    )


def _context_owner(spans, position):
    scores = [
        min(position - start, start + length - 1 - position) + 0.01 * length
        if start <= position < start + length
        else -1.0
        for start, length in spans
    ]
    return scores.index(max(scores))


def test_max_context_is_that_of_asking_every_window():
    # Last windows shorter by 100 pieces and more make near-ties, in which
    # rounding decides.
    generator = random.Random(1)
    for _ in range(60):
        size = generator.randrange(1, 700)
        spans = squad_windows.doc_spans(
            size, generator.randrange(1, 400), generator.randrange(1, 200)
        )
        found = squad_windows.max_context_spans(spans, size)
        expected = [_context_owner(spans, i) for i in range(size)]
        assert found.tolist() == expected


def test_doc_spans_cover_the_context_and_stop_with_it():
    assert squad_windows.doc_spans(7, 4, 2) == [(0, 4), (2, 4), (4, 3)]
    assert squad_windows.doc_spans(8, 4, 2) == [(0, 4), (2, 4), (4, 4)]
    # A stride beyond the window never leaves a gap.
    assert squad_windows.doc_spans(9, 4, 100) == [(0, 4), (4, 4), (8, 1)]
    assert squad_windows.doc_spans(0, 4, 2) == []
    assert squad_windows.doc_spans(3, 4, 2) == [DocSpan(0, 3)]


def _search_answer(pieces, start, end, answer):
    for first in range(start, end + 1):
        for last in range(end, first - 1, -1):
            if pieces[first : last + 1] == answer:
                return first, last
    return start, end


def test_narrow_answer_finds_what_trying_all_spans_finds():
    generator = random.Random(2)
    hits = 0
    for _ in range(2000):
        pieces = [generator.randrange(3) for _ in range(12)]
        start = generator.randrange(12)
        end = generator.randrange(-1, 12)
        answer = [generator.randrange(3) for _ in range(generator.randrange(5))]
        expected = _search_answer(pieces, start, end, answer)
        hits += expected != (start, end)
        found = squad_windows.narrow_answer(pieces, start, end, answer)
        assert found == expected
    assert hits > 100


def test_windows_without_the_answer_point_at_cls(tokenizer):
    # Windows abcd, cdef, efg: only the last one holds g.
    featurizer = SquadFeaturizer(
        tokenizer, 8, 2, max_query_length=1, is_training=True
    )
    example = _example("a b c d e f g", "g", (6, 6))
    windows = list(featurizer.stream([example]))
    a = tokenizer.vocab["a"]
    assert [window.input_ids[3:-1] for window in windows] == [
        [a, a + 1, a + 2, a + 3],
        [a + 2, a + 3, a + 4, a + 5],
        [a + 4, a + 5, a + 6],
    ]
    assert [(w.start_position, w.end_position) for w in windows] == [
        (0, 0),
        (0, 0),
        (5, 5),
    ]
    assert [w.unique_id - 1_000_000_000 for w in windows] == [0, 1, 2]
    assert featurizer.num_windows == 3
    assert featurizer.num_without_answer == 2
    assert featurizer.answer_in_no_window == []


def test_impossible_questions_point_at_cls(tokenizer):
    featurizer = SquadFeaturizer(tokenizer, 8, 2, 1, is_training=True)
    example = _example("a b c", "", (-1, -1), is_impossible=True)
    (window,) = featurizer.stream([example])
    record = window.record(8)
    assert record["start_positions"] == record["end_positions"] == 0
    assert record["is_impossible"] == 1
    assert featurizer.num_without_answer == 0


def test_answer_cut_by_every_window_is_reported(tokenizer, caplog):
    featurizer = SquadFeaturizer(tokenizer, 8, 4, 1, is_training=True)
    list(featurizer.stream([_example("a b c d e f g", "d e", (3, 4))]))
    assert featurizer.answer_in_no_window == ["q1"]
    assert "1 questions have their answer in no window: q1" in caplog.text


def test_context_without_tokens_is_reported(tokenizer, caplog):
    featurizer = SquadFeaturizer(tokenizer, 8, 4, 1)
    with caplog.at_level(logging.INFO, logger="bert_tf"):
        windows = list(
            featurizer.stream([_example("\u200b \u200d"), _example("")])
        )
    assert windows == []
    assert featurizer.without_window == ["q1", "q1"]
    assert "2 questions make 0 windows" in caplog.text


def test_windows_come_as_a_stream(tokenizer):
    featurizer = SquadFeaturizer(tokenizer, 8, 2, 1)
    endless = itertools.repeat(_example("a b c d e f g"))
    windows = list(itertools.islice(featurizer.stream(endless), 7))
    assert [window.example_index for window in windows] == [0, 0, 0, 1, 1, 1, 2]
    assert [window.doc_span_index for window in windows] == [
        0,
        1,
        2,
        0,
        1,
        2,
        0,
    ]
    # A context is cut once for all its questions.
    assert len(featurizer._pieces) == 1


@pytest.mark.parametrize(
    ("lengths", "message"),
    [
        ((8, 2, 5), r"max_seq_length \(8\).*max_query_length \(5\) \+ 3"),
        ((8, 0, 4), "doc_stride is 0"),
        ((8, 2, -1), "max_query_length is -1"),
    ],
)
def test_lengths_are_checked(tokenizer, lengths, message):
    with pytest.raises(ValueError, match=message):
        SquadFeaturizer(tokenizer, *lengths)


def test_long_stride_is_told(tokenizer, caplog):
    SquadFeaturizer(tokenizer, 8, 5, 1)
    assert "windows will not overlap" in caplog.text


def test_long_words_are_cut_like_short_ones(tokenizer):
    word = "a?" * 100
    featurizer = SquadFeaturizer(tokenizer, 300, 100, 1)
    pieces = featurizer.pieces(_example(f"b {word} ?a").paragraph)
    assert pieces.ids == tokenizer.tokenize_to_ids(f"b {word} ?a")
    assert pieces.words == [0] + [1] * 200 + [2, 2]
    assert pieces.first_pieces == [0, 1, 201]


def test_feature_spec_holds_targets_in_training_only():
    names = squad_windows.feature_spec(8, False).names()
    assert names == ["unique_ids", "input_ids", "input_mask", "segment_ids"]
    assert squad_windows.feature_spec(8, True).names() == [
        *names,
        *("start_positions", "end_positions", "is_impossible"),
    ]


def test_max_context_of_one_window():
    owners = squad_windows.max_context_spans([DocSpan(0, 5)], 5)
    assert owners.dtype == np.int32
    assert owners.tolist() == [0] * 5
