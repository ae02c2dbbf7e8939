"""Label lists and the labels in cells."""

import collections

import pytest

from bert_tf.tasks import labels
from bert_tf.tasks.data_sets import DataSet


def data_set(**options):
    return DataSet("some", {}, **options)


class TestCheck:
    def test_ints_become_strings(self):
        assert labels.check_labels([0, 1]) == ["0", "1"]
        assert labels.check_labels(("neg", "pos")) == ["neg", "pos"]

    @pytest.mark.parametrize(
        ("given", "message"),
        [
            ([], "is empty; .* choose regression"),
            (["a", 1, "1"], "more than once: 1"),
            (["a"], "the only label is 'a'; a classifier needs two"),
            (["a", ""], "must not be empty"),
            (["a", "b\nc"], "nor hold line ends"),
            ([0.0, 1.0], "label 0.0 is a float"),
            ([True, False], "label True is a bool"),
            ("01", "the string '01', expected a list"),
        ],
    )
    def test_refused(self, given, message):
        with pytest.raises(ValueError, match=message):
            labels.check_labels(given)

    def test_one_label_is_enough_for_multi_label(self):
        assert labels.check_labels(["toxic"], "multi_label") == ["toxic"]

    def test_sorted_by_value_or_by_code_point(self):
        assert labels.sort_labels({"10", "9", "-1"}) == ["-1", "9", "10"]
        assert labels.sort_labels({"b", "B", "10", "9"}) == [
            "10",
            "9",
            "B",
            "b",
        ]


class TestFile:
    def test_round_trip(self, tmp_path):
        path = tmp_path / "labels.txt"
        given = [" pos", "neg", "唐诗", "a\u2028b"]
        labels.write_labels(path, given)
        assert labels.read_labels(path) == given
        assert path.read_bytes().startswith(b" pos\nneg\n")

    def test_byte_order_mark_crlf_and_no_last_line_end(self, tmp_path):
        path = tmp_path / "labels.txt"
        path.write_bytes("\ufeffneg\r\npos".encode())
        assert labels.read_labels(path) == ["neg", "pos"]

    def test_faults_name_the_file(self, tmp_path):
        path = tmp_path / "labels.txt"
        with pytest.raises(ValueError, match=r"no file of labels .*labels\.t"):
            labels.read_labels(path)
        path.write_bytes(b"a\n\nb\n")
        with pytest.raises(ValueError, match=r"labels\.txt: label '': a label"):
            labels.read_labels(path)
        path.write_bytes(b"a\n\xff\n")
        with pytest.raises(ValueError, match=r"labels\.txt is not UTF-8"):
            labels.read_labels(path)


class TestChoose:
    def test_order_of_sources(self):
        known = data_set(labels=("0", "1"))
        assert labels.choose_labels(known) == ["0", "1"]
        assert labels.choose_labels(data_set(), [1, 0]) == ["1", "0"]
        assert labels.choose_labels(data_set(), None, ["b", "a"]) == ["b", "a"]
        assert labels.choose_labels(data_set()) is None

    def test_another_list_in_the_run_folder(self):
        with pytest.raises(ValueError, match=r"lists 1, 0, but .* are 0, 1"):
            labels.choose_labels(data_set(labels=("0", "1")), None, ["1", "0"])


class TestParse:
    def parse(self, cell, allowed=("0", "1"), **options):
        return labels.parse_label(cell, data_set(**options), allowed, "f:1")

    def test_classes(self):
        assert self.parse("1") == "1"
        assert self.parse(1) == "1"
        assert self.parse("x", None) == "x"
        assert self.parse(True, None) == "true"
        aliases = {"contradictory": "0"}
        assert self.parse("contradictory", label_aliases=aliases) == "0"

    @pytest.mark.parametrize(
        ("cell", "message"),
        [
            ("2", r"^f:1: found label '2', allowed: '0', '1'$"),
            (" 1", "allowed: '0', '1'; it differs from '1' by blanks or case"),
            ("", "f:1: the label is empty"),
            (None, "f:1: found nothing, expected a label"),
            (1.5, "f:1: found 1.5, expected a label"),
        ],
    )
    def test_wrong_classes(self, cell, message):
        with pytest.raises(ValueError, match=message):
            self.parse(cell)

    def test_positions_in_the_list(self):
        options = {"labels_are_numbers": True, "allowed": ["joy", "anger"]}
        assert self.parse("1", **options) == "anger"
        for cell in ("2", "joy", "-1"):
            with pytest.raises(ValueError, match="position of one of 2 labels"):
                self.parse(cell, **options)
        with pytest.raises(ValueError, match="need a list of labels"):
            self.parse("1", None, labels_are_numbers=True)

    def test_numbers(self):
        options = {"kind": "regression", "allowed": None}
        assert self.parse("3.25", **options) == 3.25
        assert self.parse(2, **options) == 2.0
        for cell in ("good", "", "nan", "inf", None, True):
            with pytest.raises(ValueError, match=r"f:1: .* finite number"):
                self.parse(cell, **options)

    def test_several(self):
        options = {"kind": "multi_label", "allowed": ["a", "b", "c"]}
        assert self.parse("a, c", **options) == ("a", "c")
        assert self.parse("", **options) == ()
        assert self.parse(["b"], **options) == ("b",)
        assert self.parse("c|a", label_separator="|", **options) == ("c", "a")
        with pytest.raises(ValueError, match="found label 'd'"):
            self.parse("a,d", **options)


class TestWarnings:
    def warn(self, caplog, counts, first=None):
        labels.warn_about_labels(collections.Counter(counts), first, "t.tsv")
        return caplog.text

    def test_header_read_as_data(self, caplog):
        counts = {"label": 1, "a": 5, "b": 4}
        assert "'label' stands in the first row" in self.warn(
            caplog, counts, "label"
        )

    def test_wrong_column(self, caplog):
        counts = {f"text {i}": 1 for i in range(30)}
        assert "30 different labels in 30 rows" in self.warn(caplog, counts)

    def test_near_twins(self, caplog):
        assert "'Pos' and 'pos ' differ" in self.warn(
            caplog, {"Pos": 3, "pos ": 2, "neg": 1}
        )

    def test_quiet_otherwise(self, caplog):
        assert not self.warn(caplog, {"a": 1, "b": 4}, "b")
