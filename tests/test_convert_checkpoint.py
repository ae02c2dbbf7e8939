"""Conversions from format to format, and the command for them."""

import dataclasses
import json
import shutil
import tarfile
import zipfile

import numpy as np
import pytest
from absl import flags
from absl.testing import flagsaver

import bert_tf
import convert_checkpoint
import run_classifier
from bert_tf import (
    checkpoint,
    conversion_flags,
    conversion_writing,
    run_folder,
)
from bert_tf.checkpoint import safetensors
from bert_tf.checkpoint.architecture import HEADS, all_names, expected_shapes
from bert_tf.checkpoint.sources import StoredTensor
from bert_tf.checkpoint.tensor_bundle import write_bundle
from bert_tf.config import BertConfig
from bert_tf.conversion import convert
from bert_tf.conversion_request import FORMATS, Conversion

CONFIG = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=12,
    max_position_embeddings=10,
    type_vocab_size=2,
    hidden_act="gelu_erf",
    layer_norm_eps=1e-6,
)
VOCAB = b"[PAD]\n[UNK]\n[CLS]\n[SEP]\n" + b"".join(
    b"w%d\n" % i for i in range(16)
)
LABELS = ["no", "perhaps, or not", "ja"]
TASKS = {
    "sequence_classification": "classification",
    "token_classification": "tagging",
    "multiple_choice": "multiple_choice",
}
FLAGS = flags.FLAGS


def stored(values):
    return {
        name: StoredTensor(name, x.dtype, x.shape, lambda x=x: x)
        for name, x in values.items()
    }


def names_of(head):
    return [x for x in all_names(2) if x.startswith("bert/")] + list(
        HEADS.get(head, ())
    )


def random_values(names, labels=3):
    rng = np.random.default_rng(2)
    shapes = expected_shapes(CONFIG, labels)
    return {x: rng.standard_normal(shapes[x]).astype("f4") for x in names}


def write_tf1(
    folder, values, record=None, config=CONFIG, name="bert_model.ckpt"
):
    folder.mkdir(parents=True)
    config.save(folder / "bert_config.json")
    (folder / "vocab.txt").write_bytes(VOCAB)
    if record is not None:
        run_folder.write_run(str(folder), record, config, None)
    write_bundle(folder / name, stored(values))
    return folder


def assert_same(folder, values):
    found = checkpoint.read_variables(folder)
    assert found.keys() == values.keys()
    for name, value in values.items():
        assert found[name].dtype == value.dtype
        assert found[name].shape == value.shape
        assert found[name].tobytes() == value.tobytes()


def run(source, target, output_format, **options):
    return convert(
        Conversion(str(source), str(target), output_format, **options)
    )


@pytest.fixture(autouse=True)
def no_preprocessing(monkeypatch):
    """It takes seconds each time, and has a file of tests of its own."""
    monkeypatch.setattr(conversion_writing, "_graph_tokenizer", lambda *_: None)


# --- round trips -----------------------------------------------------------


@pytest.mark.parametrize("output_format", FORMATS)
@pytest.mark.parametrize("head", [None, *HEADS])
def test_round_trip_to_the_bit(tmp_path, head, output_format):
    labels = 1 if head == "multiple_choice" else 3
    values = random_values(names_of(head), labels)
    record = {"do_lower_case": False}
    if head in TASKS:
        record["task"] = TASKS[head]
    if head in ("sequence_classification", "token_classification"):
        record["labels"] = LABELS
    source = write_tf1(tmp_path / "in", values, record)
    there = run(source, tmp_path / "there", output_format)
    assert there.head == head and not there.missing
    assert {x.name.removeprefix("copy of ") for x in there.rows} == set(values)
    assert_same(tmp_path / "there", values)
    back = run(tmp_path / "there", tmp_path / "back", "tf1")
    assert back.input_format == output_format
    assert back.head == head
    assert back.config == CONFIG
    assert_same(tmp_path / "back", values)
    assert (tmp_path / "back" / "vocab.txt").read_bytes() == VOCAB
    found = run_folder.read_run(str(tmp_path / "back"))
    assert found["do_lower_case"] is False
    assert found.get("labels") == record.get("labels")
    assert found.get("task") == record.get("task", found.get("task"))


def test_between_other_formats(tmp_path):
    values = random_values(names_of("pre_training"))
    here = write_tf1(tmp_path / "in", values)
    for output_format in ("huggingface", "model_garden", "saved_model"):
        there = tmp_path / output_format
        run(here, there, output_format)
        assert_same(there, values)
        here = there
    run(here, tmp_path / "again", "huggingface")
    first, second = (
        (tmp_path / x / "model.safetensors").read_bytes()
        for x in ("huggingface", "again")
    )
    assert first == second


def test_the_originals_checkpoints(golden_dir, tmp_path):
    for name in ("tiny", "cased", "clf", "squad"):
        source = golden_dir / "checkpoints" / name
        values = checkpoint.read_variables(source)
        for output_format in ("huggingface", "model_garden"):
            there = tmp_path / f"{name}_{output_format}"
            run(source, there, output_format)
            report = run(there, tmp_path / f"{there.name}_back", "tf1")
            assert not report.missing
            assert_same(tmp_path / f"{there.name}_back", values)


@pytest.mark.parametrize("prefix", ["bert_model.ckpt", "model.ckpt-12"])
def test_the_output_may_be_a_prefix(tmp_path, prefix):
    values = random_values(names_of(None))
    source = write_tf1(tmp_path / "in", values)
    for output_format in ("tf1", "model_garden"):
        output = tmp_path / output_format / prefix
        run(source / "bert_model.ckpt.index", output, output_format)
        assert checkpoint.list_prefixes(output.parent) == [str(output)]
        assert_same(output, values)


# --- optimizer state -------------------------------------------------------


def with_slots(values):
    slots = {
        f"{name}/{slot}": x * 2
        for name, x in values.items()
        for slot in ("adam_m", "adam_v")
    }
    return values | slots | {"global_step": np.asarray(9, "i8")}


def test_slots_are_left_out_and_said_to_be(tmp_path):
    values = random_values(names_of("pre_training"))
    source = write_tf1(tmp_path / "in", with_slots(values))
    for output_format in FORMATS:
        report = run(source, tmp_path / output_format, output_format)
        assert set(report.ignored.values()) == {"optimizer state"}
        assert len(report.ignored) == 2 * len(values) + 1
        assert "optimizer state (93)" in report.summary()
        assert_same(tmp_path / output_format, values)


def test_slots_can_be_kept(tmp_path):
    values = with_slots(random_values(names_of("pre_training")))
    source = write_tf1(tmp_path / "in", values)
    target = tmp_path / "kept"
    report = run(source, target, "tf1", keep_optimizer_state=True)
    assert not report.ignored
    latest = checkpoint.latest_checkpoint(target)
    assert latest == f"{target}/model.ckpt-9"
    assert_same(latest, values)
    with pytest.raises(ValueError, match="keep_optimizer_state"):
        run(source, target, "huggingface", keep_optimizer_state=True)


# --- nothing is partial, nothing is silent ---------------------------------


def test_missing_weights_stop(tmp_path):
    values = random_values(names_of(None))
    gone = "bert/encoder/layer_1/output/dense/kernel"
    del values[gone]
    source = write_tf1(tmp_path / "in", values)
    with pytest.raises(ValueError, match=f"{gone}: missing"):
        run(source, tmp_path / "out", "huggingface")
    assert not (tmp_path / "out").exists()


def test_shapes_must_be_the_configs(tmp_path):
    config = dataclasses.replace(CONFIG, vocab_size=21, num_hidden_layers=1)
    source = write_tf1(
        tmp_path / "tf1", random_values(names_of(None)), None, config
    )
    with pytest.raises(ValueError) as error:
        run(source, tmp_path / "out", "huggingface")
    text = str(error.value)
    assert "word_embeddings: [20, 8], the config asks for [21, 8]" in text
    assert "layer_1/output/dense/bias: [8], the config asks for no such" in text


def test_unexpected_weights_stop_unless_dropped(tmp_path):
    values = random_values(names_of(None))
    extra = {"crf/transitions": np.ones((3, 3), "f4")}
    source = write_tf1(tmp_path / "in", values | extra)
    with pytest.raises(ValueError, match=r"1 tensors have .*crf/tr"):
        run(source, tmp_path / "out", "huggingface")
    report = run(source, tmp_path / "out", "huggingface", drop_unexpected=True)
    assert "crf/transitions" in report.ignored
    assert "unexpected" in report.summary()
    assert_same(tmp_path / "out", values)


def test_half_a_head_stops(tmp_path):
    values = random_values(names_of("masked_lm"))
    del values["cls/predictions/output_bias"]
    source = write_tf1(tmp_path / "in", values)
    with pytest.raises(ValueError, match="no known head"):
        run(source, tmp_path / "out", "huggingface")


def test_two_heads_stop(tmp_path):
    values = random_values([*names_of("masked_lm"), *HEADS["multiple_choice"]])
    source = write_tf1(tmp_path / "in", values)
    with pytest.raises(ValueError, match="no known head"):
        run(source, tmp_path / "out", "huggingface")


def test_a_head_of_unknown_kind_is_said_to_be_guessed(tmp_path):
    values = random_values(names_of("token_classification"))
    source = write_tf1(tmp_path / "in", values)
    report = run(source, tmp_path / "guessed", "huggingface")
    assert report.head == "sequence_classification"
    assert any("--head" in note for note in report.notes)
    report = run(
        source, tmp_path / "told", "huggingface", head="token_classification"
    )
    assert report.head == "token_classification"
    assert not any("--head" in note for note in report.notes)
    config = json.loads((tmp_path / "told" / "config.json").read_text())
    assert config["architectures"] == ["BertForTokenClassification"]
    with pytest.raises(ValueError, match="expected masked_lm"):
        run(source, tmp_path / "wrong", "huggingface", head="masked_lm")


def test_labels_must_be_as_many_as_outputs(tmp_path):
    record = {"task": "classification", "labels": ["a", "b"]}
    values = random_values(names_of("sequence_classification"))
    source = write_tf1(tmp_path / "in", values, record)
    with pytest.raises(ValueError, match=r"2 labels .* 3 outputs"):
        run(source, tmp_path / "out", "huggingface")


def test_labels_of_a_text_file(tmp_path):
    values = random_values(names_of("sequence_classification"))
    source = write_tf1(tmp_path / "in", values)
    (source / "labels.txt").write_text("x\ny\nz\n")
    run(source, tmp_path / "out", "huggingface")
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["id2label"] == {"0": "x", "1": "y", "2": "z"}
    assert config["label2id"] == {"x": 0, "y": 1, "z": 2}


def test_a_config_is_needed(tmp_path):
    values = random_values(names_of(None))
    source = write_tf1(tmp_path / "in", values)
    shutil.move(source / "bert_config.json", tmp_path / "c.json")
    with pytest.raises(ValueError, match="give --bert_config_file"):
        run(source, tmp_path / "out", "huggingface")
    config = str(tmp_path / "c.json")
    run(source, tmp_path / "out", "huggingface", bert_config_file=config)
    assert_same(tmp_path / "out", values)


def test_heads_of_the_attention_must_agree(tmp_path):
    values = random_values(names_of(None))
    source = write_tf1(tmp_path / "in", values)
    run(source, tmp_path / "garden", "model_garden")
    (tmp_path / "garden" / "bert_config.json").unlink()
    report = run(tmp_path / "garden", tmp_path / "inferred", "tf1")
    assert report.config.num_attention_heads == 4
    assert report.config.intermediate_size == 12
    assert "inferred" in report.summary()
    two = dataclasses.replace(CONFIG, num_attention_heads=2)
    two.save(tmp_path / "two.json")
    with pytest.raises(ValueError, match="num_attention_heads is 2"):
        run(
            tmp_path / "garden",
            tmp_path / "out",
            "tf1",
            bert_config_file=str(tmp_path / "two.json"),
        )


def test_a_vocabulary_larger_than_the_table_stops(tmp_path):
    source = write_tf1(tmp_path / "in", random_values(names_of(None)))
    (source / "vocab.txt").write_bytes(VOCAB + b"more\n")
    with pytest.raises(ValueError, match="21 lines, but vocab_size is 20"):
        run(source, tmp_path / "out", "huggingface")
    (source / "vocab.txt").write_bytes(VOCAB[:-4])
    report = run(source, tmp_path / "out", "huggingface")
    assert any("19 lines" in note for note in report.notes)
    vocab = tmp_path / "other.txt"
    vocab.write_bytes(VOCAB)
    run(source, tmp_path / "given", "huggingface", vocab_file=str(vocab))
    assert (tmp_path / "given" / "vocab.txt").read_bytes() == VOCAB


@pytest.mark.parametrize(("piece", "lower"), [(b"w1", True), (b"W1", False)])
def test_casing_is_guessed_and_said_to_be(tmp_path, piece, lower):
    source = write_tf1(tmp_path / "in", random_values(names_of(None)))
    (source / "vocab.txt").write_bytes(VOCAB.replace(b"w1\n", piece + b"\n"))
    report = run(source, tmp_path / "out", "huggingface")
    assert any(f"do_lower_case={lower}" in note for note in report.notes)
    path = tmp_path / "out" / "tokenizer_config.json"
    assert json.loads(path.read_text())["do_lower_case"] is lower
    report = run(
        source, tmp_path / "told", "huggingface", do_lower_case=not lower
    )
    assert not report.notes


def test_no_pooler(tmp_path):
    pooler = "bert/pooler/dense/"
    for head in (None, "question_answering"):
        values = random_values(names_of(head))
        values = {k: v for k, v in values.items() if pooler not in k}
        source = write_tf1(tmp_path / f"{head}", values)
        report = run(source, tmp_path / f"{head}_hf", "huggingface")
        assert report.missing == (f"{pooler}kernel", f"{pooler}bias")
        assert f"missing: {pooler}kernel" in report.summary()
        assert_same(tmp_path / f"{head}_hf", values)
        with pytest.raises(ValueError, match="no pooler"):
            run(source, tmp_path / f"{head}_saved", "saved_model")
        report = run(source, tmp_path / f"{head}_new", "tf1", new_pooler=True)
        assert not report.missing
        found = checkpoint.read_variables(tmp_path / f"{head}_new")
        assert found[f"{pooler}kernel"].shape == (8, 8)
        assert 0 < np.abs(found[f"{pooler}kernel"]).max() <= 0.04
        assert not found[f"{pooler}bias"].any()
    head = "sequence_classification"
    values = random_values(names_of(head))
    values = {k: v for k, v in values.items() if pooler not in k}
    source = write_tf1(tmp_path / head, values)
    with pytest.raises(ValueError, match="no pooler, which the head"):
        run(source, tmp_path / "x", "tf1", new_pooler=True)


def test_lower_precision_becomes_float32(tmp_path):
    values = random_values(names_of(None))
    source = write_tf1(tmp_path / "in", values)
    run(source, tmp_path / "hf", "huggingface")
    path = tmp_path / "hf" / "model.safetensors"
    found = safetensors.SafetensorsFile(path)
    halves = {x: found.read(x).astype("f2") for x in found.entries}
    safetensors.write(path, stored(halves))
    report = run(tmp_path / "hf", tmp_path / "back", "tf1")
    assert {x.change for x in report.rows} == {
        "cast from float16",
        "transposed, cast from float16",
    }
    expected = {k: v.astype("f2").astype("f4") for k, v in values.items()}
    assert_same(tmp_path / "back", expected)
    # Loaded into a model directly, they are cast too.
    model = bert_tf.BertModel(CONFIG)
    bert_tf.load_checkpoint(model, tmp_path / "hf", strict=True)


# --- where it is written ---------------------------------------------------


@pytest.mark.parametrize("output_format", FORMATS)
def test_nothing_is_replaced_unasked(tmp_path, output_format):
    source = write_tf1(tmp_path / "in", random_values(names_of(None)))
    run(source, tmp_path / "out", output_format)
    with pytest.raises(ValueError, match="already; choose another"):
        run(source, tmp_path / "out", output_format)
    run(source, tmp_path / "out", output_format, overwrite=True)
    with pytest.raises(ValueError, match="own place"):
        run(source, source, "tf1", overwrite=True)
    with pytest.raises(ValueError, match="is a file"):
        run(source, source / "vocab.txt", "huggingface")


def test_a_folder_of_other_things_is_no_saved_model(tmp_path):
    source = write_tf1(tmp_path / "in", random_values(names_of(None)))
    target = tmp_path / "home"
    target.mkdir()
    (target / "thesis.tex").write_text("dear")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        run(source, target, "saved_model")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        run(source, target, "saved_model", overwrite=True)
    (target / "saved_model.pb").write_text("")
    with pytest.raises(ValueError, match=r"thesis\.tex"):
        run(source, target, "saved_model", overwrite=True)
    assert (target / "thesis.tex").exists()


def test_archives(tmp_path):
    values = random_values(names_of(None))
    folder = write_tf1(tmp_path / "uncased_L-2", values)
    with zipfile.ZipFile(tmp_path / "m.zip", "w") as archive:
        for path in folder.iterdir():
            archive.write(path, f"uncased_L-2/{path.name}")
    run(tmp_path / "m.zip", tmp_path / "from_zip", "huggingface")
    assert_same(tmp_path / "from_zip", values)
    with tarfile.open(tmp_path / "m.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "from_zip", "./")
    report = run(tmp_path / "m.tar.gz", tmp_path / "from_tar", "tf1")
    assert report.input_format == "huggingface"
    assert_same(tmp_path / "from_tar", values)
    with zipfile.ZipFile(tmp_path / "empty.zip", "w") as archive:
        archive.writestr("readme", "nothing here")
    with pytest.raises(ValueError, match=r"empty\.zip, unpacked"):
        run(tmp_path / "empty.zip", tmp_path / "x", "tf1")


def test_wrong_requests():
    with pytest.raises(ValueError, match="--output_format is 'onnx'"):
        Conversion("a", "b", "onnx")
    with pytest.raises(ValueError, match="--head is 'crf'"):
        Conversion("a", "b", "tf1", head="crf")


# --- the command -----------------------------------------------------------


def run_command(*arguments):
    """The script's own main, in this process."""
    with flagsaver.flagsaver():
        FLAGS.unparse_flags()
        argv = FLAGS(["convert_checkpoint.py", *arguments])
        convert_checkpoint.main(argv)


def test_the_command(tmp_path, capsys):
    values = random_values(names_of("masked_lm"))
    write_tf1(tmp_path / "in", values)
    run_command(
        f"--input={tmp_path}/in",
        f"--output={tmp_path}/hf",
        "--output_format=huggingface",
        f"--report={tmp_path}/report.json",
    )
    printed = capsys.readouterr().out
    lines = printed.splitlines()
    assert lines[0].split() == ["input", "output", "shape", "change"]
    (row,) = [x for x in lines if "layer_0/attention/self/query/kernel" in x]
    assert row.split() == [
        "bert/encoder/layer_0/attention/self/query/kernel",
        "bert.encoder.layer.0.attention.self.query.weight",
        "[8,",
        "8]",
        "transposed",
    ]
    assert "44 tensors converted, 0 missing" in printed
    assert "head: masked_lm; hidden_act gelu_erf" in printed
    report = json.loads((tmp_path / "report.json").read_text())
    assert len(report["rows"]) == 44
    assert report["config"]["hidden_act"] == "gelu_erf"
    assert_same(tmp_path / "hf", values)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [([], None), (["--nodo_lower_case"], False), (["--do_lower_case"], True)],
)
def test_casing_counts_only_if_given(arguments, expected):
    given = ["--input=a", "--output=b", "--output_format=tf1"]
    with flagsaver.flagsaver():
        FLAGS.unparse_flags()
        for flag in ("do_lower_case", "bert_config_file", "vocab_file"):
            FLAGS[flag].unparse()
        FLAGS(["convert_checkpoint.py", *given, *arguments])
        request = conversion_flags.conversion()
    assert request == Conversion("a", "b", "tf1", do_lower_case=expected)


def test_the_command_asks_for_what_it_needs(tmp_path):
    with pytest.raises(flags.Error, match="--output "):
        run_command(f"--input={tmp_path}", "--output_format=tf1")


# --- the other scripts start from any format ------------------------------


@pytest.mark.parametrize("start", FORMATS)
def test_a_classifier_starts_from_any_format(tmp_path, start, caplog):
    values = random_values(names_of("masked_lm"))
    source = write_tf1(tmp_path / "in", values)
    there = tmp_path / "there"
    run(source, there, start)
    rows = "".join(f"w{i}\t{i % 2}\n" for i in range(8))
    (tmp_path / "train.tsv").write_text("text\tlabel\n" + rows)
    config = "config.json" if start == "huggingface" else "bert_config.json"
    if start == "saved_model":
        config = "assets.extra/bert_config.json"
    with flagsaver.flagsaver():
        FLAGS.unparse_flags()
        run_classifier.main(
            FLAGS(
                [
                    "run_classifier.py",
                    "--do_train",
                    "--task_name=custom",
                    f"--data_dir={tmp_path}",
                    "--train_file=train.tsv",
                    "--text_column=text",
                    "--label_column=label",
                    f"--init_checkpoint={there}",
                    f"--bert_config_file={there}/{config}",
                    f"--vocab_file={source}/vocab.txt",
                    f"--output_dir={tmp_path}/run",
                    "--max_seq_length=8",
                    "--train_batch_size=8",
                    # The rate of the first step of a warm-up is zero.
                    "--num_train_epochs=1",
                    "--warmup_proportion=1",
                ]
            )
        )
    stored_config = BertConfig.from_json_file(
        tmp_path / "run" / "bert_config.json"
    )
    assert stored_config == CONFIG
    found = checkpoint.read_variables(tmp_path / "run")
    for name in names_of(None):
        assert found[name].tobytes() == values[name].tobytes()
    assert "lacks 2 variables, which keep their fresh values" in caplog.text
