"""Examples from files in their layouts, and every way a file can be wrong."""

import logging
import math

import pytest

from bert_tf.tasks import classification_data
from bert_tf.tasks.classification_data import (
    examples_from_texts,
    find_labels,
    find_languages,
    read_split,
)
from bert_tf.tasks.data_sets import custom_data_set
from bert_tf.tasks.known_data_sets import DATA_SETS

COLA_TRAIN = "bc\t1\t\tIt works.\nbc\t0\t*\tWorks it.\n"
MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
MNLI_HEADER = "\t".join(DATA_SETS["mnli"].split("train").layout.names)


@pytest.fixture
def write(tmp_path):
    def write_file(name, content):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(content.encode("utf-8"))
        return str(path)

    return write_file


def read(name, split, folder, **options):
    return list(read_split(DATA_SETS[name], split, str(folder), **options))


def test_training_rows(tmp_path, write):
    path = write("train.tsv", COLA_TRAIN)
    first, second = read("cola", "train", tmp_path)
    assert first.guid == "train-0" and first.label == "1"
    assert (first.text_a, first.text_b) == ("It works.", None)
    assert second.where == f"{path}, line 2" and second.has_label


def test_test_rows_have_ids_and_no_label(tmp_path, write):
    write("test.tsv", "index\tsentence\n7\tIt works.\n9\tx\n")
    first, second = read("cola", "test", tmp_path)
    assert (first.guid, first.id) == ("test-1", "7")
    assert first.label is None and not first.has_label
    assert second.id == "9"


def test_mnli_takes_its_last_column(tmp_path, write):
    cells = ["0", "31", "31c", "fiction", "", "", "", "", "a", "b"]
    row = "\t".join([*cells, "neutral", "contradiction"])
    header = MNLI_HEADER.replace("gold_label", "label1\tgold_label")
    for part in ("train", "dev_matched", "dev_mismatched"):
        write(f"{part}.tsv", f"{header}\n{row}\n")
        (example,) = read("mnli", part, tmp_path)
        assert example.guid == f"{part}-0"
        assert example.label == "contradiction"
        assert (example.text_a, example.text_b) == ("a", "b")


def test_xnli_languages(tmp_path, write):
    names = DATA_SETS["xnli"].split("dev").layout.names
    rows = ["\t".join(names)]
    for language in ("de", "zh", "de"):
        cells = [language, "neutral", "", "", "", "", f"{language} a", "b"]
        rows.append("\t".join(cells + ["x"] * (len(names) - 8)))
    write("xnli.dev.tsv", "\n".join(rows) + "\n")
    write("xnli.test.tsv", "\n".join(rows) + "\n")
    xnli = DATA_SETS["xnli"]
    assert find_languages(xnli, "dev", str(tmp_path)) == ["de", "zh"]
    assert [e.guid for e in read("xnli", "dev", tmp_path)] == ["dev-2"]
    german = read("xnli", "test", tmp_path, language="de", with_labels=True)
    assert [e.guid for e in german] == ["test-1", "test-3"]
    assert [e.label for e in german] == ["neutral", "neutral"]
    with pytest.raises(ValueError, match="language 'fr'; found de, zh"):
        read("xnli", "dev", tmp_path, language="fr")


def test_xnli_training_file_by_language(tmp_path, write):
    path = write(
        "multinli/multinli.train.ko.tsv",
        "premise\thypo\tlabel\nx\ty\tcontradictory\n",
    )
    (example,) = read("xnli", "train", tmp_path, language="ko")
    assert example.label == "contradiction"
    with pytest.raises(ValueError) as error:
        read("xnli", "train", tmp_path)
    wanted = path.replace(".ko.", ".zh.")
    assert str(error.value).startswith(f"--data_dir: no file {wanted}; the f")


def test_counts_are_logged(tmp_path, write, caplog):
    caplog.set_level(logging.INFO, "bert_tf")
    write("test.tsv", "index\tsentence\n0\ta\n1\tb\n")
    read("cola", "test", tmp_path)
    assert "test.tsv: 2 rows read, 1 header line skipped" in caplog.text


class TestFaults:
    def fails(self, folder, name, split, message, **options):
        with pytest.raises(ValueError, match=message):
            read(name, split, folder, **options)

    def test_missing_file_is_told_before_reading(self, tmp_path):
        with pytest.raises(ValueError, match="--data_dir: no file"):
            read_split(DATA_SETS["cola"], "train", str(tmp_path))

    def test_no_such_part(self, tmp_path):
        self.fails(tmp_path, "ax", "train", "ax has no train part, only test")

    def test_label_outside_the_list(self, tmp_path, write):
        write("train.tsv", COLA_TRAIN + "bc\t2\t\tx\n")
        self.fails(
            tmp_path,
            "cola",
            "train",
            r"train\.tsv, line 3: found label '2', allowed: '0', '1'; exp",
        )

    def test_files_of_another_task(self, tmp_path, write):
        write("train.tsv", MRPC_HEADER + "1\t7\t8\tx\ty\n")
        self.fails(
            tmp_path,
            "cola",
            "train",
            r"line 1: found label '#1 ID'.*is line 1 a header\?; expected "
            r"layout: cola train: no header line, .*1 label \(label\)",
        )
        write("train.tsv", COLA_TRAIN)
        self.fails(
            tmp_path,
            "mrpc",
            "train",
            r"line 1: found 4 columns, expected at least 5; expected layout: "
            r"mrpc train: a header line, .*3 #1 String \(text_a\)",
        )

    def test_missing_column(self, tmp_path, write):
        write("train.tsv", MRPC_HEADER + "1\t7\t8\tx\ty\n1\t7\t8\tx\n")
        self.fails(
            tmp_path,
            "mrpc",
            "train",
            r"train\.tsv, line 3: found 4 columns, expected at least 5; exp",
        )

    def test_row_count_may_be_kept_by_skipping(self, tmp_path, write, caplog):
        write("train.tsv", MRPC_HEADER + "1\t7\t8\tx\n1\t7\t8\tx\ty\n")
        rows = read("mrpc", "train", tmp_path, on_bad_row="skip")
        assert [e.guid for e in rows] == ["train-2"]
        assert "1 row malformed and skipped: line 2" in caplog.text

    def test_labels_asked_of_a_file_without(self, tmp_path, write):
        write("test.tsv", "index\tsentence\n0\tx\n")
        self.fails(
            tmp_path, "cola", "test", "test.tsv has no labels", with_labels=True
        )


class TestCustom:
    def test_columns_by_name_in_any_order(self, write):
        path = write("t.tsv", "id\tlabel\ttext\n9\tpos\tgood\n8\tneg\tbad\n")
        data_set = custom_data_set(
            "text", label="label", id="id", train_file=path, dev_file=path
        )
        assert find_labels(data_set) == ["neg", "pos"]
        first, _ = read_split(data_set, "dev", labels=["neg", "pos"])
        assert (first.text_a, first.label, first.id) == ("good", "pos", "9")

    def test_test_file_needs_neither_label_column_nor_valid_label(self, write):
        train = write("t.csv", "text,label\na,neg\nb,pos\n")
        test = write("p.csv", 'text\n\n"x, y"\n')
        data_set = custom_data_set(
            "text", label="label", train_file=train, test_file=test
        )
        rows = list(read_split(data_set, "test", labels=["neg", "pos"]))
        assert [(e.text_a, e.label, e.id) for e in rows] == [
            ("", None, "0"),
            ("x, y", None, "1"),
        ]

    def test_json_lines_with_pairs(self, write):
        path = write(
            "t.jsonl",
            '{"a": "x", "b": "y", "l": 1}\n{"a": "x", "b": null, "l": 0}\n',
        )
        data_set = custom_data_set("a", "b", label="l", train_file=path)
        assert find_labels(data_set) == ["0", "1"]
        rows = list(read_split(data_set, "train"))
        assert [(e.text_b, e.label) for e in rows] == [("y", "1"), (None, "0")]

    @pytest.mark.parametrize("value", ["NaN", "null", "3"])
    def test_text_that_is_no_string(self, write, value):
        path = write("t.jsonl", f'{{"a": "ok"}}\n{{"a": {value}}}\n')
        data_set = custom_data_set("a", test_file=path)
        with pytest.raises(ValueError, match="line 2: text must be a string"):
            list(read_split(data_set, "test"))

    def test_regression(self, write):
        path = write("t.csv", "text,score\na,1.5\nb,good\n")
        data_set = custom_data_set(
            "text", label="score", kind="regression", train_file=path
        )
        rows = read_split(data_set, "train")
        assert next(rows).label == 1.5
        with pytest.raises(ValueError, match=r"line 3: found 'good', .*number"):
            next(rows)

    def test_multi_label_by_number(self, write):
        path = write("t.tsv", "both\t0,2\tc1\nnone\t\tc2\n")
        data_set = custom_data_set(
            0,
            label=1,
            id=2,
            kind="multi_label",
            labels_are_numbers=True,
            dev_file=path,
        )
        rows = read_split(data_set, "dev", labels=["joy", "fear", "anger"])
        assert [(e.label, e.id) for e in rows] == [
            (("joy", "anger"), "c1"),
            ((), "c2"),
        ]

    def test_labels_found(self, write, caplog):
        path = write("t.tsv", "label\ttext\n10\ta\n9\tb\n10\tc\n9\td\n")
        data_set = custom_data_set(1, label=0, train_file=path)
        # Read without a header, the header's own cell is a label.
        assert find_labels(data_set) == ["10", "9", "label"]
        assert "'label' stands in the first row only" in caplog.text
        data_set = custom_data_set(1, label=0, train_file=path, has_header=True)
        assert find_labels(data_set) == ["9", "10"]

    def test_one_label_only(self, write):
        path = write("t.tsv", "a\tx\na\ty\n")
        data_set = custom_data_set(1, label=0, train_file=path)
        with pytest.raises(ValueError, match=r"t\.tsv: the only label is 'a'"):
            find_labels(data_set)

    def test_unknown_column_and_missing_file_name_their_flags(self, write):
        path = write("t.tsv", "label\ttext\na\tx\n")
        data_set = custom_data_set(
            "body", label="label", train_file=path, dev_file=path + "x"
        )
        with pytest.raises(ValueError, match="'body'; found 'label', 'text'"):
            read_split(data_set, "train")
        with pytest.raises(ValueError, match=r"--eval_file: no file .*t\.tsvx"):
            read_split(data_set, "dev")

    def test_header_that_holds_a_label(self, write, caplog):
        path = write("t.tsv", "pos\tgood\nneg\tbad\n")
        data_set = custom_data_set(1, label=0, dev_file=path, has_header=True)
        rows = list(read_split(data_set, "dev", labels=["neg", "pos"]))
        assert len(rows) == 1
        assert "line 1 is skipped as header, but" in caplog.text


class TestTextsInMemory:
    def test_pairs_and_labels(self):
        first, second = examples_from_texts(["a", "b"], ["c", None], [1, 0])
        assert (first.text_b, first.label, first.id) == ("c", "1", "0")
        assert second.text_b is None and second.where == "row 1"

    def test_faults_name_the_row(self):
        with pytest.raises(
            ValueError, match=r"row 1: text must be a string, found float \(nan"
        ):
            examples_from_texts(["ok", math.nan])
        with pytest.raises(
            ValueError, match="row 0: second text must be a str"
        ):
            examples_from_texts(["ok"], [3])
        with pytest.raises(ValueError, match="2 texts but 1 labels"):
            examples_from_texts(["a", "b"], labels=["0"])


def test_reading_streams(tmp_path, write):
    write("train.tsv", COLA_TRAIN * 3 + "broken\n")
    rows = read_split(DATA_SETS["cola"], "train", str(tmp_path))
    assert not isinstance(rows, list)
    assert next(rows).text_a == "It works."


def test_no_tensorflow(repo_dir):
    import subprocess
    import sys

    code = (
        "import sys, bert_tf.tasks.classification_features as f\n"
        "import bert_tf.tasks.prediction_files, bert_tf.tasks.glue_submission\n"
        "assert 'tensorflow' not in sys.modules, 'tensorflow was imported'"
    )
    subprocess.run([sys.executable, "-c", code], cwd=repo_dir, check=True)
    assert classification_data.__doc__
