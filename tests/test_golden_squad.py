"""SQuAD reading, windows and answers against those of the original."""

import gzip
import json

import numpy as np
import pytest

from bert_tf import records
from bert_tf.tasks import (
    squad_alignment,
    squad_answers,
    squad_data,
    squad_predictions,
    squad_windows,
)
from bert_tf.tokenization import BasicTokenizer, FullTokenizer


def _load(path):
    if path.exists():
        content = path.read_text()
    else:
        zipped = path.with_name(path.name + ".gz")
        content = gzip.decompress(zipped.read_bytes()).decode()
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in content.splitlines()]
    return json.loads(content)


@pytest.fixture(scope="module")
def folder(golden_dir):
    return golden_dir / "squad"


@pytest.fixture(scope="module")
def settings(folder):
    return _load(folder / "settings.json")


@pytest.fixture(scope="module")
def featurized(golden_dir, data_dir, folder, settings):
    """Settings name -> (featurizer, examples, windows), each made once."""
    tokenizers = {}
    by_name = {entry["name"]: entry for entry in settings}
    done = {}

    def featurize(name):
        if name in done:
            return done[name]
        entry = by_name[name]
        key = entry["vocab"], entry["do_lower_case"]
        if key not in tokenizers:
            root = (
                golden_dir
                if key[0].startswith("checkpoints")
                else data_dir / "vocab"
            )
            tokenizers[key] = FullTokenizer(root / key[0], key[1])
        source = f"squad_{entry['version']}.json"
        if name == "edge_predict":
            source = "squad_edge_predict.json"
        examples, _ = squad_data.read_squad_examples(
            folder / source, entry["training"], entry["version"] == "v2"
        )
        featurizer = squad_windows.SquadFeaturizer(
            tokenizers[key], is_training=entry["training"], **entry["flags"]
        )
        windows = list(featurizer.stream(examples))
        done[name] = featurizer, examples, windows
        return done[name]

    return featurize


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("mode", ["train", "predict"])
def test_examples(folder, version, mode):
    examples, report = squad_data.read_squad_examples(
        folder / f"squad_{version}.json", mode == "train", version == "v2"
    )
    found = [
        {
            "qas_id": e.qas_id,
            "question_text": e.question_text,
            "doc_tokens": e.paragraph.words,
            "orig_answer_text": e.orig_answer_text,
            "start_position": e.start_position,
            "end_position": e.end_position,
            "is_impossible": e.is_impossible,
        }
        for e in examples
    ]
    assert found == _load(folder / f"{version}_{mode}.examples.jsonl")
    assert report.num_examples == len(found)
    assert report.num_questions == len(found) + len(report.dropped)


def _feature(window, tokenizer, max_seq_length):
    record = window.record(max_seq_length)
    positions = [str(window.doc_offset + i) for i in range(len(window.words))]
    return {
        "unique_id": window.unique_id,
        "example_index": window.example_index,
        "doc_span_index": window.doc_span_index,
        "tokens": tokenizer.convert_ids_to_tokens(window.input_ids),
        "token_to_orig_map": dict(zip(positions, window.words, strict=True)),
        "token_is_max_context": dict(
            zip(positions, window.is_max_context.tolist(), strict=True)
        ),
        "input_ids": record["input_ids"],
        "input_mask": record["input_mask"],
        "segment_ids": record["segment_ids"],
        "start_position": window.start_position,
        "end_position": window.end_position,
        "is_impossible": window.is_impossible,
    }


def test_features(folder, settings, featurized):
    entries = [entry for entry in settings if "flags" in entry]
    assert len(entries) == 21
    for entry in entries:
        name = entry["name"]
        featurizer, _, windows = featurized(name)
        expected = _load(folder / f"{name}.features.jsonl")
        assert len(windows) == len(expected) == entry["features"]
        for window, feature in zip(windows, expected, strict=True):
            found = _feature(
                window, featurizer.tokenizer, featurizer.max_seq_length
            )
            assert found == feature, f"{name} {window.unique_id}"


@pytest.mark.parametrize(
    "name",
    [
        "v1_tiny_s64_train",
        "v1_tiny_s64_predict",
        "v2_tiny_s64_train",
        "v2_tiny_s64_predict",
    ],
)
def test_records(folder, featurized, tmp_path, name):
    featurizer, _, windows = featurized(name)
    length = featurizer.max_seq_length
    spec = squad_windows.feature_spec(length, featurizer.is_training)
    path = str(tmp_path / "out.tf_record")
    records.write_records(path, spec, (w.record(length) for w in windows))
    expected = records.read_records(str(folder / f"{name}.tf_record"))
    for found, record in zip(records.read_records(path), expected, strict=True):
        assert records.decode_example(found) == records.decode_example(record)


def _assert_nbest_equal(found, expected, name):
    assert list(found) == list(expected)
    for qas_id, entries in expected.items():
        for ours, theirs in zip(found[qas_id], entries, strict=True):
            assert list(ours) == list(theirs)
            ours, theirs = dict(ours), dict(theirs)
            np.testing.assert_allclose(
                ours.pop("probability"),
                theirs.pop("probability"),
                rtol=1e-6,
                err_msg=f"{name} {qas_id}",
            )
            assert ours == theirs, f"{name} {qas_id}"


def _predict(folder, featurized, entry, output_dir):
    name = entry["name"]
    featurizer, examples, _ = featurized(entry.get("predictions_from", name))
    logits = entry.get("logits", f"{name}.logits.npz")
    with np.load(folder / logits) as arrays:
        results = [
            squad_answers.WindowResult(int(i), start, end)
            for i, start, end in zip(
                arrays["unique_ids"],
                arrays["start_logits"],
                arrays["end_logits"],
                strict=True,
            )
        ]
    is_version_2 = entry.get("version_2_with_negative", False)
    answer_settings = squad_answers.AnswerSettings(
        entry["n_best_size"],
        entry["max_answer_length"],
        is_version_2,
        entry.get("null_score_diff_threshold", 0.0),
    )
    with squad_predictions.AnswerWriter(output_dir, is_version_2) as writer:
        for answer in squad_answers.answer_questions(
            examples, featurizer, results, answer_settings
        ):
            writer.write(answer)
    return examples


def test_predictions(folder, settings, featurized, tmp_path):
    entries = [entry for entry in settings if "n_best_size" in entry]
    assert len(entries) > 20
    for entry in entries:
        name = entry["name"]
        output_dir = tmp_path / name
        output_dir.mkdir()
        examples = _predict(folder, featurized, entry, output_dir)
        contexts = {e.qas_id: e.paragraph.context for e in examples}
        predictions = (output_dir / "predictions.json").read_text()
        lines = _load(output_dir / "predictions_with_offsets.jsonl")
        assert [line["id"] for line in lines] == list(contexts)
        assert [line["text"] for line in lines] == list(
            json.loads(predictions).values()
        )
        for line in lines:
            if line["start"] is not None:
                part = contexts[line["id"]][line["start"] : line["end"]]
                # An answer has single spaces where the context may have
                # several blanks.
                assert " ".join(part.split()) == " ".join(line["text"].split())
        if "original_raises" in entry:
            assert list(json.loads(predictions)) == list(contexts)
            continue
        expected = (folder / f"{name}.predictions.json").read_text()
        assert predictions == expected, name
        _assert_nbest_equal(
            _load(output_dir / "nbest_predictions.json"),
            _load(folder / f"{name}.nbest_predictions.json"),
            name,
        )
        if entry.get("version_2_with_negative"):
            assert (output_dir / "null_odds.json").read_text() == (
                folder / f"{name}.null_odds.json"
            ).read_text(), name


def test_helpers(folder):
    helpers = _load(folder / "helpers.json")
    for case in helpers["get_final_text"]:
        found = squad_alignment.final_text(
            case["pred_text"],
            case["orig_text"],
            BasicTokenizer(case["do_lower_case"]),
        )
        assert found == case["result"], case
    for case in helpers["get_best_indexes"]:
        found = squad_answers.best_indexes(
            np.array(case["logits"]), case["n_best_size"]
        )
        assert found.tolist() == case["result"], case
    for case in helpers["compute_softmax"]:
        np.testing.assert_allclose(
            squad_answers.softmax(case["scores"]), case["result"], rtol=1e-12
        )
    for case in helpers["check_is_max_context"]:
        expected = case["max_context_span_of_position"]
        found = squad_windows.max_context_spans(
            [squad_windows.DocSpan(*span) for span in case["doc_spans"]],
            len(expected),
        )
        assert [[owner] for owner in found.tolist()] == expected, case
