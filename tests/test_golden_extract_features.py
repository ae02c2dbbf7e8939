"""`extract_features` against the output of the original."""

import gzip
import json

import numpy as np
import pytest

from bert_tf import feature_extraction
from bert_tf.feature_files import ExtractionSettings
from bert_tf.settings import DeviceSettings, ModelSettings
from bert_tf.tokenization import FullTokenizer

# The original rounds to six places; see the tolerances of the goldens.
TOLERANCE = 2e-5


@pytest.mark.parametrize("name", ["deep", "tiny", "odd"])
def test_same_lines_tokens_and_values(golden_dir, tmp_path, name):
    golden = golden_dir / "extract_features"
    run = next(
        run
        for run in json.loads((golden / "settings.json").read_text())
        if run["name"] == name
    )
    folder = golden_dir / "checkpoints" / run["checkpoint"]
    output = tmp_path / "output.jsonl"
    settings = ExtractionSettings(
        str(golden / "input.txt"),
        str(output),
        run["layers"].split(","),
        run["max_seq_length"],
        run["batch_size"],
    )
    model = ModelSettings(
        str(folder / "bert_config.json"),
        str(folder / "vocab.txt"),
        str(folder / "bert_model.ckpt"),
        run["do_lower_case"],
        run["max_seq_length"],
    )
    feature_extraction.run(
        lambda config: FullTokenizer(model.vocab_file, run["do_lower_case"]),
        model,
        settings,
        DeviceSettings(),
    )
    found = [json.loads(line) for line in output.read_text().splitlines()]
    with gzip.open(golden / f"{name}.jsonl.gz", "rt") as stream:
        expected = [json.loads(line) for line in stream]
    assert len(found) == len(expected) == 5
    for ours, theirs in zip(found, expected, strict=True):
        assert list(ours) == list(theirs) == ["linex_index", "features"]
        assert ours["linex_index"] == theirs["linex_index"]
        assert [x["token"] for x in ours["features"]] == [
            x["token"] for x in theirs["features"]
        ]
        for a, b in zip(ours["features"], theirs["features"], strict=True):
            assert list(a) == list(b)
            assert [x["index"] for x in a["layers"]] == [
                x["index"] for x in b["layers"]
            ]
            np.testing.assert_allclose(
                [x["values"] for x in a["layers"]],
                [x["values"] for x in b["layers"]],
                atol=TOLERANCE,
                rtol=0,
            )
