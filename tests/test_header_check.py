"""The first line of a known data set's file."""

import pytest

from bert_tf.tasks.classification_data import read_split
from bert_tf.tasks.known_data_sets import DATA_SETS

MRPC_HEADER = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"


def read(folder, name, split, content):
    path = folder / DATA_SETS[name].split(split).file
    path.write_text(content, encoding="utf-8")
    return list(read_split(DATA_SETS[name], split, str(folder)))


def test_expected_headers_are_quiet(tmp_path, caplog):
    rows = read(tmp_path, "mrpc", "dev", "\ufeff" + MRPC_HEADER + "1\t\t\ta\tb")
    assert len(rows) == 1 and not caplog.records


@pytest.mark.parametrize(
    ("name", "split", "content"),
    [
        ("cola", "test", "0\tx\n1\ty\n2\tz\n3\tw\n"),
        ("mrpc", "dev", "1\t7\t8\tx\ty\n" * 4),
        ("sst-2", "train", "x\t0\ny\t1\nz\t1\nw\t0\n"),
        ("qnli", "dev", "4\tx\ty\tentailment\n" * 4),
        ("xnli", "train", "x\ty\tcontradictory\n" * 4),
    ],
)
def test_missing_header_loses_no_row(tmp_path, caplog, name, split, content):
    (tmp_path / "multinli").mkdir()
    path = tmp_path / DATA_SETS[name].split(split).path("", "zh")
    path.write_text(content, encoding="utf-8")
    rows = list(read_split(DATA_SETS[name], split, str(tmp_path)))
    assert len(rows) == 4
    assert "line 1 should be a header but looks like data" in caplog.text
    assert f"expected layout: {name} {split}: a header line" in caplog.text
    if name == "cola":
        assert [row.id for row in rows] == ["0", "1", "2", "3"]


def test_other_names_give_a_warning(tmp_path, caplog):
    rows = read(tmp_path, "mrpc", "train", "y\tb\tc\ts1\ts2\n1\t\t\ta\tb\n")
    assert len(rows) == 1
    assert "column 3 is 's1', expected '#1 String' (text_a)" in caplog.text


def test_texts_in_other_columns_stop(tmp_path):
    with pytest.raises(
        ValueError, match=r"column 1 is 'label', expected 'sentence' \(text_a\)"
    ):
        read(tmp_path, "sst-2", "test", "sentence\tlabel\nx\t1\n")


def test_training_layout_under_a_test_name(tmp_path):
    with pytest.raises(ValueError, match=r"laid out as train\.tsv \(no header"):
        read(tmp_path, "cola", "test", "bc\t1\t\tx\nbc\t0\t*\ty\n")


def test_labelled_file_under_a_test_name_has_numbers_as_ids(tmp_path, caplog):
    content = MRPC_HEADER + "1\t\t\ta\tb\n1\t\t\tc\td\n"
    rows = read(tmp_path, "mrpc", "test", content)
    assert [row.id for row in rows] == ["0", "1"]
    assert "column 0 is 'Quality', expected 'index' (id)" in caplog.text
