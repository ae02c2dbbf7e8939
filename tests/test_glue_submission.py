"""Files for the GLUE server."""

import pathlib

import numpy as np
import pytest

from bert_tf.tasks.glue_submission import write_glue_submission
from bert_tf.tasks.known_data_sets import DATA_SETS


def submit(folder, name, split, ids, predictions):
    path = write_glue_submission(
        DATA_SETS[name], split, ids, predictions, folder / "submission"
    )
    return pathlib.Path(path)


def test_labels_are_spelt_out(tmp_path):
    path = submit(
        tmp_path, "mnli", "test_mismatched", "012", np.array([2, 0, 1])
    )
    assert path.name == "MNLI-mm.tsv"
    assert path.read_bytes() == (
        b"index\tprediction\n0\tneutral\n1\tcontradiction\n2\tentailment\n"
    )


def test_binary_and_its_first_test_file(tmp_path):
    path = submit(tmp_path, "mrpc", "test", ["5", "6"], [1, 0])
    assert path.name == "MRPC.tsv"
    assert path.read_text() == "index\tprediction\n5\t1\n6\t0\n"
    path = submit(tmp_path, "mnli", "test", ["0"], [1])
    assert path.name == "MNLI-m.tsv"


def test_similarities_stay_in_range(tmp_path):
    path = submit(tmp_path, "sts-b", "test", "012", np.float32([-0.2, 2.5, 7]))
    assert path.read_text() == (
        "index\tprediction\n0\t0.0000\n1\t2.5000\n2\t5.0000\n"
    )


def test_number_of_rows_is_compared(tmp_path, caplog):
    submit(tmp_path, "wnli", "test", ["0"], [1])
    assert "WNLI.tsv: 1 rows, but the GLUE server expects 146" in caplog.text
    caplog.clear()
    submit(tmp_path, "wnli", "test", list(map(str, range(146))), [0] * 146)
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "split", "ids", "predictions", "message"),
    [
        ("cola", "dev", ["0"], [1], "cola dev is not submitted"),
        ("xnli", "test", ["0"], [1], "xnli test is not submitted"),
        ("cola", "test", ["0"], [1, 0], "1 ids but 2 predictions"),
        ("cola", "test", ["0", "0"], [1, 0], "index column recur"),
        ("cola", "test", ["0"], [2], "row 0: class id 2, expected 0 to 1"),
        ("sts-b", "test", ["0"], [np.nan], "not finite"),
    ],
)
def test_refused(tmp_path, name, split, ids, predictions, message):
    with pytest.raises(ValueError, match=message):
        submit(tmp_path, name, split, ids, predictions)
