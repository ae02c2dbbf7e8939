"""Settings of pre-training data, and what a record holds."""

import pytest

from bert_tf import records
from bert_tf.pretraining_settings import (
    PretrainingDataSettings,
    dynamic_features,
    features_of_record,
    prediction_counts,
    static_features,
)


def make(**changes):
    return PretrainingDataSettings("in", "out", "vocab", **changes)


def test_defaults_are_those_of_the_original():
    settings = make()
    assert settings.do_lower_case and not settings.do_whole_word_mask
    assert (settings.max_seq_length, settings.max_predictions_per_seq) == (
        128,
        20,
    )
    assert (settings.random_seed, settings.dupe_factor) == (12345, 10)
    assert (settings.masked_lm_prob, settings.short_seq_prob) == (0.15, 0.1)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_seq_length", 4),
        ("max_seq_length", 1 << 15),
        ("max_predictions_per_seq", 0),
        ("dupe_factor", 0),
        ("num_workers", -1),
        ("masked_lm_prob", 0.0),
        ("masked_lm_prob", 1.5),
        ("short_seq_prob", -0.1),
        ("mode", "fast"),
        ("masking", "none"),
        ("compression", "ZLIB"),
        ("encoding_errors", "replace"),
        ("input_file", ""),
        ("output_file", ""),
    ],
)
def test_a_value_that_cannot_be_is_named(name, value):
    with pytest.raises(ValueError, match=f"--{name} is {value!r}, expected"):
        PretrainingDataSettings(
            **{
                "input_file": "in",
                "output_file": "out",
                "vocab_file": "vocab",
                name: value,
            }
        )


def test_flags_that_exclude_each_other():
    with pytest.raises(ValueError, match="--masking=dynamic"):
        make(masking="dynamic", mode="exact")
    with pytest.raises(ValueError, match="--do_whole_word_mask"):
        make(word_segmenter="jieba")
    assert make(word_segmenter="jieba", do_whole_word_mask=True)


def test_outputs_and_manifest():
    settings = PretrainingDataSettings("in", "a/b@2, c", "vocab")
    assert settings.output_paths() == [
        "a/b-00000-of-00002",
        "a/b-00001-of-00002",
        "c",
    ]
    # A pattern for the records, a/b*, must not find the manifest.
    assert settings.manifest_path() == "a/manifest-b.json"
    with pytest.raises(ValueError, match="names c twice"):
        PretrainingDataSettings("in", "c,c", "vocab").output_paths()


def test_prediction_counts_round_to_even_and_are_at_least_one():
    counts = prediction_counts(70, 8, 0.15)
    # 30 * 0.15 = 4.5 and 50 * 0.15 = 7.5 lie half way.
    assert [counts[n] for n in (0, 5, 30, 50, 70)] == [1, 1, 4, 8, 8]


@pytest.mark.parametrize("whole_words", [False, True])
def test_features_of_record_tells_both_kinds(whole_words):
    spec = static_features(8, 2)
    record = spec.padding_record()
    found = features_of_record(record, "file", 8, 2)
    assert found.names() == spec.names()
    spec = dynamic_features(8, whole_words)
    found = features_of_record(spec.padding_record(), "file", 8, 2)
    assert found.names() == spec.names()
    assert ("word_starts" in found.names()) == whole_words


def test_features_of_record_compares_with_the_flags():
    record = static_features(8, 2).padding_record()
    with pytest.raises(ValueError, match=r"file: .*8 values, expected 16"):
        features_of_record(record, "file", 16, 2)
    with pytest.raises(ValueError, match=r"2 values, expected 3.*--max_pred"):
        features_of_record(record, "file", 8, 3)
    other = records.FeatureSpec([records.Feature("input_ids", (8,))])
    with pytest.raises(ValueError, match="no feature masked_lm_ids"):
        features_of_record(other.padding_record(), "file", 8, 2)
