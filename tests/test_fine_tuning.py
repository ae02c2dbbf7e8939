"""What is frozen, how fast the rest learns, what starts afresh."""

import json

import numpy as np
import pytest
import tensorflow as tf
from absl import flags
from absl.testing import flagsaver

import run_classifier
from bert_tf import fine_tuning
from bert_tf.checkpoint import (
    checkpoint_names,
    load_checkpoint,
    read_variables,
    save_checkpoint,
)
from bert_tf.config import BertConfig
from bert_tf.heads import BertForSequenceClassification
from bert_tf.optimization import AdamWeightDecay, Lamb
from bert_tf.settings import RunSettings

FLAGS = flags.FLAGS
SPECIALS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = ["good", "bad", "film", "the", "was"]
CONFIG = BertConfig(
    vocab_size=len(SPECIALS) + len(WORDS),
    hidden_size=8,
    num_hidden_layers=3,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
    type_vocab_size=2,
)
WORD = "bert/embeddings/word_embeddings"
POOLER = "bert/pooler/dense/kernel"


def query(layer):
    return f"bert/encoder/layer_{layer}/attention/self/query/kernel"


def settings(**changes):
    return RunSettings("out", do_train=True, do_eval=True, **changes)


@pytest.mark.parametrize(
    ("freeze", "frozen", "trained"),
    [
        ("", [], [WORD, query(0), POOLER, "output_weights"]),
        (
            "encoder",
            [WORD, query(2), POOLER],
            ["output_weights", "output_bias"],
        ),
        ("embeddings", [WORD], [query(0), POOLER, "output_bias"]),
        ("layers:0-1", [query(0), query(1)], [query(2), WORD, POOLER]),
        ("layers:1", [query(1)], [query(0), query(2)]),
        (
            "embeddings, layers:2,pooler",
            [WORD, query(2), POOLER],
            [query(1), "output_bias"],
        ),
    ],
)
def test_freeze(freeze, frozen, trained):
    part = fine_tuning.parse_freeze(freeze, 3)
    assert all(name in part for name in frozen)
    assert not any(name in part for name in trained)


def test_layers_are_told_by_their_whole_number():
    part = fine_tuning.parse_freeze("layers:1", 12)
    assert query(1) in part and query(10) not in part and query(11) not in part


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        ("layers:2-3", "layers are 0 to 2"),
        ("layers:1-0", "the lower number first"),
        ("layer:1", "'layer:1', expected encoder .*layers:0-5"),
        ("encoder,top", "'top'"),
    ],
)
def test_parts_that_are_not_there(freeze, message):
    with pytest.raises(ValueError, match=message):
        fine_tuning.check(settings(freeze=freeze), 3)


def test_more_fresh_layers_than_there_are():
    fine_tuning.check(settings(reinit_top_layers=3), 3)
    with pytest.raises(ValueError, match="is 4, but the model has 3 layers"):
        fine_tuning.check(settings(reinit_top_layers=4), 3)


def test_rates_fall_with_the_depth():
    names = list(checkpoint_names(BertForSequenceClassification(CONFIG, 2)))
    chosen = settings(layerwise_lr_decay=0.5, freeze="layers:0")
    factors = fine_tuning.learning_rate_factors(names, 3, chosen)
    assert factors[WORD] == 0.5**4
    assert factors["bert/embeddings/LayerNorm/gamma"] == 0.5**4
    found = [factors[query(layer)] for layer in range(3)]
    assert found == [0.0, 0.25, 0.5]
    assert not {POOLER, "output_weights", "output_bias"} & set(factors)
    assert fine_tuning.learning_rate_factors(names, 3, settings()) == {}


@pytest.mark.parametrize("optimizer_class", [AdamWeightDecay, Lamb])
def test_factors_in_the_optimizer(optimizer_class):
    """A factor scales the rate of its own variable, decay included."""
    start = {"a/kernel": [1.0, -2.0], "b/kernel": [3.0, 0.5]}

    def trained(rate, **options):
        variables = {name: tf.Variable(x) for name, x in start.items()}
        optimizer = optimizer_class(**options)
        optimizer.build({**variables, "c/kernel": tf.Variable([7.0])})
        for step in range(3):
            gradients = [
                tf.constant([0.1, -0.3]) * (i + 1) for i in range(2)
            ] + [tf.constant([1.0])] * (len(optimizer.variables) - 2)
            optimizer.apply(gradients, tf.constant(rate), tf.constant(step))
        return variables, optimizer

    mixed, optimizer = trained(
        0.1, rate_factors={"b/kernel": 0.25, "c/kernel": 0.0}
    )
    fast, _ = trained(0.1)
    slow, _ = trained(0.025)
    np.testing.assert_array_equal(mixed["a/kernel"], fast["a/kernel"])
    np.testing.assert_allclose(mixed["b/kernel"], slow["b/kernel"], rtol=1e-6)
    assert list(optimizer.variables) == ["a/kernel", "b/kernel"]
    assert not any(name.startswith("c/") for name in optimizer.slots)


def test_fresh_layers_keep_their_values(tmp_path, caplog):
    caplog.set_level("INFO", logger="bert_tf")
    save_checkpoint(
        BertForSequenceClassification(CONFIG, 2), tmp_path / "model.ckpt"
    )
    model = BertForSequenceClassification(CONFIG, 2)
    variables = checkpoint_names(model)
    before = {name: x.numpy() for name, x in variables.items()}
    with fine_tuning.kept_fresh(variables, 3, 2):
        load_checkpoint(model, tmp_path / "model.ckpt")
    loaded = read_variables(tmp_path / "model.ckpt")
    for name, variable in variables.items():
        layer = fine_tuning.layer_of(name)
        fresh = layer in (1, 2) or name.startswith("bert/pooler/")
        expected = before[name] if fresh else loaded[name]
        np.testing.assert_array_equal(variable.numpy(), expected, name)
    assert not np.array_equal(before[query(1)], loaded[query(1)])
    assert "fresh values for layers 1 to 2 and the pooler, 34" in caplog.text


def test_no_fresh_layers(tmp_path):
    save_checkpoint(
        BertForSequenceClassification(CONFIG, 2), tmp_path / "model.ckpt"
    )
    model = BertForSequenceClassification(CONFIG, 2)
    with fine_tuning.kept_fresh(checkpoint_names(model), 3, 0):
        load_checkpoint(model, tmp_path / "model.ckpt")
    found = checkpoint_names(model)[POOLER].numpy()
    loaded = read_variables(tmp_path / "model.ckpt")[POOLER]
    np.testing.assert_array_equal(found, loaded)


def test_another_freeze_on_resume():
    in_file = ["a", "b", "b/adam_m", "b/adam_v", "global_step"]

    def check(trained, factors):
        fine_tuning.check_slots("x.ckpt", in_file, trained, factors)

    check(["b"], {"a": 0.0})
    with pytest.raises(ValueError, match=r"such as a, were frozen .* trained"):
        check(["a", "b"], {})
    with pytest.raises(ValueError, match=r"such as b, were trained .* frozen"):
        check([], {"a": 0.0, "b": 0.0})
    # Without any moments there is nothing to compare.
    fine_tuning.check_slots("x.ckpt", ["a", "b"], ["a"], {})


# Through the script ---------------------------------------------------------


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    (folder / "vocab.txt").write_text("\n".join([*SPECIALS, *WORDS, ""]))
    CONFIG.save(folder / "bert_config.json")
    rows = ["label\ttext"]
    for i in range(16):
        word = WORDS[i % 2]
        rows.append(f"{word}\tthe film was {word}{' the' * (i % 3)}")
    (folder / "train.tsv").write_text("\n".join(rows) + "\n")
    start = BertForSequenceClassification(CONFIG, 2)
    save_checkpoint(start, folder / "start" / "model.ckpt")
    return folder


def run(data, output_dir, *arguments):
    given = [
        "run_classifier.py",
        *("--task_name=custom", "--text_column=text", "--label_column=label"),
        *("--train_file=train.tsv", "--eval_file=train.tsv"),
        *(f"--data_dir={data}", f"--output_dir={output_dir}"),
        *(f"--vocab_file={data}/vocab.txt", "--max_seq_length=8"),
        f"--bert_config_file={data}/bert_config.json",
        f"--init_checkpoint={data}/start/model.ckpt",
        *("--do_train", "--train_batch_size=4", "--learning_rate=0.01"),
        *("--num_train_epochs=2", "--save_checkpoints_steps=4"),
    ]
    with flagsaver.flagsaver():
        FLAGS.unparse_flags()
        run_classifier.main(FLAGS([*given, *arguments]))


def forget_last_checkpoint(folder, step):
    """Leaves the folder as a kill after `step` would."""
    for path in folder.glob("model.ckpt-*"):
        if int(path.name.split("-")[1].split(".")[0]) > step:
            path.unlink()
    (folder / "checkpoint").write_text(
        f'model_checkpoint_path: "model.ckpt-{step}"\n'
        f'all_model_checkpoint_paths: "model.ckpt-{step}"\n'
    )


def test_frozen_encoder(data, tmp_path):
    run(data, tmp_path, "--freeze=encoder")
    start = read_variables(data / "start" / "model.ckpt")
    found = read_variables(tmp_path)
    slots = {name for name in found if name.endswith(("_m", "_v"))}
    assert slots == {
        f"{name}/adam_{moment}"
        for name in ("output_weights", "output_bias")
        for moment in "mv"
    }
    for name in found.keys() - slots - {"global_step"}:
        is_same = np.array_equal(found[name], start[name])
        assert is_same == name.startswith("bert/"), name
    with pytest.raises(ValueError, match=r"were frozen .* --freeze"):
        run(data, tmp_path, "--num_train_epochs=3")


def test_resume_with_all_options_is_exact(data, tmp_path):
    options = (
        *("--freeze=embeddings,layers:0", "--layerwise_lr_decay=0.8"),
        "--reinit_top_layers=1",
    )
    straight, broken = tmp_path / "straight", tmp_path / "broken"
    for folder in (straight, broken):
        run(data, folder, *options)
    forget_last_checkpoint(broken, 4)
    run(data, broken, *options)
    one, two = read_variables(straight), read_variables(broken)
    assert int(one["global_step"]) == 8 and set(one) == set(two)
    for name, value in one.items():
        np.testing.assert_array_equal(value, two[name], err_msg=name)
    start = read_variables(data / "start" / "model.ckpt")
    first = read_variables(straight / "model.ckpt-0")
    np.testing.assert_array_equal(one[query(0)], start[query(0)])
    np.testing.assert_array_equal(first[query(1)], start[query(1)])
    assert not np.array_equal(first[query(2)], start[query(2)])


def test_several_seeds(data, tmp_path):
    run(data, tmp_path, "--do_eval", "--num_seeds=2", "--random_seed=7")
    # Nothing of the first run reaches the second.
    run(data, tmp_path / "alone", "--random_seed=8")
    alone = read_variables(tmp_path / "alone")
    for name, value in read_variables(tmp_path / "seed-8").items():
        np.testing.assert_array_equal(value, alone[name], err_msg=name)
    summary = json.loads((tmp_path / "seeds.json").read_text())
    assert summary["seeds"] == [7, 8]
    (scores,) = summary["scores"].values()
    values = scores["eval_loss"]["values"]
    for folder, value in zip(summary["folders"], values, strict=True):
        lines = (tmp_path / folder / "eval_results.txt").read_text()
        assert f"eval_loss = {np.float32(value)!s}" in lines
    assert scores["eval_loss"]["mean"] == pytest.approx(np.mean(values))
    deviation = scores["eval_loss"]["standard_deviation"]
    assert deviation == pytest.approx(np.std(values, ddof=1)) and deviation > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--freeze=layers:5"], "layers are 0 to 2"),
        (["--reinit_top_layers=9"], "has 3 layers"),
        (["--layerwise_lr_decay=0"], "above 0 and at most 1"),
        (["--num_seeds=0"], "--num_seeds is 0, must be positive"),
        (["--num_seeds=2"], "needs --do_eval"),
    ],
)
def test_mistakes(data, tmp_path, arguments, message):
    with pytest.raises(ValueError, match=message):
        run(data, tmp_path / "new", *arguments)
