"""Exact mode against the original's procedure, written out plainly."""

import itertools
import random

import numpy as np
import pytest
from pretraining_text import make_settings, make_text, write_vocab

from bert_tf import records
from bert_tf.pretraining_corpus import CorpusBuilder
from bert_tf.pretraining_exact import ExactInstances
from bert_tf.pretraining_statistics import Statistics
from bert_tf.pretraining_vocabulary import Vocabulary, load_tokenizer


def flat(sentences):
    return list(itertools.chain.from_iterable(sentences))


def plain_instances(documents, vocabulary, settings):
    """What the original does, one step after the other (spec of its script).

    Returns (ids, segments, label, positions, labels) of each instance.
    """
    rng = random.Random(settings.random_seed)
    rng.shuffle(documents)
    room = settings.max_seq_length - 3
    out = []
    for _ in range(settings.dupe_factor):
        for index, document in enumerate(documents):
            target = room
            if rng.random() < settings.short_seq_prob:
                target = rng.randint(2, room)
            chunk, i = [], 0
            while i < len(document):
                chunk.append(document[i])
                size = sum(map(len, chunk))
                if i == len(document) - 1 or size >= target:
                    a_end = 1
                    if len(chunk) >= 2:
                        a_end = rng.randint(1, len(chunk) - 1)
                    a = flat(chunk[:a_end])
                    b = []
                    is_random = len(chunk) == 1 or rng.random() < 0.5
                    if is_random:
                        for _ in range(10):
                            other = rng.randint(0, len(documents) - 1)
                            if other != index:
                                break
                        start = rng.randint(0, len(documents[other]) - 1)
                        for sentence in documents[other][start:]:
                            b += sentence
                            if len(b) >= target - len(a):
                                break
                        i -= len(chunk) - a_end
                    else:
                        b = flat(chunk[a_end:])
                    while len(a) + len(b) > room:
                        longer = a if len(a) > len(b) else b
                        if rng.random() < 0.5:
                            del longer[0]
                        else:
                            longer.pop()
                    out.append(mask(a, b, is_random, vocabulary, settings, rng))
                    chunk = []
                i += 1
    rng.shuffle(out)
    return out


def mask(a, b, is_random, vocabulary, settings, rng):
    ids = [vocabulary.cls_id, *a, vocabulary.sep_id, *b, vocabulary.sep_id]
    segments = [0] * (len(a) + 2) + [1] * (len(b) + 1)
    candidates = []
    for position, id_ in enumerate(ids):
        if id_ in (vocabulary.cls_id, vocabulary.sep_id):
            continue
        if (
            settings.do_whole_word_mask
            and candidates
            and vocabulary.is_continuation[id_]
        ):
            candidates[-1].append(position)
        else:
            candidates.append([position])
    rng.shuffle(candidates)
    wanted = min(
        settings.max_predictions_per_seq,
        max(1, round(len(ids) * settings.masked_lm_prob)),
    )
    masked, count = [], 0
    new = list(ids)
    for word in candidates:
        if count >= wanted:
            break
        if count + len(word) > wanted:
            continue
        for position in word:
            count += 1
            masked.append((position, ids[position]))
            if rng.random() < 0.8:
                new[position] = vocabulary.mask_id
            elif rng.random() >= 0.5:
                size = len(vocabulary.replacements)
                new[position] = vocabulary.replacements[
                    rng.randint(0, size - 1)
                ]
    masked.sort()
    return (
        new,
        segments,
        int(is_random),
        [position for position, _ in masked],
        [id_ for _, id_ in masked],
    )


def build(documents, vocabulary, settings):
    builder = CorpusBuilder(vocabulary.size)
    for document in documents:
        for sentence in document:
            builder.add_sentence(sentence, None)
        builder.end_document()
    return ExactInstances(builder.corpus(), vocabulary, settings, Statistics())


def as_tuple(record):
    e = records.decode_example(record)
    length = sum(e["input_mask"])
    count = int(sum(e["masked_lm_weights"]))
    assert not any(e["input_ids"][length:])
    assert not any(e["masked_lm_positions"][count:])
    return (
        e["input_ids"][:length],
        e["segment_ids"][:length],
        e["next_sentence_labels"][0],
        e["masked_lm_positions"][:count],
        e["masked_lm_ids"][:count],
    )


@pytest.fixture
def vocabulary(tmp_path):
    return Vocabulary.of(load_tokenizer(write_vocab(tmp_path), True))


@pytest.mark.parametrize("whole_words", [False, True])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"max_seq_length": 12, "max_predictions_per_seq": 3},
        {"max_seq_length": 140, "max_predictions_per_seq": 30},
        {"short_seq_prob": 1.0, "random_seed": 7},
        {"masked_lm_prob": 0.9, "max_predictions_per_seq": 40},
        {"max_seq_length": 5, "dupe_factor": 1},
    ],
)
def test_the_procedure_of_the_original(
    tmp_path, vocabulary, whole_words, changes
):
    tokenizer = load_tokenizer(str(tmp_path / "vocab.txt"), True)
    documents = [
        [tokenizer.tokenize_to_ids(line) for line in document.splitlines()]
        for document in make_text(30, sentences=(1, 9)).split("\n\n")
    ]
    # A line far longer than an instance, and a document of one sentence.
    documents[3][0] *= 30
    documents[4] = [documents[4][0][:3]]
    settings = make_settings(
        tmp_path, do_whole_word_mask=whole_words, **changes
    )
    instances = build(documents, vocabulary, settings)
    ours = [as_tuple(r) for batch in instances.records() for r in batch]
    assert ours == plain_instances(documents, vocabulary, settings)
    assert len(ours) == len(instances) > 60


def test_one_document_takes_random_text_from_itself(tmp_path, vocabulary):
    documents = [[[10, 11, 12]] * 20]
    settings = make_settings(tmp_path)
    instances = build(documents, vocabulary, settings)
    ours = [as_tuple(r) for batch in instances.records() for r in batch]
    assert ours == plain_instances(documents, vocabulary, settings)
    assert any(label for _, _, label, _, _ in ours)


def test_word_starts_of_a_segmenter_make_words(tmp_path, vocabulary):
    builder = CorpusBuilder(vocabulary.size, with_word_starts=True)
    for _ in range(8):
        # Words of three tokens; every prediction count is below seven.
        builder.add_sentence([10, 11, 12] * 3, [1, 0, 0] * 3)
        builder.add_sentence([13, 14, 15] * 3, [1, 0, 0] * 3)
        builder.end_document()
    settings = make_settings(
        tmp_path,
        max_seq_length=40,
        max_predictions_per_seq=6,
        masked_lm_prob=0.3,
        do_whole_word_mask=True,
        short_seq_prob=0.0,
    )
    instances = ExactInstances(
        builder.corpus(), vocabulary, settings, Statistics()
    )
    for batch in instances.records():
        for record in batch:
            *_, positions, labels = as_tuple(record)
            assert len(positions) % 3 == 0 and positions
            groups = np.array(labels).reshape(-1, 3)
            assert all(
                g.tolist() in ([10, 11, 12], [13, 14, 15]) for g in groups
            )
