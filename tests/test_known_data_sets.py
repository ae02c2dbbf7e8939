"""The table of known data sets."""

import pytest

from bert_tf import metrics
from bert_tf.tasks.known_data_sets import DATA_SETS, find_data_set


def columns(name, split):
    layout = DATA_SETS[name].split(split).layout
    return layout.text_a, layout.text_b, layout.label, layout.has_header


def test_the_original_four():
    assert columns("cola", "train") == (3, None, 1, False)
    assert columns("cola", "dev") == (3, None, 1, False)
    assert columns("cola", "test") == (1, None, None, True)
    assert columns("mrpc", "train") == (3, 4, 0, True)
    assert columns("mrpc", "test") == (3, 4, None, True)
    assert columns("mnli", "train") == (8, 9, -1, True)
    assert columns("mnli", "dev_mismatched") == (8, 9, -1, True)
    assert columns("mnli", "test_matched") == (8, 9, None, True)
    assert columns("xnli", "train") == (0, 1, 2, True)
    assert columns("xnli", "dev") == (6, 7, 1, True)
    # The original has no reader for it; it is laid out as the dev file.
    assert columns("xnli", "test") == (6, 7, 1, True)
    nli = ("contradiction", "entailment", "neutral")
    labels = [DATA_SETS[k].labels for k in ("cola", "mrpc", "mnli", "xnli")]
    assert labels == [("0", "1"), ("0", "1"), nli, nli]


def test_all_of_glue():
    assert list(DATA_SETS) == [
        "cola",
        "sst-2",
        "mrpc",
        "qqp",
        "sts-b",
        "mnli",
        "qnli",
        "rte",
        "wnli",
        "ax",
        "xnli",
    ]
    submissions = {
        split.submission: split.submission_rows
        for data_set in DATA_SETS.values()
        for split in data_set.splits.values()
        if split.submission
    }
    assert submissions == {
        "CoLA.tsv": 1063,
        "SST-2.tsv": 1821,
        "MRPC.tsv": 1725,
        "QQP.tsv": 390965,
        "STS-B.tsv": 1379,
        "MNLI-m.tsv": 9796,
        "MNLI-mm.tsv": 9847,
        "QNLI.tsv": 5463,
        "RTE.tsv": 3000,
        "WNLI.tsv": 146,
        "AX.tsv": 1104,
    }


@pytest.mark.parametrize("data_set", DATA_SETS.values(), ids=lambda d: d.name)
def test_rows_are_consistent(data_set):
    assert set(data_set.metrics) <= set(metrics.SCORES)
    assert (data_set.labels is None) == (data_set.kind == "regression")
    for split in data_set.splits.values():
        for column in split.layout.used().values():
            assert split.layout.names[column]


def test_official_scores():
    official = {name: d.metrics[0] for name, d in DATA_SETS.items()}
    assert official["cola"] == official["ax"] == "matthews"
    assert official["mrpc"] == official["qqp"] == "f1"
    assert DATA_SETS["sts-b"].metrics == ("pearson", "spearman")
    assert official["mnli"] == official["xnli"] == "accuracy"


def test_finding_by_name():
    assert find_data_set("MRPC") is DATA_SETS["mrpc"]
    assert find_data_set("STSB") is find_data_set("sts-b")
    with pytest.raises(ValueError, match=r"no task 'imdb'; known: cola, sst-2"):
        find_data_set("imdb")
