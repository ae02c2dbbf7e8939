"""Fine-tuning and whole runs of SQuAD against those of the original."""

import gzip
import json

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import optimization, runner
from bert_tf.checkpoint import load_checkpoint
from bert_tf.config import BertConfig
from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings
from bert_tf.tasks.squad import SquadTask
from bert_tf.tasks.squad_settings import SquadSettings
from bert_tf.tokenization import FullTokenizer
from bert_tf.training import Trainer, TrainState

STEPS = 8


def make_trainer(task, folder, golden, **model_options):
    config = BertConfig.from_json_file(folder / "bert_config.json")
    config = BertConfig.from_dict(
        {
            **config.to_dict(),
            "hidden_dropout_prob": 0.0,
            "attention_probs_dropout_prob": 0.0,
        }
    )
    strategy = tf.distribute.OneDeviceStrategy("CPU:0")
    with strategy.scope():
        model = task.create_model(config, **model_options)
        state = TrainState.create(task, model, optimization.AdamWeightDecay())
    load_checkpoint(model, folder / "bert_model.ckpt", strict=True)

    def schedule(step):
        return optimization.learning_rate_at(
            step,
            float(golden["init_lr"]),
            int(golden["num_train_steps"]),
            int(golden["num_warmup_steps"]),
        )

    batches = {
        key.removeprefix("in/"): golden[key]
        for key in golden
        if key.startswith("in/")
    }
    dataset = tf.data.Dataset.from_tensor_slices(batches)
    batches = strategy.experimental_distribute_dataset(dataset)
    return Trainer(task, state, schedule, strategy, batches, run_seed=1)


@pytest.mark.parametrize("use_one_hot", [False, True])
def test_fine_tuning(golden_dir, use_one_hot):
    """Our clipping norm is dense for a gather too: one result for both."""
    golden = np.load(golden_dir / "optimizer/squad_finetune_one_hot.npz")
    task = SquadTask(SquadSettings())
    trainer = make_trainer(
        task,
        golden_dir / "checkpoints/squad",
        golden,
        use_one_hot_embeddings=use_one_hot,
    )
    for step in range(STEPS):
        means = trainer.train(1)
        assert means["loss"] == pytest.approx(golden["loss"][step], abs=5e-5)
        assert means["gradient_norm"] == pytest.approx(
            golden["global_norm"][step], abs=5e-5
        )
    found = trainer.state.tensors()
    finals = [key for key in golden if key.startswith("final/")]
    assert "final/bert/pooler/dense/kernel" in finals
    assert "final/cls/squad/output_weights" in finals
    for key in finals:
        name = key.removeprefix("final/")
        np.testing.assert_allclose(
            found[name].numpy(),
            golden[key],
            atol=1e-4 if name.endswith("key/bias") else 2e-5,
            err_msg=name,
        )
    np.testing.assert_allclose(
        found["bert/embeddings/word_embeddings"].numpy()[
            golden["final_word_embedding_ids"]
        ],
        golden["final_word_embedding_rows"],
        atol=2e-5,
    )
    slots = [name for name in found if name.endswith(("adam_m", "adam_v"))]
    assert slots
    assert not any("pooler" in name for name in slots)


def load_nbest(path):
    return json.loads(gzip.decompress(path.read_bytes()))


@pytest.mark.parametrize("prefix", ["squad_v1_", "squad_v2_"])
def test_prediction_of_a_whole_run(golden_dir, tmp_path, prefix):
    folder = golden_dir / "end_to_end"
    entries = json.loads((folder / "settings.json").read_text())
    (entry,) = [e for e in entries if e.get("prefix") == prefix]
    names = (
        *("max_seq_length", "doc_stride", "max_query_length", "n_best_size"),
        *("max_answer_length", "version_2_with_negative"),
        "null_score_diff_threshold",
    )
    settings = SquadSettings(
        predict_file=str(golden_dir / entry["input"]),
        **{name: entry[name] for name in names},
    )
    checkpoint = golden_dir / "checkpoints" / entry["checkpoint"]
    model = ModelSettings(
        bert_config_file=str(checkpoint / "bert_config.json"),
        vocab_file=str(checkpoint / "vocab.txt"),
        init_checkpoint=str(checkpoint / "bert_model.ckpt"),
        do_lower_case=entry["do_lower_case"],
        max_seq_length=entry["max_seq_length"],
    )
    runner.run(
        lambda config: SquadTask(
            settings, FullTokenizer(model.vocab_file, model.do_lower_case)
        ),
        model,
        RunSettings(output_dir=str(tmp_path), do_predict=True),
        DeviceSettings(),
    )
    assert (tmp_path / "predictions.json").read_text() == (
        folder / f"{prefix}predictions.json"
    ).read_text()
    check_nbest(
        json.loads((tmp_path / "nbest_predictions.json").read_text()),
        load_nbest(folder / f"{prefix}nbest_predictions.json.gz"),
    )
    assert (tmp_path / "null_odds.json").exists() == (prefix == "squad_v2_")
    if prefix == "squad_v2_":
        odds = json.loads((tmp_path / "null_odds.json").read_text())
        expected = json.loads((folder / f"{prefix}null_odds.json").read_text())
        assert list(odds) == list(expected)
        assert odds == pytest.approx(expected, abs=4e-5)


def check_nbest(found, expected):
    assert list(found) == list(expected)
    for qas_id, entries in expected.items():
        assert [e["text"] for e in found[qas_id]] == [
            e["text"] for e in entries
        ]
        for ours, theirs in zip(found[qas_id], entries, strict=True):
            assert list(ours) == list(theirs)
            assert ours["probability"] == pytest.approx(
                theirs["probability"], abs=1e-5
            )
            for name in ("start_logit", "end_logit"):
                assert ours[name] == pytest.approx(theirs[name], abs=2e-5)
