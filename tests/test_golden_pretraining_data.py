"""Pre-training data against records and statistics of the original."""

import gzip
import hashlib
import json
import shutil

import numpy as np
import pytest

from bert_tf import records
from bert_tf.pretraining_data import create_pretraining_data
from bert_tf.pretraining_settings import (
    PretrainingDataSettings,
    static_features,
)
from bert_tf.tokenization import FullTokenizer

RUNS = (
    "sample_s64",
    "sample_s128",
    "sample_s64_wwm",
    "sample_s128_wwm",
    "doc3_s64",
    "doc3_s128_wwm",
    "both_s64_shards2_short0.5",
    "doc3_cased_s64",
    "edge_s32",
)
STATISTICS = (
    "the-time-machine",
    "the-time-machine_wwm",
    "the-time-machine_s512",
    "synthetic",
    "synthetic_wwm",
    "synthetic_short1",
)


def _named(golden_dir, file, name):
    listed = json.loads((golden_dir / "pretraining_data" / file).read_text())
    return next(entry for entry in listed if entry["name"] == name)


@pytest.mark.parametrize("name", RUNS)
def test_exact_mode_makes_the_bytes_of_the_original(golden_dir, tmp_path, name):
    folder = golden_dir / "pretraining_data"
    run = _named(golden_dir, "settings.json", name)
    shards = len(run["records_per_shard"])
    output = str(tmp_path / "out") + (f"@{shards}" if shards > 1 else "")
    settings = PretrainingDataSettings(
        input_file=",".join(str(folder / each) for each in run["inputs"]),
        output_file=output,
        vocab_file=str(golden_dir / run["vocab"]),
        **run["flags"],
    )
    statistics = create_pretraining_data(settings)

    with gzip.open(folder / f"{name}.features.jsonl.gz", "rt") as stream:
        features = [json.loads(line) for line in stream]
    decoded = []
    for shard, path in enumerate(settings.output_paths()):
        suffix = f"-{shard:05d}-of-{shards:05d}" if shards > 1 else ""
        ours = list(records.read_records(path))
        theirs = records.read_records(str(folder / f"{name}.tf_record{suffix}"))
        assert ours == list(theirs)
        decoded += [
            {**records.decode_example(record), "shard": shard}
            for record in ours
        ]
    by_shard = sorted(features, key=lambda each: each["shard"])
    assert decoded == by_shard
    summary = run["summary"]
    counts = statistics.counts
    assert counts["instances"] == summary["instances"]
    assert counts["instance_tokens"] == summary["real_tokens"]
    assert counts["masked"] == summary["masked"]["count"]
    assert counts["masked_as_mask"] == summary["mask_token"]["count"]
    assert counts["masked_kept"] == summary["kept"]["count"]
    assert counts["masked_random"] == summary["random"]["count"]
    assert counts["random_next"] == summary["random_next"]["count"]
    assert {str(k): v for k, v in statistics.lengths.items()} == summary[
        "length_histogram"
    ]


@pytest.fixture(scope="module")
def corpus_run(golden_dir, data_dir, tmp_path_factory):
    """Runs one entry of the statistics in a mode; decoded records."""

    def run(name, **changes):
        entry = _named(golden_dir, "statistics.json", name)
        folder = tmp_path_factory.mktemp("corpus")
        text = folder / "text.txt"
        if entry["input"].endswith(".gz"):
            source = golden_dir / "pretraining_data" / entry["input"]
            with gzip.open(source) as packed, open(text, "wb") as plain:
                shutil.copyfileobj(packed, plain)
        else:
            shutil.copy(data_dir / "corpus_en" / entry["input"], text)
        assert _sha256(text) == entry["input_sha256"]
        vocab = golden_dir / entry["vocab"]
        if not vocab.exists():
            vocab = data_dir / "vocab" / entry["vocab"]
        assert _sha256(vocab) == entry["vocab_sha256"]
        settings = PretrainingDataSettings(
            input_file=str(text),
            output_file=str(folder / "out"),
            vocab_file=str(vocab),
            num_workers=1,
            **{**entry["flags"], **changes},
        )
        statistics = create_pretraining_data(settings)
        return entry, settings, statistics

    return run


def _sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _summary(settings):
    """Counts of records, as the reference data has them."""
    tokenizer = FullTokenizer(settings.vocab_file, settings.do_lower_case)
    special = [
        i
        for piece, i in tokenizer.vocab.items()
        if piece.startswith("[") and piece.endswith("]") and len(piece) > 2
    ]
    spec = static_features(
        settings.max_seq_length, settings.max_predictions_per_seq
    )
    found = spec.parse(list(records.read_records(settings.output_file)))
    found = {name: value.numpy() for name, value in found.items()}
    is_real = found["masked_lm_weights"] > 0
    positions = found["masked_lm_positions"]
    labels = found["masked_lm_ids"][is_real]
    new = np.take_along_axis(found["input_ids"], positions, 1)[is_real]
    segments = np.take_along_axis(found["segment_ids"], positions, 1)
    # Those of an instance ascend, so that doubles are neighbours.
    same = (np.diff(positions, axis=1) == 0) & is_real[:, 1:]
    lengths = found["input_mask"].sum(1)
    is_mask, is_kept = new == tokenizer.mask_id, new == labels
    is_random = ~is_mask & ~is_kept
    counts = {
        "instances": len(lengths),
        "real_tokens": lengths.sum(),
        "masked": is_real.sum(),
        "mask_token": is_mask.sum(),
        "kept": (is_kept & ~is_mask).sum(),
        "random": is_random.sum(),
        "special_random": np.isin(new[is_random], special).sum(),
        "random_next": found["next_sentence_labels"].sum(),
        "full": (lengths == settings.max_seq_length).sum(),
        "segment_1": segments[is_real].sum(),
        "bad_labels": np.isin(
            labels, (tokenizer.cls_id, tokenizer.sep_id)
        ).sum(),
        "duplicates": same.sum(),
    }
    return {name: int(count) for name, count in counts.items()}


FRACTIONS = {
    # name in the reference data: count of ours, of what
    "masked": ("masked", "real_tokens"),
    "mask_token": ("mask_token", "masked"),
    "kept": ("kept", "masked"),
    "random": ("random", "masked"),
    "random_replacement_is_special_or_unused": ("special_random", "random"),
    "random_next": ("random_next", "instances"),
    "instances_at_full_length": ("full", "instances"),
    "masked_in_segment_1": ("segment_1", "masked"),
}


@pytest.mark.parametrize("name", STATISTICS)
def test_exact_mode_gives_the_statistics_themselves(corpus_run, name):
    entry, settings, statistics = corpus_run(name, mode="exact")
    ours, theirs = _summary(settings), entry["summary"]
    assert ours["instances"] == theirs["instances"]
    for key, (count, of) in FRACTIONS.items():
        assert (ours[count], ours[of]) == (
            theirs[key]["count"],
            theirs[key]["of"],
        ), key
    assert statistics.counts["masked"] == ours["masked"]
    assert statistics.counts["random_next"] == ours["random_next"]


SEEDS = range(8)


@pytest.mark.parametrize("name", STATISTICS)
def test_streaming_mode_has_the_means_of_the_original(corpus_run, name):
    """Instances of a document vary together, seeds do not: they are counted.

    Other seeds of the original are exact mode's, whose records are its own.
    """
    values = {"exact": [], "streaming": []}
    for mode, into in values.items():
        for seed in SEEDS:
            _, settings, statistics = corpus_run(
                name, mode=mode, random_seed=seed, dupe_factor=2
            )
            found = _summary(settings)
            assert found["bad_labels"] == found["duplicates"] == 0
            assert statistics.counts["masked_as_mask"] == found["mask_token"]
            assert statistics.counts["full_length"] == found["full"]
            fractions = [
                found[count] / found[of] for count, of in FRACTIONS.values()
            ]
            into.append([found["instances"], *fractions])
    exact, streaming = map(np.array, values.values())
    variance = exact.var(0, ddof=1) + streaming.var(0, ddof=1)
    z = (streaming.mean(0) - exact.mean(0)) / np.sqrt(variance / len(SEEDS))
    assert (np.abs(z) < 4).all(), dict(
        zip(["instances", *FRACTIONS], z, strict=True)
    )
