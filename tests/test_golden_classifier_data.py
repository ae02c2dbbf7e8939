"""Classifier data against the original: examples, features, records."""

import collections
import gzip
import json

import numpy as np
import pytest

from bert_tf import metrics, packing
from bert_tf.records import decode_example, read_records
from bert_tf.tasks import prediction_files
from bert_tf.tasks.classification_data import read_split
from bert_tf.tasks.classification_features import feature_spec, featurize
from bert_tf.tasks.data_sets import custom_data_set
from bert_tf.tasks.known_data_sets import DATA_SETS, find_data_set
from bert_tf.tasks.labels import read_labels
from bert_tf.tokenization import FullTokenizer


def read_json(path):
    return json.loads(path.read_text("utf-8"))


def settings(golden_dir):
    return read_json(golden_dir / "classifier" / "settings.json")


@pytest.fixture(scope="module")
def tokenizers(golden_dir, data_dir):
    made = {}

    def tokenizer(setting):
        vocab, lower = setting["vocab"], setting["do_lower_case"]
        path = golden_dir / vocab
        if not path.exists():
            path = data_dir / "vocab" / vocab
        if (vocab, lower) not in made:
            made[vocab, lower] = FullTokenizer(str(path), lower)
        return made[vocab, lower]

    return tokenizer


def our_examples(golden_dir, setting):
    data_set = find_data_set(setting["task"])
    (split, *_) = data_set.splits_of(setting["split"])
    folder = golden_dir / "classifier" / "data" / setting["task"]
    return list(read_split(data_set, split, str(folder)))


def our_features(golden_dir, setting, tokenizers):
    labels = find_data_set(setting["task"]).labels
    assert list(labels) == setting["labels"]
    tokenizer = tokenizers(setting)
    return [
        featurize(example, labels, setting["max_seq_length"], tokenizer)
        for example in our_examples(golden_dir, setting)
    ]


def test_examples_and_features(golden_dir, tokenizers):
    cases = settings(golden_dir)
    assert {case["task"] for case in cases} == {"CoLA", "MNLI", "MRPC", "XNLI"}
    for case in cases:
        path = golden_dir / "classifier" / f"{case['name']}.features.jsonl.gz"
        with gzip.open(path, "rt", encoding="utf-8") as stream:
            expected = [json.loads(line) for line in stream]
        examples = our_examples(golden_dir, case)
        features = our_features(golden_dir, case, tokenizers)
        assert len(examples) == case["examples"]
        assert len(expected) == case["examples"] + case["padding_examples"]
        for example, found, wanted in zip(
            examples, features, expected, strict=False
        ):
            where = f"{case['name']} {wanted['guid']}"
            assert example.guid == wanted["guid"], where
            assert example.text_a == wanted["text_a"], where
            assert example.text_b == wanted["text_b"], where
            if case["split"] != "test":
                assert example.label == wanted["label"], where
            assert found["label_ids"] == wanted["label_id"], where
            for name in ("input_ids", "input_mask", "segment_ids"):
                assert found[name] == wanted[name], f"{where} {name}"


def test_records(golden_dir, tokenizers):
    compared = 0
    for case in settings(golden_dir):
        if not case["tf_record"]:
            continue
        path = golden_dir / "classifier" / f"{case['name']}.tf_record"
        expected = [decode_example(r) for r in read_records(str(path))]
        spec = feature_spec(case["max_seq_length"])
        ours = [
            spec.serialize(values)
            for values in our_features(golden_dir, case, tokenizers)
        ]
        ours += [spec.padding_record()] * case["padding_examples"]
        assert [decode_example(r) for r in ours] == expected, case["name"]
        compared += len(ours)
    assert compared == 183


def test_pair_truncation(golden_dir):
    cases = read_json(golden_dir / "classifier" / "truncate_seq_pair.json")
    assert cases
    for case in cases:
        a = list(range(case["len_a"]))
        b = [100 + i for i in range(case["len_b"])]
        packing.truncate_pair(a, b, case["max_length"])
        assert (a, b) == (case["a"], case["b"]), case


def test_scores_and_result_file(golden_dir, tmp_path):
    """The original's probabilities give its scores and its file again.

    Its MNLI test file holds the texts of its dev file in the same order.
    """
    folder = golden_dir / "end_to_end"
    results = folder / "classifier_MNLI_test_results.tsv"
    probabilities = np.loadtxt(results, dtype=np.float32, delimiter="\t")
    data = str(golden_dir / "classifier" / "data" / "MNLI")
    mnli = DATA_SETS["mnli"]
    dev = list(read_split(mnli, "dev_matched", data))
    test = list(read_split(mnli, "test_matched", data))
    assert [e.text_a for e in dev] == [e.text_a for e in test]
    labels = [mnli.labels.index(example.label) for example in dev]
    losses = -np.log(probabilities[np.arange(len(labels)), labels])
    lines = (folder / "classifier_MNLI_eval_results.txt").read_text()
    expected = {
        key: float(value)
        for key, value in (line.split(" = ") for line in lines.splitlines())
    }
    found = {
        "eval_accuracy": metrics.accuracy(labels, probabilities.argmax(1)),
        "eval_loss": metrics.weighted_mean(losses),
        "loss": metrics.mean_of_batch_means(losses, 5),
        "global_step": 0,
    }
    assert found == pytest.approx(expected, abs=2e-6)
    path = tmp_path / "test_results.tsv"
    prediction_files.write_test_results(path, probabilities)
    assert path.read_bytes() == results.read_bytes()


KNOWN = {
    "cls_cola_layout_blimp": ("cola", 5360, 2010),
    "cls_sst2_layout_polarity": ("sst-2", 8500, 1000),
    "pair_mnli_layout_snli": ("mnli", 7802, 2040),
    "pair_mrpc_layout_pawsx_de": ("mrpc", 1600, 400),
    "pair_qnli_layout_squad": ("qnli", 1863, 377),
    "pair_xnli_layout_klue_ko": ("xnli", 2200, 800),
    "reg_stsb_layout_jsts_ja": ("sts-b", 4000, 1457),
}


@pytest.mark.parametrize("folder", KNOWN)
def test_real_data_of_known_layout(data_dir, folder, caplog):
    name, *counts = KNOWN[folder]
    data_set = DATA_SETS[name]
    for part, count in zip(("train", "dev"), counts, strict=True):
        (split, *_) = data_set.splits_of(part)
        path = str(data_dir / folder)
        rows = list(read_split(data_set, split, path, language="ko"))
        assert len(rows) == count
    assert not caplog.records


CUSTOM = {
    "cls_sms_spam": (("train.tsv", "dev.tsv"), 1, 0, 4500, 1074),
    "cls_banking77": (
        ("train.csv", "test.csv"),
        "text",
        "category",
        10003,
        3080,
    ),
    "cls_zh_poetry": (("train.tsv", "dev.tsv"), "text_a", "label", 3200, 600),
    "long_movie_reviews": (("train.tsv", "dev.tsv"), "text", "label", 700, 200),
    "reg_emobank": (("train.csv", "dev.csv"), "text", "V", 8062, 1000),
    "ml_goemotions": (("train.tsv", "dev.tsv"), 0, 1, 12000, 3000),
}


@pytest.mark.parametrize("folder", CUSTOM)
def test_real_data_of_other_layout(data_dir, folder, caplog):
    names, text, label, *counts = CUSTOM[folder]
    train, dev = (str(data_dir / folder / name) for name in names)
    kind = {"r": "regression", "m": "multi_label"}.get(folder[0])
    data_set = custom_data_set(
        text,
        label=label,
        train_file=train,
        dev_file=dev,
        kind=kind or "classification",
        labels_are_numbers=kind == "multi_label",
    )
    labels = None
    if kind == "multi_label":
        labels = read_labels(data_dir / folder / "labels.txt")
    for part, count in zip(("train", "dev"), counts, strict=True):
        rows = list(read_split(data_set, part, labels=labels))
        assert len(rows) == count
        found = collections.Counter(row.label for row in rows)
        assert len(found) > 1
    assert not caplog.records
