"""Streaming mode's instances: rules of the original, faults mended."""

import numpy as np
import pytest
from pretraining_text import make_settings

from bert_tf import pretraining_instances
from bert_tf.pretraining_corpus import CorpusBuilder
from bert_tf.pretraining_exact import ExactInstances
from bert_tf.pretraining_instances import CorpusParts, InstanceBuilder
from bert_tf.pretraining_rows import InstanceRows, row_dtype
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_vocabulary import Vocabulary


def make_corpus(documents):
    """Token ids are unique, so that each tells where it comes from."""
    builder = CorpusBuilder(60_000)
    token = 10
    for document in documents:
        for length in document:
            builder.add_sentence(range(token, token + length), None)
            token += length
        builder.end_document()
    return builder.corpus()


def random_documents(count, seed, sentences=(2, 12), words=(2, 25)):
    rng = np.random.default_rng(seed)
    return [
        rng.integers(*words, rng.integers(*sentences)).tolist()
        for _ in range(count)
    ]


def cut(parts, settings, documents=None, passes=1):
    """Rows of documents, and statistics."""
    statistics = Statistics()
    builder = InstanceBuilder(parts, settings, statistics)
    rows = InstanceRows(
        row_dtype(settings.max_seq_length, np.dtype("<u2"), False), 100_000
    )
    if documents is None:
        documents = range(parts.num_documents)
    for passing in range(passes):
        for index in documents:
            assert list(builder.add_document(index, passing, rows)) == []
    taken = rows.take().copy()
    return taken["key"], taken, statistics


def texts(row):
    a, b = int(row["length_a"]), int(row["length_b"])
    return row["ids"][:a].tolist(), row["ids"][a : a + b].tolist()


def test_instances_keep_the_rules(tmp_path):
    documents = random_documents(40, seed=1)
    corpus = make_corpus(documents)
    document_of = np.repeat(np.arange(40), [sum(d) for d in documents])
    settings = make_settings(tmp_path, max_seq_length=32, short_seq_prob=0.2)
    _, rows, statistics = cut(CorpusParts([corpus]), settings, passes=3)
    labels = rows["label"]
    assert 0.4 < labels.mean() < 0.9
    for row in rows:
        a, b = texts(row)
        assert a and b and len(a) + len(b) <= 29
        # Each is a run of text of one document.
        assert a == list(range(a[0], a[-1] + 1))
        assert b == list(range(b[0], b[-1] + 1))
        own, other = document_of[a[0] - 10], document_of[b[0] - 10]
        assert document_of[a[-1] - 10] == own
        assert document_of[b[-1] - 10] == other
        assert (own != other) == bool(row["label"])
        if not row["label"]:
            assert b[0] > a[-1]
    assert statistics.counts["truncated_instances"] > 0


def test_without_truncation_all_text_is_used_and_put_back(tmp_path):
    documents = random_documents(20, seed=2, words=(2, 5))
    corpus = make_corpus(documents)
    settings = make_settings(tmp_path, max_seq_length=400, short_seq_prob=0.0)
    _, rows, statistics = cut(CorpusParts([corpus]), settings)
    assert statistics.counts["truncated_tokens"] == 0
    used = []
    for row in rows:
        a, b = texts(row)
        used += a if row["label"] else a + b
    # What a random second text displaces is used by a later instance.
    assert used == list(range(10, 10 + sum(map(sum, documents))))


def test_documents_go_by_their_own_stream(tmp_path):
    documents = random_documents(30, seed=3)
    parts = CorpusParts([make_corpus(documents)])
    settings = make_settings(tmp_path)
    keys, rows, _ = cut(parts, settings)
    keys_back, rows_back, _ = cut(parts, settings, range(29, -1, -1))
    order, back = np.argsort(keys), np.argsort(keys_back)
    assert (keys[order] == keys_back[back]).all()
    for row, other in zip(rows[order], rows_back[back], strict=True):
        assert texts(row) == texts(other) and row["label"] == other["label"]
    assert len(set(keys.tolist())) == len(keys)
    # Another pass and another seed give other instances.
    twice, _, _ = cut(parts, settings, passes=2)
    assert len(set(twice.tolist())) == len(twice)
    other = make_settings(tmp_path, random_seed=1)
    assert not set(cut(parts, other)[0].tolist()) & set(keys.tolist())


def test_parts_are_one_corpus(tmp_path):
    documents = random_documents(30, seed=4)
    whole = make_corpus(documents)
    numbers = list(range(30))
    settings = make_settings(tmp_path)
    keys, rows, _ = cut(CorpusParts([whole], numbers), settings)
    at, bounds = whole.sentences, whole.documents
    parts = []
    for first, end in ((0, 7), (7, 7), (7, 30)):
        sentences = at[bounds[first] : bounds[end] + 1]
        parts.append(
            whole._replace(
                tokens=whole.tokens[sentences[0] : sentences[-1]],
                sentences=sentences - sentences[0],
                documents=bounds[first : end + 1] - bounds[first],
            )
        )
    keys_apart, rows_apart, _ = cut(CorpusParts(parts, numbers), settings)
    assert (keys == keys_apart).all()
    for row, other in zip(rows, rows_apart, strict=True):
        assert texts(row) == texts(other)
    by_part = CorpusParts(parts)
    assert [by_part.number(i) for i in (0, 6, 7, 29)] == [
        0,
        6,
        2 << 32,
        (2 << 32) + 22,
    ]


def test_cut_covers_all_documents():
    sizes = [5, 50, 5, 10, 30, 3]
    parts = CorpusParts(
        [
            make_corpus([[5], [50], [5], [5, 5]]),
            make_corpus([]),
            make_corpus([[30], [3]]),
        ]
    )
    for wanted in (1, 10, 40, 60, 1000):
        ranges = parts.cut(wanted)
        covered = [i for first, end in ranges for i in range(first, end)]
        assert covered == list(range(6))
        for first, end in ranges[:-1]:
            # As many documents as it takes, and no more.
            assert sum(sizes[first:end]) >= wanted > sum(sizes[first : end - 1])
    assert parts.cut(1000) == [(0, 6)]
    assert len(parts.cut(1)) == 6


def test_one_document_is_never_labelled_random(tmp_path):
    parts = CorpusParts([make_corpus([[40, 3, 40, 40, 2, 2, 40, 30]])])
    settings = make_settings(tmp_path, short_seq_prob=0.0)
    _, rows, statistics = cut(parts, settings, passes=10)
    assert not rows["label"].any()
    for row in rows:
        a, b = texts(row)
        assert a[-1] < b[0]
    # The last sentence stands alone: passed over, and counted.
    assert statistics.counts["chunks_without_pair"] == 10
    _, rows, statistics = cut(CorpusParts([make_corpus([[40]])]), settings)
    assert len(rows) == 0 and statistics.counts["chunks_without_pair"] == 1


def test_two_documents_of_one_sentence_take_each_other(tmp_path):
    parts = CorpusParts([make_corpus([[6], [7]])])
    _, rows, _ = cut(parts, make_settings(tmp_path), passes=5)
    assert len(rows) == 10 and rows["label"].all()
    assert all(
        (texts(row)[0][0] < 16) != (texts(row)[1][0] < 16) for row in rows
    )


def test_a_window_of_a_document_is_as_good_as_the_whole(tmp_path, monkeypatch):
    parts = CorpusParts([make_corpus([[3, 9, 1] * 60, [2] * 300, [1] * 500])])
    settings = make_settings(tmp_path, max_seq_length=16)
    _, rows, _ = cut(parts, settings, passes=3)
    monkeypatch.setattr(pretraining_instances, "_HELD", 1)
    _, by_window, _ = cut(parts, settings, passes=3)
    assert list(map(texts, rows)) == list(map(texts, by_window))


def test_rows_are_handed_over_when_full(tmp_path):
    parts = CorpusParts([make_corpus(random_documents(9, seed=5))])
    settings = make_settings(tmp_path)
    keys, whole, _ = cut(parts, settings)
    builder = InstanceBuilder(parts, settings, Statistics())
    rows = InstanceRows(row_dtype(32, np.dtype("<u2"), False), 4)
    found = []
    for index in range(9):
        for _ in builder.add_document(index, 0, rows):
            taken = rows.take()
            assert len(taken) == 4
            found += zip(taken["key"].tolist(), map(texts, taken), strict=True)
    taken = rows.take()
    found += zip(taken["key"].tolist(), map(texts, taken), strict=True)
    assert found == list(zip(keys.tolist(), map(texts, whole), strict=True))


@pytest.mark.parametrize("changes", [{}, {"short_seq_prob": 0.6}])
def test_means_over_seeds_are_those_of_the_original(tmp_path, changes):
    """Each number of an instance has the original's mean."""
    documents = random_documents(20, seed=6, sentences=(2, 30))
    corpus = make_corpus(documents)
    vocabulary = Vocabulary(
        60_000, 1, 2, 3, 4, list(range(60_000)), np.zeros(60_000, np.uint8)
    )
    names = ("instances", "label", "length_a", "length_b", "full", "cut")
    exact, streaming = [], []
    for seed in range(60):
        settings = make_settings(
            tmp_path, random_seed=seed, dupe_factor=1, **changes
        )
        counts = Statistics()
        instances = ExactInstances(corpus, vocabulary, settings, counts)
        pairs = np.frombuffer(instances._pairs, np.int64).reshape(-1, 6)
        length_a, length_b, labels = pairs[:, 1], pairs[:, 3], pairs[:, 4]
        for into, a, b, label, statistics in (
            (exact, length_a, length_b, labels, counts),
            (streaming, *_of_rows(*cut(CorpusParts([corpus]), settings)[1:])),
        ):
            into.append(
                (
                    len(a),
                    label.mean(),
                    a.mean(),
                    b.mean(),
                    (a + b == 29).mean(),
                    statistics.counts["truncated_tokens"] / len(a),
                )
            )
    exact, streaming = np.array(exact), np.array(streaming)
    error = np.sqrt((exact.var(0) + streaming.var(0)) / 60)
    z = (exact.mean(0) - streaming.mean(0)) / error
    assert (np.abs(z) < 4).all(), dict(zip(names, z, strict=True))


def _of_rows(rows, statistics):
    a, b = (rows[name].astype(int) for name in ("length_a", "length_b"))
    return a, b, rows["label"], statistics
