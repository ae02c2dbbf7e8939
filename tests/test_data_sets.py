"""Descriptions of data sets: layouts, paths, files of the user's own."""

import dataclasses

import pytest

from bert_tf.tasks.data_sets import (
    DataSet,
    Layout,
    SplitFile,
    custom_data_set,
)


def test_layout_in_words():
    layout = Layout(1, label=-1, names=("index", "text", "score"))
    assert layout.used() == {"text_a": 1, "label": -1}
    assert layout.describe() == (
        "a header line, tab-separated columns (from 0): 1 text (text_a), "
        "last score (label)"
    )
    bare = dataclasses.replace(layout, has_header=False)
    assert bare.describe().startswith("no header line")
    assert Layout("text").describe() == ""


def test_paths(tmp_path):
    split = SplitFile("sub/train.{language}.tsv", Layout(0))
    assert split.path(str(tmp_path), "ko") == str(
        tmp_path / "sub" / "train.ko.tsv"
    )
    assert split.path("gs://bucket/xnli/", "de") == (
        "gs://bucket/xnli/sub/train.de.tsv"
    )
    # A whole path of the user's own may hold braces.
    assert SplitFile("/data/{x}.tsv", Layout(0)).path(None) == "/data/{x}.tsv"


def test_splits_by_part():
    splits = {
        name: SplitFile(f"{name}.tsv", Layout(0))
        for name in ("train", "dev_matched", "dev_mismatched")
    }
    data_set = DataSet("some", splits)
    assert data_set.splits_of("dev") == ["dev_matched", "dev_mismatched"]
    assert data_set.split("dev") is splits["dev_matched"]
    with pytest.raises(ValueError, match="some has no test part, only train, "):
        data_set.split("test")


def test_unknown_kind():
    with pytest.raises(ValueError, match="kind 'ranking'"):
        DataSet("some", {}, kind="ranking")


class TestCustom:
    def test_names_mean_a_header_and_numbers_none(self):
        named = custom_data_set("text", label="2", train_file="t.tsv")
        numbered = custom_data_set("1", label=0, train_file="t.tsv")
        forced = custom_data_set(
            1, label=0, train_file="t.tsv", has_header=True
        )
        headers = [
            d.split("train").layout.has_header
            for d in (named, numbered, forced)
        ]
        assert headers == [True, False, True]

    def test_flags_of_the_files(self):
        data_set = custom_data_set(
            "t", label="l", train_file="a.csv", test_file="b.csv"
        )
        assert list(data_set.splits) == ["train", "test"]
        assert data_set.split("test").flag == "predict_file"
        assert data_set.split("train").path(None) == "a.csv"

    def test_a_test_file_needs_no_label(self):
        data_set = custom_data_set("t", test_file="b.csv")
        assert data_set.split("test").layout.label is None
        message = "--eval_file is given, but no --label_column"
        with pytest.raises(ValueError, match=message):
            custom_data_set("t", dev_file="b.csv")

    def test_no_file_and_unknown_kind(self):
        with pytest.raises(
            ValueError, match="no --train_file, --eval_file nor --pr"
        ):
            custom_data_set("t", label="l")
        with pytest.raises(ValueError, match="kind 'ranking'"):
            custom_data_set("t", test_file="b.csv", kind="ranking")
