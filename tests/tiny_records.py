"""Small pre-training records and models for tests."""

import json

import numpy as np

from bert_tf.pretraining_settings import dynamic_features, static_features
from bert_tf.records import RecordWriter

VOCAB_SIZE = 60
CLS, SEP, MASK = 1, 2, 3
CONFIG = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 24,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.02,
}


def write_config(folder, **changes) -> str:
    """Writes `bert_config.json`; returns its path."""
    path = folder / "bert_config.json"
    path.write_text(json.dumps({**CONFIG, **changes}))
    return str(path)


def make_rows(count, length, predictions, seed=0, whole_words=False):
    """Rows with the features of both kinds of records."""
    random = np.random.default_rng(seed)
    for _ in range(count):
        size = int(random.integers(8, length + 1))
        first = int(random.integers(2, size - 4))
        ids = random.integers(4, VOCAB_SIZE, size)
        ids[0], ids[first + 1], ids[size - 1] = CLS, SEP, SEP
        inside = np.setdiff1d(np.arange(1, size - 1), [first + 1])
        masked = int(random.integers(1, min(predictions, len(inside)) + 1))
        positions = np.sort(random.choice(inside, masked, replace=False))
        weights = np.zeros(predictions)
        weights[:masked] = 1
        yield {
            "input_ids": _padded(ids, length),
            "input_mask": _padded(np.ones(size, int), length),
            "segment_ids": _padded(
                (np.arange(size) > first + 1).astype(int), length
            ),
            "masked_lm_positions": _padded(positions, predictions),
            "masked_lm_ids": _padded(ids[positions], predictions),
            "masked_lm_weights": weights.tolist(),
            "next_sentence_labels": [int(random.integers(2))],
            "masking_vocabulary": [MASK, VOCAB_SIZE],
            "word_starts": _padded(np.isin(np.arange(size), inside), length),
        }


def _padded(values, length):
    out = np.zeros(length, int)
    out[: len(values)] = values
    return out.tolist()


def write_static(path, count, length=16, predictions=3, seed=0) -> str:
    """Writes records with masks; returns the path."""
    spec = static_features(length, predictions)
    return _write(path, spec, make_rows(count, length, predictions, seed))


def write_dynamic(
    path, count, length=16, predictions=3, seed=0, whole_words=False
) -> str:
    """Writes records without masks; returns the path."""
    spec = dynamic_features(length, whole_words)
    return _write(path, spec, make_rows(count, length, predictions, seed))


def _write(path, spec, rows):
    with RecordWriter(str(path)) as writer:
        for row in rows:
            writer.write(spec.serialize(row))
    return str(path)
