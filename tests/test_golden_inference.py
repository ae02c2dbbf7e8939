"""`bert_tf.inference` against the prediction files of the original."""

import gzip
import json

import numpy as np
import pytest

from bert_tf.inference import Classifier, FillMask, QuestionAnswerer
from bert_tf.tasks.squad_data import read_squad_examples


def settings_of(golden_dir, **wanted):
    runs = json.loads((golden_dir / "end_to_end/settings.json").read_text())
    (run,) = (r for r in runs if wanted.items() <= r.items())
    return run


def test_classifier_gives_the_originals_probabilities(golden_dir):
    run = settings_of(golden_dir, task="MNLI")
    lines = (
        (golden_dir / "classifier/data/MNLI/test_matched.tsv")
        .read_text("utf-8")
        .split("\n")
    )
    rows = [line.split("\t") for line in lines[1:] if line]
    classify = Classifier(
        golden_dir / "checkpoints" / run["checkpoint"],
        labels=["contradiction", "entailment", "neutral"],
        do_lower_case=run["do_lower_case"],
        max_seq_length=run["max_seq_length"],
    )
    found = classify([(row[8], row[9]) for row in rows])
    expected = np.loadtxt(
        golden_dir / "end_to_end/classifier_MNLI_test_results.tsv",
        delimiter="\t",
    )
    assert expected.shape == (len(rows), 3)
    np.testing.assert_allclose(
        [list(x.probabilities.values()) for x in found],
        expected,
        atol=1e-5,
        rtol=0,
    )


@pytest.mark.parametrize("version", [1, 2])
def test_answers_are_the_originals(golden_dir, version):
    folder = golden_dir / "end_to_end"
    run = settings_of(golden_dir, prefix=f"squad_v{version}_")
    examples, _ = read_squad_examples(
        str(golden_dir / run["input"]), is_training=False
    )
    answer = QuestionAnswerer(
        golden_dir / "checkpoints" / run["checkpoint"],
        **{
            name: run[name]
            for name in (
                "do_lower_case",
                "max_seq_length",
                "doc_stride",
                "max_query_length",
                "version_2_with_negative",
                "null_score_diff_threshold",
            )
        },
    )
    found = dict(
        zip(
            [x.qas_id for x in examples],
            answer([(x.question_text, x.paragraph.context) for x in examples]),
            strict=True,
        )
    )
    texts = json.loads(
        (folder / f"squad_v{version}_predictions.json").read_text()
    )
    # The original's windows are padded. Where all of its candidates point at
    # padding, it answers "empty"; here there is no padding to point at.
    lost = {x for x, text in texts.items() if text == "empty"}
    assert len(lost) <= 1
    for qas_id in texts.keys() - lost:
        assert found[qas_id].text == texts[qas_id]
    path = folder / f"squad_v{version}_nbest_predictions.json.gz"
    with gzip.open(path, "rt") as stream:
        nbest = json.load(stream)
    for qas_id, entries in nbest.items():
        if qas_id in lost:
            continue
        # Further down, its lists lack what padding took the place of.
        assert [x["text"] for x in entries[:3]] == [
            text for text, _ in found[qas_id].candidates[:3]
        ]
    if version == 2:
        odds = json.loads((folder / "squad_v2_null_odds.json").read_text())
        for qas_id, value in odds.items():
            assert found[qas_id].null_odds == pytest.approx(value, abs=1e-4)


def test_mask_filling_gives_the_originals_logits(golden_dir):
    """The whole distribution at one place, from the log-probabilities."""
    golden = np.load(golden_dir / "forward/tiny_edges.npz")
    fill_mask = FillMask(
        golden_dir / "checkpoints/tiny", do_lower_case=True, top_k=1003
    )
    # Row 0 has the full length; its ids go in as they are.
    row = {
        name: golden[name][0].tolist() for name in ("input_ids", "segment_ids")
    }
    positions = golden["masked_lm_positions"][0]
    row["masked_lm_positions"] = positions.tolist()
    (found,) = fill_mask._runner.map([row])
    expected = np.exp(golden["out_masked_lm_log_probs"][: len(positions)])
    for place, probabilities in enumerate(expected):
        ids = found["ids"][place]
        assert len(set(ids.tolist())) == 1003
        np.testing.assert_allclose(
            found["probabilities"][place], probabilities[ids], atol=1e-5
        )
