"""Finding, reading, refusing and writing checkpoints."""

import logging
import pathlib
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import bert_tf
from bert_tf import checkpoint, files
from bert_tf.checkpoint import reading
from bert_tf.config import BertConfig
from bert_tf.heads import (
    BertForPreTraining,
    BertForQuestionAnswering,
    BertForSequenceClassification,
)
from bert_tf.modeling import BertModel

WORDS = "bert/embeddings/word_embeddings"


def config(**changes):
    values = {
        "vocab_size": 40,
        "hidden_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "intermediate_size": 16,
        "max_position_embeddings": 12,
        "type_vocab_size": 2,
    }
    return BertConfig.from_dict(values | changes, source="my/bert_config.json")


def values_of(model):
    names = checkpoint.checkpoint_names(model)
    return {name: variable.numpy() for name, variable in names.items()}


def same(first, second):
    return first.keys() == second.keys() and all(
        first[name].tobytes() == second[name].tobytes() for name in first
    )


def write_raw(prefix, tensors):
    """Writes a checkpoint of any content, not through our own code."""
    pathlib.Path(prefix).parent.mkdir(parents=True, exist_ok=True)
    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(tensors),
        shape_and_slices=[""] * len(tensors),
        tensors=list(tensors.values()),
    )
    return str(prefix)


@pytest.fixture(scope="module")
def pretrained(tmp_path_factory):
    """A folder as the releases have it, of a pre-training model."""
    folder = tmp_path_factory.mktemp("released")
    model = BertForPreTraining(config())
    checkpoint.save_checkpoint(model, folder / "bert_model.ckpt")
    return folder


# --- finding ---------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        "bert_model.ckpt",
        "bert_model.ckpt.index",
        "bert_model.ckpt.meta",
        "bert_model.ckpt.data-00000-of-00001",
        "",
    ],
)
def test_every_way_to_name_a_checkpoint(pretrained, given):
    expected = f"{pretrained}/bert_model.ckpt"
    assert checkpoint.resolve_checkpoint(pretrained / given) == expected
    if not given:
        assert checkpoint.resolve_checkpoint(f"{pretrained}/") == expected


def test_a_bare_name_in_the_working_folder(pretrained, monkeypatch):
    monkeypatch.chdir(pretrained)
    assert checkpoint.resolve_checkpoint("bert_model.ckpt") == "bert_model.ckpt"
    found = checkpoint.resolve_checkpoint(".")
    assert same(
        checkpoint.read_variables(found),
        checkpoint.read_variables(pretrained),
    )


def test_a_folder_of_several_lists_them(tmp_path):
    for name in ("one.ckpt", "two.ckpt"):
        write_raw(tmp_path / name, {"x": tf.zeros([1])})
    with pytest.raises(ValueError, match="2 checkpoints") as error:
        checkpoint.resolve_checkpoint(tmp_path)
    assert f"{tmp_path}/one.ckpt, {tmp_path}/two.ckpt" in str(error.value)


def test_the_state_file_says_which_is_the_latest(tmp_path):
    for step in (9, 10):
        checkpoint.write_checkpoint(tmp_path, step, {"x": tf.zeros([1])})
    expected = f"{tmp_path}/model.ckpt-10"
    assert checkpoint.resolve_checkpoint(tmp_path) == expected
    assert tf.train.latest_checkpoint(str(tmp_path)) == expected


def test_what_is_no_checkpoint_is_told_apart(tmp_path, pretrained):
    folder = tmp_path / "copy"
    shutil.copytree(pretrained, folder)
    (folder / "vocab.txt").write_text("[PAD]\n")

    def message(path):
        with pytest.raises(ValueError) as error:
            checkpoint.resolve_checkpoint(path)
        return str(error.value)

    found = f"Prefixes found in {folder}: {folder}/bert_model.ckpt"
    assert found in message(folder / "bert_modle.ckpt")
    assert "a file, but no checkpoint" in message(folder / "vocab.txt")
    assert f"{tmp_path}/no does not exist" in message(tmp_path / "no" / "x")
    assert "path is empty" in message("")
    (folder / "bert_model.ckpt.data-00000-of-00001").rename(folder / "lost")
    assert "data files missing" in message(folder / "bert_model.ckpt")
    assert "0 checkpoints" in message(folder)
    (folder / "lost").rename(folder / "bert_model.ckpt.data-00000-of-00002")
    assert "data-00000-of-00002" in message(folder / "bert_model.ckpt")
    (folder / "bert_model.ckpt.index").unlink()
    assert "bert_model.ckpt.index is missing" in message(
        folder / "bert_model.ckpt"
    )


def test_a_damaged_state_file_is_an_error(tmp_path):
    checkpoint.write_checkpoint(tmp_path, 1, {"x": tf.zeros([1])})
    for damaged in ("", "model_checkpoint_path: "):
        (tmp_path / "checkpoint").write_text(damaged)
        with pytest.raises(ValueError, match=r"checkpoint: damaged.*ckpt-1"):
            checkpoint.latest_checkpoint(tmp_path)


# --- reading ---------------------------------------------------------------


def test_round_trip_through_the_public_names(pretrained, tmp_path):
    model = BertForPreTraining(config())
    report = bert_tf.load_checkpoint(model, pretrained / "bert_model.ckpt")
    assert report.loaded == tuple(sorted(values_of(model)))
    assert (report.fresh, report.missing, report.unused) == ((), (), ())
    assert same(values_of(model), checkpoint.read_variables(pretrained))
    prefix = bert_tf.save_checkpoint(model, tmp_path / "new" / "m.ckpt")
    assert sorted(x.name for x in (tmp_path / "new").iterdir()) == [
        "m.ckpt.data-00000-of-00001",
        "m.ckpt.index",
    ]
    other = BertForPreTraining(config())
    assert not same(values_of(other), values_of(model))
    bert_tf.load_checkpoint(other, prefix, strict=True)
    assert same(values_of(other), values_of(model))


def test_a_new_head_is_fresh_and_keeps_its_values(pretrained, caplog):
    model = BertForSequenceClassification(config(), num_labels=3)
    before = values_of(model)
    with caplog.at_level(logging.WARNING, "bert_tf"):
        report = checkpoint.load_checkpoint(model, pretrained)
    assert report.fresh == ("output_bias", "output_weights")
    assert "cls/seq_relationship/output_weights" in report.unused
    assert len(report.unused) == 7 and not report.missing
    for name, value in values_of(model).items():
        assert (value.tobytes() == before[name].tobytes()) == (
            name in report.fresh
            or name.endswith(("bias", "beta", "gamma"))  # zeros and ones
        ), name
    assert "output_bias, output_weights" in caplog.text
    with pytest.raises(ValueError, match="missing in the file, 2 in all"):
        checkpoint.load_checkpoint(model, pretrained, strict=True)


def test_a_declared_set_of_new_encoder_variables(pretrained):
    variables = {
        WORDS: tf.Variable(tf.zeros([40, 8])),
        "bert/adapter/kernel": tf.Variable(tf.zeros([8, 2])),
    }
    with pytest.raises(ValueError, match="bert/adapter/kernel"):
        checkpoint.restore_variables(variables, pretrained)
    report = checkpoint.restore_variables(
        variables, pretrained, may_be_fresh=lambda name: "adapter" in name
    )
    assert report.loaded == (WORDS,)
    assert report.fresh == ("bert/adapter/kernel",)


def test_optimizer_state_is_unused_when_initialising(tmp_path):
    model = BertForSequenceClassification(config(), num_labels=2)
    weights = checkpoint.checkpoint_names(model)
    state = {
        f"{name}/{slot}": tf.zeros(variable.shape)
        for name, variable in weights.items()
        for slot in ("adam_m", "adam_v")
    }
    state["AdamWeightDecayOptimizer/beta1_power"] = tf.zeros([])
    checkpoint.write_checkpoint(tmp_path, 5, {**weights, **state})
    report = checkpoint.load_checkpoint(model, tmp_path)
    assert set(report.unused) == {*state, "global_step"}
    assert (
        f"{len(state) + 1} in the file unused ({len(state) + 1} of them "
        "optimizer state)" in report.summary()
    )


def test_more_layers_in_the_file_than_in_the_model(pretrained, caplog):
    model = BertModel(config(num_hidden_layers=1))
    with caplog.at_level(logging.WARNING, "bert_tf"):
        report = checkpoint.load_checkpoint(model, pretrained)
    assert len([x for x in report.unused if "/layer_1/" in x]) == 16
    assert "16 encoder weights that the model has no place for" in caplog.text


def test_summary_shortens_and_attributes_do_not():
    names = tuple(f"cls/x{i:02}" for i in range(30))
    report = checkpoint.LoadReport("a/b.ckpt", loaded=("y",), unused=names)
    first, line = report.summary().splitlines()
    assert first == (
        "a/b.ckpt: 1 variables loaded, 0 fresh, 0 missing, 30 in the file "
        "unused"
    )
    assert line.endswith("cls/x07 and 22 more")
    assert report.unused == names


def test_values_are_read_in_groups(pretrained, monkeypatch):
    model = BertForPreTraining(config())
    monkeypatch.setattr(reading, "_GROUP_BYTES", 300)
    calls = []
    restore = tf.raw_ops.RestoreV2

    def spy(**keywords):
        calls.append(list(keywords["tensor_names"]))
        return restore(**keywords)

    monkeypatch.setattr(tf.raw_ops, "RestoreV2", spy)
    checkpoint.load_checkpoint(model, pretrained)
    assert len(calls) > 5 and [WORDS] in calls  # 1280 bytes: alone
    assert max(len(names) for names in calls) > 1
    assert same(values_of(model), checkpoint.read_variables(pretrained))


def test_stored_precision_is_cast_to_the_variables(tmp_path):
    write_raw(
        tmp_path / "x",
        {
            "half": tf.constant([1.5, 2.5], tf.float16),
            "step": tf.constant(3, tf.int64),
        },
    )
    half = tf.Variable([0.0, 0.0])
    step = tf.Variable(0, dtype=tf.int32)
    checkpoint.restore_variables({"half": half, "step": step}, tmp_path)
    assert half.numpy().tolist() == [1.5, 2.5] and int(step) == 3
    with pytest.raises(ValueError, match=r"half is float16.*int32"):
        checkpoint.restore_variables(
            {"half": tf.Variable([0, 0])}, tmp_path / "x"
        )


def test_some_variables_without_a_model(pretrained):
    values = checkpoint.read_variables(pretrained, [WORDS])
    assert list(values) == [WORDS] and values[WORDS].shape == (40, 8)
    with pytest.raises(ValueError, match="has no variable nothing"):
        checkpoint.read_variables(pretrained, ["nothing"])


def test_shapes_without_the_values(pretrained):
    values = checkpoint.read_variables(pretrained)
    assert checkpoint.read_shapes(pretrained) == {
        name: value.shape for name, value in values.items()
    }


# --- refusing --------------------------------------------------------------


def refusal(model, path, **keywords):
    before = values_of(model)
    with pytest.raises(checkpoint.CheckpointError) as error:
        checkpoint.load_checkpoint(model, path, **keywords)
    assert same(values_of(model), before)  # nothing half loaded
    return str(error.value)


def test_another_vocabulary(pretrained):
    text = refusal(BertModel(config(vocab_size=41)), pretrained)
    assert f"{WORDS}: [40, 8] in the checkpoint, [41, 8] in the model" in text
    assert f"{pretrained}/bert_model.ckpt" in text
    assert "my/bert_config.json" in text
    assert "shapes differ, 1 in all" in text


def test_another_size_names_every_variable(pretrained):
    model = BertModel(config(hidden_size=12))
    text = refusal(model, pretrained)
    for name in values_of(model):
        if "intermediate/dense/bias" not in name:
            assert f"  {name}: [" in text


def test_fewer_layers_in_the_file_than_in_the_model(pretrained):
    text = refusal(BertModel(config(num_hidden_layers=3)), pretrained)
    assert "Part of the encoder is missing" in text
    assert "missing in the file, 16 in all" in text
    assert "  bert/encoder/layer_2/output/dense/kernel" in text


@pytest.mark.parametrize("prefix", ["module/bert/", "electra/", ""])
def test_another_prefix_shows_both_sides(pretrained, tmp_path, prefix):
    values = checkpoint.read_variables(pretrained)
    renamed = {
        name.replace("bert/", prefix, 1): value
        for name, value in values.items()
    }
    write_raw(tmp_path / "m.ckpt", renamed)
    text = refusal(BertModel(config()), tmp_path)
    assert f"names begin with {prefix!r}" in text
    assert "begin with 'bert/'" in text
    beta, gamma = (f"embeddings/LayerNorm/{x}" for x in ("beta", "gamma"))
    assert (
        f"the model has bert/{beta}, bert/{gamma}; "
        f"the checkpoint has {prefix}{beta}, {prefix}{gamma}" in text
    )


def test_object_based_is_named_as_such(tmp_path):
    prefix = tf.train.Checkpoint(model=tf.Variable(1.0)).write(
        str(tmp_path / "ckpt")
    )
    text = refusal(BertModel(config()), prefix)
    assert "object-based TensorFlow 2 checkpoint" in text


def test_albert_is_named_as_such(tmp_path):
    scope = "bert/encoder/transformer/group_0/inner_group_0"
    write_raw(
        tmp_path / "model.ckpt",
        {
            WORDS: tf.zeros([40, 8]),
            f"{scope}/attention_1/self/query/kernel": tf.zeros([8, 8]),
        },
    )
    text = refusal(BertModel(config()), tmp_path)
    assert "ALBERT checkpoint, not a BERT checkpoint" in text


def test_something_else_altogether(tmp_path):
    write_raw(tmp_path / "resnet", {"conv1/kernel": tf.zeros([3, 3])})
    text = refusal(BertModel(config()), tmp_path)
    assert "not a BERT checkpoint: all expected encoder names" in text
    assert "conv1/kernel" in text


def test_a_head_of_another_size_is_said_to_be_the_head(tmp_path):
    three = BertForSequenceClassification(config(), num_labels=3)
    checkpoint.save_checkpoint(three, tmp_path / "m.ckpt")
    two = BertForSequenceClassification(config(), num_labels=2)
    text = refusal(two, tmp_path)
    assert "shapes of the head differ, 2 in all" in text
    assert "output_weights: [3, 8] in the checkpoint, [2, 8]" in text
    assert "The encoder fits, the head does not" in text


def test_another_tasks_checkpoint_when_all_is_needed(pretrained):
    text = refusal(BertForQuestionAnswering(config()), pretrained, strict=True)
    assert "Its head is another one" in text
    assert "  cls/squad/output_weights" in text


def test_weights_alone_cannot_be_resumed(pretrained):
    variables = {
        WORDS: tf.Variable(tf.zeros([40, 8])),
        "global_step": tf.Variable(0, dtype=tf.int64),
    }
    with pytest.raises(ValueError, match="no optimizer state") as error:
        checkpoint.restore_variables(variables, pretrained)
    assert error.value.report.missing == ("global_step",)


@pytest.mark.parametrize("keep", [0, 10, 0.5, -1])
@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
def test_a_file_cut_short_is_named(pretrained, tmp_path, suffix, keep):
    folder = tmp_path / "copy"
    shutil.copytree(pretrained, folder)
    path = folder / f"bert_model.ckpt.{suffix}"
    whole = path.read_bytes()
    end = int(len(whole) * keep) if keep == 0.5 else keep
    path.write_bytes(whole[:end])
    with pytest.raises(ValueError, match="damaged or cut short") as error:
        checkpoint.load_checkpoint(BertForPreTraining(config()), folder)
    assert f"{folder}/bert_model.ckpt.{suffix[:4]}" in str(error.value)


@pytest.mark.parametrize("suffix", ["index", "data-00000-of-00001"])
def test_a_flipped_bit_is_noticed(pretrained, tmp_path, suffix):
    folder = tmp_path / "copy"
    shutil.copytree(pretrained, folder)
    path = folder / f"bert_model.ckpt.{suffix}"
    content = bytearray(path.read_bytes())
    content[len(content) // 3] ^= 4
    path.write_bytes(content)
    with pytest.raises(ValueError, match="damaged or cut short"):
        checkpoint.load_checkpoint(BertForPreTraining(config()), folder)


# --- writing ---------------------------------------------------------------


def names_in(folder):
    return sorted(x.name for x in pathlib.Path(folder).iterdir())


def whole_checkpoint(step, sidecar=False):
    suffixes = ["data-00000-of-00001", "index", *["json"] * sidecar]
    return [f"model.ckpt-{step}.{suffix}" for suffix in suffixes]


def test_dtypes_in_the_file(tmp_path):
    tensors = {
        "bfloat16": tf.Variable(tf.constant([1.5], tf.bfloat16)),
        "float16": tf.constant([2.5], tf.float16),
        "float32": tf.constant([3.5]),
        "global_step": tf.Variable(4),
    }
    values = checkpoint.read_variables(
        checkpoint.write_checkpoint(tmp_path, 4, tensors)
    )
    assert {name: value.dtype for name, value in values.items()} == {
        "bfloat16": np.float32,
        "float16": np.float32,
        "float32": np.float32,
        "global_step": np.int64,
    }
    assert values["bfloat16"] == 1.5 and values["float16"] == 2.5
    assert values["global_step"] == 4


@pytest.mark.parametrize(
    ("keep_max", "kept"), [(2, [3, 4]), (1, [4]), (0, [1, 2, 3, 4])]
)
def test_only_known_checkpoints_are_pruned(tmp_path, keep_max, kept):
    write_raw(tmp_path / "model.ckpt-0", {"x": tf.zeros([1])})  # not ours
    write_raw(tmp_path / "model.ckpt-11", {"x": tf.zeros([1])})
    for step in (1, 2, 3, 4):
        checkpoint.write_checkpoint(
            tmp_path,
            step,
            {"x": tf.constant([step])},
            keep_max,
            sidecar={"step": step},
        )
    expected = ["checkpoint", *whole_checkpoint(0), *whole_checkpoint(11)]
    for step in kept:
        expected += whole_checkpoint(step, sidecar=True)
    assert names_in(tmp_path) == sorted(expected)
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert list(state.all_model_checkpoint_paths) == [
        f"{tmp_path}/model.ckpt-{step}" for step in kept
    ]


def test_a_moved_folder_works(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for step in (1, 2):
        checkpoint.write_checkpoint(old, step, {"x": tf.zeros([1])})
    assert (old / "checkpoint").read_text() == (
        'model_checkpoint_path: "model.ckpt-2"\n'
        'all_model_checkpoint_paths: "model.ckpt-1"\n'
        'all_model_checkpoint_paths: "model.ckpt-2"\n'
    )
    old.rename(new)
    assert checkpoint.latest_checkpoint(new) == f"{new}/model.ckpt-2"
    assert tf.train.latest_checkpoint(str(new)) == f"{new}/model.ckpt-2"


def test_absolute_paths_of_an_old_state_file(tmp_path):
    old, new = tmp_path / "old", tmp_path / "new"
    for step in (1, 2):
        write_raw(old / f"model.ckpt-{step}", {"x": tf.zeros([1])})
    paths = [f"{old}/model.ckpt-{step}" for step in (1, 2)]
    tf.compat.v1.train.update_checkpoint_state(str(old), paths[1], paths)
    assert str(old) in (old / "checkpoint").read_text()
    shutil.copytree(old, new)
    # The files that the state names still exist, yet the copy is its own.
    assert checkpoint.latest_checkpoint(new) == f"{new}/model.ckpt-2"
    checkpoint.write_checkpoint(new, 3, {"x": tf.zeros([1])}, keep_max=1)
    assert names_in(new) == ["checkpoint", *whole_checkpoint(3)]
    assert len(names_in(old)) == 5


def test_another_folders_checkpoint_is_used_but_never_pruned(tmp_path):
    other, run = tmp_path / "other", tmp_path / "run"
    write_raw(other / "model.ckpt-1", {"x": tf.zeros([1])})
    run.mkdir()
    (run / "checkpoint").write_text(
        f'model_checkpoint_path: "{other}/model.ckpt-1"\n'
    )
    assert checkpoint.latest_checkpoint(run) == f"{other}/model.ckpt-1"
    checkpoint.write_checkpoint(run, 2, {"x": tf.zeros([1])}, keep_max=1)
    assert names_in(run) == ["checkpoint", *whole_checkpoint(2)]
    assert names_in(other) == whole_checkpoint(1)


def test_a_relative_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for folder in ("run", "run/sub/", "."):
        prefix = checkpoint.write_checkpoint(folder, 1, {"x": tf.zeros([1])})
        assert checkpoint.latest_checkpoint(folder) == prefix
        assert (
            'path: "model.ckpt-1"'
            in (tmp_path / folder / "checkpoint").read_text()
        )


def test_lost_files_fall_back_to_the_newest_whole_one(tmp_path, caplog):
    for step in (1, 2, 3):
        checkpoint.write_checkpoint(tmp_path, step, {"x": tf.zeros([1])})
    (tmp_path / "model.ckpt-3.data-00000-of-00001").unlink()
    with caplog.at_level(logging.WARNING, "bert_tf"):
        latest = checkpoint.latest_checkpoint(tmp_path)
    assert latest == f"{tmp_path}/model.ckpt-2"
    assert "model.ckpt-3 is not there whole, using" in caplog.text
    assert checkpoint.latest_checkpoint(tmp_path / "nowhere") is None


class Killed(BaseException):
    """Stands for the end of the process."""


@pytest.mark.parametrize("point", ["save", "data", "sidecar", "index", "state"])
def test_killed_in_between(tmp_path, monkeypatch, point):
    first = checkpoint.write_checkpoint(
        tmp_path, 1, {"x": tf.constant([1.0])}, sidecar={"at": 1}
    )

    def killed(*args, **keywords):
        raise Killed

    replace = files.replace
    suffix = {"data": "00001", "sidecar": "json", "state": "checkpoint"}

    def killed_at_suffix(source, target):
        if str(target).endswith(suffix.get(point, point)):
            raise Killed
        replace(source, target)

    with monkeypatch.context() as patch:
        if point == "save":
            patch.setattr(tf.raw_ops, "SaveV2", killed)
        patch.setattr(files, "replace", killed_at_suffix)
        # A killed process cleans nothing up.
        patch.setattr(files, "remove_tree", lambda path: None)
        patch.setattr(files, "remove", lambda path: None)
        with pytest.raises(Killed):
            checkpoint.write_checkpoint(
                tmp_path, 2, {"x": tf.constant([2.0])}, 1, sidecar={"at": 2}
            )
    assert checkpoint.latest_checkpoint(tmp_path) == first
    assert checkpoint.resolve_checkpoint(tmp_path) == first
    assert checkpoint.read_variables(first)["x"] == 1.0
    assert checkpoint.read_sidecar(first) == {"at": 1}
    assert any("_temp_" in name for name in names_in(tmp_path))
    checkpoint.sweep_temporaries(tmp_path)
    assert not any("_temp_" in name for name in names_in(tmp_path))
    assert not any(name.endswith(".tmp") for name in names_in(tmp_path))
    second = checkpoint.write_checkpoint(
        tmp_path, 2, {"x": tf.constant([3.0])}, 1, sidecar={"at": 3}
    )
    assert names_in(tmp_path) == ["checkpoint", *whole_checkpoint(2, True)]
    assert checkpoint.read_variables(second)["x"] == 3.0
    assert checkpoint.read_sidecar(second) == {"at": 3}


def test_killed_while_replacing_the_same_name(tmp_path, monkeypatch):
    def moves(allowed):
        replace, left = files.replace, [None] * allowed

        def limited(source, target):
            if not left:
                raise Killed
            left.pop()
            replace(source, target)

        return limited

    for allowed in (0, 1):
        prefix = checkpoint.write_checkpoint(
            tmp_path, 1, {"x": tf.constant([1.0])}
        )
        with monkeypatch.context() as patch:
            patch.setattr(files, "replace", moves(allowed))
            with pytest.raises(Killed):
                checkpoint.write_checkpoint(
                    tmp_path, 1, {"x": tf.constant([2.0])}
                )
        # Rather no checkpoint than one of two halves that do not belong
        # together.
        assert not (tmp_path / "model.ckpt-1.index").exists()
        assert checkpoint.latest_checkpoint(tmp_path) is None
        with pytest.raises(ValueError, match=r"ckpt-1\.index is missing"):
            checkpoint.resolve_checkpoint(prefix)


def test_killed_while_pruning_leaves_nothing_forgotten(tmp_path, monkeypatch):
    for step in (1, 2):
        checkpoint.write_checkpoint(tmp_path, step, {"x": tf.zeros([1])})

    def killed(path):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(files, "remove", killed)
        with pytest.raises(Killed):
            checkpoint.write_checkpoint(tmp_path, 3, {"x": tf.zeros([1])}, 1)
    assert checkpoint.latest_checkpoint(tmp_path).endswith("-3")
    checkpoint.write_checkpoint(tmp_path, 4, {"x": tf.zeros([1])}, 1)
    assert names_in(tmp_path) == ["checkpoint", *whole_checkpoint(4)]


def test_a_disk_that_fills_up(tmp_path):
    first = checkpoint.write_checkpoint(tmp_path, 1, {"x": tf.zeros([1])})
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limits[1]))
    try:
        with pytest.raises(ValueError, match="cannot write") as error:
            checkpoint.write_checkpoint(
                tmp_path, 2, {"x": tf.zeros([1 << 20])}, keep_max=1
            )
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert f"{tmp_path}/model.ckpt-2" in str(error.value)
    assert f"the last good one is {first}" in str(error.value)
    assert names_in(tmp_path) == ["checkpoint", *whole_checkpoint(1)]
    assert checkpoint.read_variables(first)["x"] == 0.0


def test_a_folder_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("")
    for write in (
        lambda: checkpoint.write_checkpoint(tmp_path / "file" / "run", 1, {}),
        lambda: checkpoint.save_checkpoint(
            BertModel(config()), tmp_path / "file" / "m.ckpt"
        ),
    ):
        with pytest.raises(ValueError, match="cannot write the checkpoint"):
            write()


def test_sweeping_touches_nothing_else(tmp_path):
    checkpoint.write_checkpoint(
        tmp_path, 1, {"x": tf.zeros([1])}, sidecar={"a": 1}
    )
    (tmp_path / "my_temp_files").mkdir()
    (tmp_path / "eval_temp_notes.txt").write_text("")
    (tmp_path / "other.tmp").write_text("")
    before = names_in(tmp_path)
    (tmp_path / "model.ckpt-2_temp_0123456789ab").mkdir()
    (tmp_path / "model.ckpt-2_temp_0123456789ab" / "part").write_text("x")
    (tmp_path / "checkpoint.01234567.tmp").write_text("x")
    removed = checkpoint.sweep_temporaries(tmp_path)
    assert len(removed) == 2 and names_in(tmp_path) == before
    assert checkpoint.sweep_temporaries(tmp_path / "nowhere") == []


def test_sidecar(tmp_path):
    sidecar = {"seed": 7, "position": [1, 2], "größe": None}
    prefix = checkpoint.write_checkpoint(
        tmp_path, 1, {"x": tf.zeros([1])}, sidecar=sidecar
    )
    assert checkpoint.read_sidecar(prefix) == sidecar
    # Written anew without one, the old one must not stay.
    checkpoint.write_checkpoint(tmp_path, 1, {"x": tf.ones([1])})
    assert checkpoint.read_sidecar(prefix) is None
    assert checkpoint.read_variables(prefix)["x"] == 1.0
    for damaged in ("{", "[]"):
        (tmp_path / "model.ckpt-1.json").write_text(damaged)
        with pytest.raises(ValueError, match=r"model\.ckpt-1\.json"):
            checkpoint.read_sidecar(prefix)


def test_paths_with_a_scheme():
    folder = "ram://checkpoints/run"
    for step in (1, 2, 3):
        prefix = checkpoint.write_checkpoint(
            folder, step, {"x": tf.constant([step])}, 2, sidecar={"at": step}
        )
    assert prefix == f"{folder}/model.ckpt-3"
    assert checkpoint.latest_checkpoint(folder) == prefix
    for path in (prefix, f"{prefix}.index", folder):
        assert checkpoint.read_variables(path)["x"] == 3
    assert checkpoint.read_sidecar(prefix) == {"at": 3}
    assert checkpoint.list_prefixes(folder) == [
        f"{folder}/model.ckpt-2",
        prefix,
    ]
    assert len(files.list_dir(folder)) == 7


# --- the manager -----------------------------------------------------------


def make_manager(folder, **keywords):
    step = tf.Variable(0, dtype=tf.int64)
    weight = tf.Variable([0.0])
    manager = checkpoint.CheckpointManager(
        folder, step, lambda: {"x": weight, "x/adam_m": weight}, **keywords
    )
    return manager, step, weight


def test_manager_saves_on_the_interval_and_no_step_twice(tmp_path):
    manager, step, weight = make_manager(
        tmp_path,
        interval=4,
        keep_max=2,
        sidecar_fn=lambda: {"at": int(step)},
    )
    assert isinstance(manager, tf.train.CheckpointManager)
    assert manager.restore_or_initialize() is None
    saved = []
    for value in range(1, 11):
        step.assign(value)
        weight.assign([float(value)])
        if manager.save(value):
            saved.append(value)
    assert saved == [4, 8]
    assert manager.save(check_interval=False) == f"{tmp_path}/model.ckpt-10"
    assert manager.save(check_interval=False) is None
    assert manager.checkpoints == [
        f"{tmp_path}/model.ckpt-{x}" for x in (8, 10)
    ]
    assert manager.checkpoint_interval == 4
    manager.sync()

    again, step, weight = make_manager(tmp_path, interval=4)
    assert again.latest_checkpoint == f"{tmp_path}/model.ckpt-10"
    assert again.restore_or_initialize() == again.latest_checkpoint
    assert int(step) == 10 and weight.numpy() == 10.0
    assert checkpoint.read_sidecar(again.latest_checkpoint) == {"at": 10}
    assert again.save(check_interval=False) is None
    assert again.save(13) is None
    assert again.save(14) is not None


def test_manager_initialises_only_an_empty_folder(tmp_path):
    calls = []
    manager, step, _ = make_manager(tmp_path, init_fn=lambda: calls.append(1))
    manager.restore_or_initialize()
    assert calls == [1]
    step.assign(3)
    manager.save()
    manager.restore_or_initialize()
    assert calls == [1]


def test_manager_sweeps_when_it_is_made(tmp_path):
    (tmp_path / "model.ckpt-2_temp_0123456789ab").mkdir()
    make_manager(tmp_path, is_chief=False)
    assert names_in(tmp_path) == ["model.ckpt-2_temp_0123456789ab"]
    make_manager(tmp_path)
    assert names_in(tmp_path) == []


def test_only_the_chief_writes(tmp_path):
    manager, step, _ = make_manager(tmp_path, interval=1, is_chief=False)
    step.assign(1)
    assert manager.save() is None
    assert names_in(tmp_path) == []


def test_manager_refuses_another_runs_folder(tmp_path):
    checkpoint.write_checkpoint(tmp_path, 5, {"x": tf.zeros([2])})
    manager, step, _ = make_manager(tmp_path)
    with pytest.raises(ValueError, match=r"x: \[2\] in the checkpoint, \[1\]"):
        manager.restore_or_initialize()
    assert int(step) == 0


def test_manager_with_orbit(tmp_path):
    orbit = pytest.importorskip("orbit")

    class Trainer(orbit.AbstractTrainer):
        def __init__(self):
            self.step = tf.Variable(0, dtype=tf.int64)
            self.weight = tf.Variable([0.0])

        def train(self, num_steps):
            self.step.assign_add(tf.cast(num_steps, tf.int64))
            self.weight.assign_add([0.5 * int(num_steps)])

    class Evaluator(orbit.AbstractEvaluator):
        def __init__(self, trainer):
            self.trainer = trainer

        def evaluate(self, num_steps):
            return {"weight": float(self.trainer.weight[0])}

    def controller(trainer):
        manager = checkpoint.CheckpointManager(
            tmp_path, trainer.step, lambda: {"w": trainer.weight}, interval=4
        )
        return orbit.Controller(
            trainer=trainer,
            evaluator=Evaluator(trainer),
            global_step=trainer.step,
            steps_per_loop=2,
            checkpoint_manager=manager,
        )

    first = Trainer()
    controller(first).train(steps=6)
    assert checkpoint.list_prefixes(tmp_path) == [
        f"{tmp_path}/model.ckpt-{step}" for step in (4, 6)
    ]
    second = Trainer()
    resumed = controller(second)
    assert int(second.step) == 6 and second.weight.numpy() == 3.0
    resumed.restore_checkpoint(f"{tmp_path}/model.ckpt-4")
    assert int(second.step) == 4 and second.weight.numpy() == 2.0
    third = Trainer()
    output = controller(third).evaluate_continuously(
        timeout=0.01, timeout_fn=lambda: True
    )
    assert output == {"weight": 3.0}


# --- distribution and imports ----------------------------------------------

MIRRORED = """
import sys
import tensorflow as tf
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
from bert_tf import checkpoint
from bert_tf.config import BertConfig
from bert_tf.heads import BertForSequenceClassification
from bert_tf.optimization import AdamWeightDecay
folder = sys.argv[1]
config = BertConfig(vocab_size=40, hidden_size=8, num_hidden_layers=2,
                    num_attention_heads=2, intermediate_size=16,
                    max_position_embeddings=12, type_vocab_size=2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])

def make(value):
    with strategy.scope():
        model = BertForSequenceClassification(config, num_labels=3)
        optimizer = AdamWeightDecay()
        optimizer.build(checkpoint.checkpoint_names(model))
        step = tf.Variable(int(value), dtype=tf.int64)
    tensors = {**checkpoint.checkpoint_names(model), **optimizer.slots}
    for slot in optimizer.slots.values():
        slot.assign(tf.fill(slot.shape, value))
    return tensors, step

tensors, step = make(2.0)
manager = checkpoint.CheckpointManager(
    folder + "/run", step, lambda: tensors, interval=1)
prefix = manager.save(check_interval=False)
assert prefix
for in_scope in (False, True):
    others, other_step = make(0.0)
    again = checkpoint.CheckpointManager(
        folder + "/run", other_step, lambda: others)
    if in_scope:
        with strategy.scope():
            assert again.restore_or_initialize() == prefix
    else:
        assert again.restore_or_initialize() == prefix
    for name, variable in {**others, "global_step": other_step}.items():
        copies = strategy.experimental_local_results(variable)
        assert len(copies) == 2, name
        expected = {**tensors, "global_step": step}[name]
        expected = strategy.experimental_local_results(expected)[0].numpy()
        for copy in copies:
            assert copy.numpy().tobytes() == expected.tobytes(), name
print("equal on both")
"""


def test_mirrored_variables(tmp_path, repo_dir):
    result = subprocess.run(
        [sys.executable, "-c", MIRRORED, str(tmp_path)],
        cwd=repo_dir,
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    assert "equal on both" in result.stdout
    stored = checkpoint.read_variables(tmp_path / "run")
    one = BertForSequenceClassification(config(), num_labels=3)
    report = checkpoint.load_checkpoint(one, tmp_path / "run", strict=True)
    assert len(report.loaded) == 41 and len(report.unused) == 83
    assert all(
        (value == 2.0).all()
        for name, value in stored.items()
        if name.endswith(("/adam_m", "/adam_v"))
    )


def test_import_needs_no_tensorflow(repo_dir):
    code = (
        "import sys, bert_tf.checkpoint as c; dir(c); c.LoadReport; "
        "c.resolve_checkpoint; print('tensorflow' in sys.modules)"
    )
    output = subprocess.run(
        [sys.executable, "-c", code],
        cwd=repo_dir,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output == "False\n"


def test_every_public_name_is_there():
    for name in checkpoint.__all__:
        assert callable(getattr(checkpoint, name))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = checkpoint.nothing
