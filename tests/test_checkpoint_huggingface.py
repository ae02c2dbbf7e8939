"""Hugging Face folders: what is read, what is refused, what is written."""

import json
import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

import bert_tf
from bert_tf import checkpoint, heads
from bert_tf.checkpoint import safetensors
from bert_tf.checkpoint.architecture import all_names, expected_shapes
from bert_tf.checkpoint.huggingface import find_weights, open_huggingface
from bert_tf.checkpoint.huggingface_names import huggingface_name
from bert_tf.checkpoint.huggingface_writing import write_huggingface
from bert_tf.checkpoint.report import CheckpointError
from bert_tf.checkpoint.sources import StoredTensor
from bert_tf.config import BertConfig
from bert_tf.conversion import convert
from bert_tf.conversion_request import Conversion
from bert_tf.inference import Embedder

# Python with torch and transformers, if it is not this one.
PYTHON = os.environ.get("BERT_TF_TRANSFORMERS_PYTHON", sys.executable)
CONFIG = BertConfig(
    vocab_size=20,
    hidden_size=8,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=12,
    max_position_embeddings=10,
    type_vocab_size=2,
)
WORDS = "bert/embeddings/word_embeddings"
TABLE = "bert.embeddings.word_embeddings.weight"


def stored(values):
    return {
        name: StoredTensor(name, x.dtype, x.shape, lambda x=x: x)
        for name, x in values.items()
    }


def random_values(names, config=CONFIG, labels=3):
    rng = np.random.default_rng(5)
    shapes = expected_shapes(config, labels)
    return {
        name: rng.standard_normal(shapes[name]).astype("f4") for name in names
    }


def encoder_values():
    names = [x for x in all_names(2) if x.startswith("bert/")]
    return random_values(names)


def as_theirs(values):
    return {
        huggingface_name(name): x.T if name.endswith("/kernel") else x
        for name, x in values.items()
    }


def write_folder(folder, theirs, config=None, **files):
    folder.mkdir(exist_ok=True, parents=True)
    arrays = {k: np.ascontiguousarray(v) for k, v in theirs.items()}
    safetensors.write(folder / "model.safetensors", stored(arrays))
    files["config.json"] = config or {"model_type": "bert", "vocab_size": 20}
    for name, content in files.items():
        name = name.replace("_json", ".json")
        (folder / name).write_text(json.dumps(content))
    return folder


def same(source, values):
    return source.tensors.keys() == values.keys() and all(
        source.tensors[name].read().tobytes() == x.tobytes()
        for name, x in values.items()
    )


# --- names -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (WORDS, TABLE),
        (
            "bert/embeddings/LayerNorm/gamma",
            "bert.embeddings.LayerNorm.weight",
        ),
        (
            "bert/encoder/layer_11/attention/self/query/kernel",
            "bert.encoder.layer.11.attention.self.query.weight",
        ),
        (
            "bert/encoder/layer_0/output/LayerNorm/beta",
            "bert.encoder.layer.0.output.LayerNorm.bias",
        ),
        ("bert/pooler/dense/bias", "bert.pooler.dense.bias"),
        (
            "cls/predictions/transform/dense/kernel",
            "cls.predictions.transform.dense.weight",
        ),
        ("cls/predictions/output_bias", "cls.predictions.bias"),
        ("cls/seq_relationship/output_weights", "cls.seq_relationship.weight"),
        ("cls/squad/output_bias", "qa_outputs.bias"),
        ("output_weights", "classifier.weight"),
    ],
)
def test_names(ours, theirs):
    assert huggingface_name(ours) == theirs


def test_names_are_one_to_one():
    names = all_names(12)
    assert len({huggingface_name(x) for x in names}) == len(names)


# --- reading ---------------------------------------------------------------


@pytest.mark.parametrize("prefix", ["", "bert.", "module.bert.", "model."])
@pytest.mark.parametrize("old_norms", [False, True])
def test_prefixes_and_old_names(tmp_path, prefix, old_norms):
    values = encoder_values()
    theirs = {}
    for name, x in as_theirs(values).items():
        name = prefix + name.removeprefix("bert.")
        if old_norms and "LayerNorm" in name:
            name = name.replace("weight", "gamma").replace("bias", "beta")
        theirs[name] = x
    theirs[f"{prefix}embeddings.position_ids"] = np.arange(10)
    source = open_huggingface(write_folder(tmp_path / "hf", theirs))
    assert same(source, values)
    assert source.unexpected == ()
    assert source.ignored == {
        f"{prefix}embeddings.position_ids": "numbers, not weights"
    }
    change = {x.change for x in source.tensors.values()}
    assert change == {"", "transposed"}


@pytest.mark.parametrize("outer", ["", "module."])
def test_heads_beside_the_encoder(tmp_path, outer):
    values = random_values(all_names(2))
    theirs = {outer + name: x for name, x in as_theirs(values).items()}
    source = open_huggingface(write_folder(tmp_path / "hf", theirs))
    assert same(source, values)


def test_tensors_of_no_bert_are_unexpected(tmp_path):
    theirs = as_theirs(encoder_values())
    theirs["classifier.dense.weight"] = np.zeros((2, 2), "f4")
    theirs["bert.encoder.layer.0.crossattention.self.query.weight"] = np.zeros(
        (8, 8), "f4"
    )
    source = open_huggingface(write_folder(tmp_path / "hf", theirs))
    assert source.unexpected == (
        "bert.encoder.layer.0.crossattention.self.query.weight",
        "classifier.dense.weight",
    )


def test_copies_of_the_output_layer(tmp_path):
    names = [x for x in all_names(2) if x.startswith(("bert/", "cls/pred"))]
    values = random_values(names)
    theirs = as_theirs(values)
    theirs["cls.predictions.decoder.weight"] = values[WORDS]
    theirs["cls.predictions.decoder.bias"] = theirs["cls.predictions.bias"]
    source = open_huggingface(write_folder(tmp_path / "same", theirs))
    assert same(source, values)
    assert len(source.ignored) == 2
    # Only the copy of the bias, as some files have it.
    del theirs["cls.predictions.bias"]
    source = open_huggingface(write_folder(tmp_path / "only", theirs))
    assert same(source, values)
    theirs["cls.predictions.decoder.weight"] = values[WORDS] + 1
    with pytest.raises(CheckpointError, match="no values of its own"):
        open_huggingface(write_folder(tmp_path / "differs", theirs))


def test_what_is_no_bert(tmp_path):
    theirs = as_theirs(encoder_values())
    del theirs[TABLE]
    with pytest.raises(CheckpointError, match="0 tensors"):
        open_huggingface(write_folder(tmp_path / "none", theirs))
    theirs[TABLE] = theirs["other." + TABLE] = np.zeros((20, 8), "f4")
    with pytest.raises(CheckpointError, match="2 tensors"):
        open_huggingface(write_folder(tmp_path / "two", theirs))
    theirs = as_theirs(encoder_values())
    theirs["bert.embeddings.LayerNorm.gamma"] = np.zeros(8, "f4")
    with pytest.raises(CheckpointError, match="are the same tensor"):
        open_huggingface(write_folder(tmp_path / "twice", theirs))
    config = {"model_type": "roberta"}
    with pytest.raises(ValueError, match="'roberta'"):
        open_huggingface(write_folder(tmp_path / "other", theirs, config))
    with pytest.raises(CheckpointError, match=r"no model\.safetensors"):
        open_huggingface(tmp_path)


def test_a_damaged_config_is_named(tmp_path):
    folder = write_folder(tmp_path / "hf", as_theirs(encoder_values()))
    for content in (b"{", b"[]", b"\xff", b"[" * 100_000):
        (folder / "config.json").write_bytes(content)
        with pytest.raises(CheckpointError, match=r"config\.json"):
            open_huggingface(folder)


def test_labels(tmp_path):
    theirs = as_theirs(encoder_values())

    def labels(names):
        config = {"model_type": "bert", "id2label": names}
        return open_huggingface(
            write_folder(tmp_path / "hf", theirs, config)
        ).labels

    assert labels({"1": "b", "0": "a"}) == ["a", "b"]
    assert labels({"0": "LABEL_0", "1": "LABEL_1"}) is None
    assert labels({}) is None
    with pytest.raises(CheckpointError, match="id2label"):
        labels({"0": "a", "2": "b"})


@pytest.mark.parametrize(
    ("settings", "tokenizer", "lower", "note"),
    [
        ({"do_lower_case": False}, None, False, ""),
        ({"do_lower_case": True, "strip_accents": None}, None, True, ""),
        ({"model_max_length": 512}, None, True, ""),
        (
            {"do_lower_case": True, "strip_accents": False},
            None,
            True,
            "accents",
        ),
        (
            {"do_lower_case": False, "tokenize_chinese_chars": False},
            None,
            False,
            "Chinese",
        ),
        (None, {"normalizer": {"lowercase": False}}, False, ""),
        (None, None, None, ""),
    ],
)
def test_casing(tmp_path, settings, tokenizer, lower, note):
    files = {}
    if settings is not None:
        files["tokenizer_config_json"] = settings
    if tokenizer is not None:
        vocab = {"type": "WordPiece", "vocab": {"b": 1, "[PAD]": 0}}
        files["tokenizer_json"] = {**tokenizer, "model": vocab}
    folder = write_folder(tmp_path / "hf", as_theirs(encoder_values()), **files)
    source = open_huggingface(folder)
    assert source.do_lower_case is lower
    assert bool(source.notes) == bool(note) and note in "".join(source.notes)
    assert source.vocab == (b"[PAD]\nb\n" if tokenizer else None)


def test_a_vocabulary_with_holes(tmp_path):
    vocab = {"type": "WordPiece", "vocab": {"b": 2, "[PAD]": 0}}
    folder = write_folder(
        tmp_path / "hf",
        as_theirs(encoder_values()),
        tokenizer_json={"model": vocab},
    )
    with pytest.raises(CheckpointError, match="no piece has the id 1"):
        open_huggingface(folder)
    (folder / "vocab.txt").write_bytes(b"[PAD]\na\n")
    assert open_huggingface(folder).vocab == b"[PAD]\na\n"


def test_weights_in_several_files(tmp_path):
    values = encoder_values()
    theirs = as_theirs(values)
    folder = write_folder(tmp_path / "hf", theirs)
    (folder / "model.safetensors").unlink()
    parts = {"a.safetensors": {}, "b.safetensors": {}}
    weight_map = {}
    for i, (name, x) in enumerate(theirs.items()):
        part = sorted(parts)[i % 2]
        parts[part][name] = np.ascontiguousarray(x)
        weight_map[name] = part
    for part, content in parts.items():
        safetensors.write(folder / part, stored(content))
    index = folder / "model.safetensors.index.json"

    def write_index():
        index.write_text(json.dumps({"weight_map": weight_map}))

    write_index()
    assert find_weights(folder) == str(index)
    assert same(open_huggingface(folder), values)
    assert same(checkpoint.open_checkpoint(folder), values)
    weight_map["x"] = "a.safetensors"
    write_index()
    with pytest.raises(CheckpointError, match="no file has x"):
        open_huggingface(folder)
    for name in ("../hf/a.safetensors", str(folder / "a.safetensors"), ".."):
        weight_map["x"] = name
        write_index()
        with pytest.raises(CheckpointError, match="of its folder"):
            open_huggingface(folder)
    index.write_text("{}")
    with pytest.raises(CheckpointError, match="weight_map"):
        open_huggingface(folder)


# --- loading into models -----------------------------------------------------


def write_model(folder, config=CONFIG):
    model = bert_tf.BertModel(config)
    names = checkpoint.checkpoint_names(model)
    values = {k: v.numpy() for k, v in names.items()}
    write_huggingface(str(folder), stored(values), config)
    return values


def test_a_model_loads_a_folder_or_its_weights(tmp_path):
    values = write_model(tmp_path / "hf")
    for path in (tmp_path / "hf", tmp_path / "hf" / "model.safetensors"):
        model = bert_tf.BertModel(CONFIG)
        report = bert_tf.load_checkpoint(model, path, strict=True)
        assert sorted(report.loaded) == sorted(values)
        assert report.unused == ()
        found = checkpoint.checkpoint_names(model)
        assert all(
            found[k].numpy().tobytes() == values[k].tobytes() for k in values
        )
    assert checkpoint.read_shapes(tmp_path / "hf")[WORDS] == (20, 8)


def test_a_folder_of_two_formats_is_ambiguous(tmp_path):
    write_model(tmp_path)
    model = bert_tf.BertModel(CONFIG)
    bert_tf.save_checkpoint(model, tmp_path / "bert_model.ckpt")
    with pytest.raises(CheckpointError, match="expected one checkpoint"):
        bert_tf.load_checkpoint(model, tmp_path)
    bert_tf.load_checkpoint(model, tmp_path / "bert_model.ckpt")
    bert_tf.load_checkpoint(model, tmp_path / "model.safetensors")


def test_another_activation_warns_another_number_of_heads_stops(
    tmp_path, caplog
):
    config = BertConfig.from_dict(
        {**CONFIG.to_dict(), "hidden_act": "gelu_erf", "layer_norm_eps": 1e-6}
    )
    write_model(tmp_path, config)
    bert_tf.load_checkpoint(bert_tf.BertModel(config), tmp_path)
    assert "outputs will differ" not in caplog.text
    bert_tf.load_checkpoint(bert_tf.BertModel(CONFIG), tmp_path)
    assert "hidden_act 'gelu_erf'" in caplog.text
    assert "layer_norm_eps 1e-06" in caplog.text
    four = BertConfig.from_dict({**config.to_dict(), "num_attention_heads": 4})
    with pytest.raises(CheckpointError, match="num_attention_heads"):
        bert_tf.load_checkpoint(bert_tf.BertModel(four), tmp_path)


def test_no_pooler_where_none_is_used(tmp_path):
    names = [x for x in all_names(2) if x.startswith(("bert/", "cls/squad"))]
    values = random_values([x for x in names if "pooler" not in x])
    write_huggingface(
        str(tmp_path), stored(values), CONFIG, head="question_answering"
    )
    model = bert_tf.BertForQuestionAnswering(CONFIG)
    report = bert_tf.load_checkpoint(model, tmp_path, strict=True)
    assert len(report.fresh) == 2
    classifier = bert_tf.BertForSequenceClassification(CONFIG, 2)
    with pytest.raises(CheckpointError, match="bert/pooler/dense"):
        bert_tf.load_checkpoint(classifier, tmp_path)


# --- against transformers ----------------------------------------------------

# Arguments: folders, each with the name of the model's class.
ORACLE = """
import json, sys, numpy as np, torch, transformers
for work, name in zip(sys.argv[1::2], sys.argv[2::2]):
    folder = work + "/hf"
    model, info = getattr(transformers, name).from_pretrained(
        folder, output_loading_info=True)
    assert not info["missing_keys"] and not info["mismatched_keys"], info
    unexpected = [x for x in info["unexpected_keys"] if ".pooler." not in x]
    assert not unexpected, unexpected
    inputs = np.load(work + "/inputs.npz")
    model.eval()
    with torch.no_grad():
        found = model(**{k: torch.tensor(inputs[k]) for k in inputs.files})
    np.savez(work + "/outputs.npz", **{
        k: v.numpy() for k, v in found.items() if hasattr(v, "numpy")})
    model.save_pretrained(work + "/again")
    torch.save(model.state_dict(), work + "/again/pytorch_model.bin")
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    with open(work + "/texts.txt", encoding="utf-8") as stream:
        ids = [tokenizer(x)["input_ids"] for x in stream]
    with open(work + "/ids.json", "w") as stream:
        json.dump(ids, stream)
"""

MODELS = {
    None: (bert_tf.BertModel, "BertModel"),
    "pre_training": (heads.BertForPreTraining, "BertForPreTraining"),
    "masked_lm": (heads.BertForMaskedLM, "BertForMaskedLM"),
    "next_sentence": (
        heads.BertForNextSentencePrediction,
        "BertForNextSentencePrediction",
    ),
    "sequence_classification": (
        lambda config: heads.BertForSequenceClassification(config, 3),
        "BertForSequenceClassification",
    ),
    "token_classification": (
        lambda config: heads.BertForTokenClassification(config, 5),
        "BertForTokenClassification",
    ),
    "question_answering": (
        heads.BertForQuestionAnswering,
        "BertForQuestionAnswering",
    ),
    "multiple_choice": (heads.BertForMultipleChoice, "BertForMultipleChoice"),
}
OUTPUTS = {
    "last_hidden_state": "sequence_output",
    "pooler_output": "pooled_output",
    "prediction_logits": "masked_lm_logits",
    "seq_relationship_logits": "next_sentence_logits",
}
TEXTS = ["the unaffable weather, today!", "Ünïcode 中文 and CAPITALS"]


CASES = [(head, "gelu") for head in MODELS]
CASES += [(None, "gelu_erf"), ("masked_lm", "gelu_erf")]


@pytest.fixture(scope="module")
def transformers_python():
    probe = "import torch, transformers"
    done = subprocess.run([PYTHON, "-c", probe], capture_output=True)
    if done.returncode:
        pytest.skip(
            "torch and transformers absent (BERT_TF_TRANSFORMERS_PYTHON may "
            "name a Python that has them)"
        )
    return PYTHON


def prepare(work, head, activation, tiny):
    """A folder to load, with inputs; returns what we make of them."""
    config = BertConfig.from_json_file(tiny / "bert_config.json")
    changes = {"hidden_act": activation, "layer_norm_eps": 1e-3}
    if activation == "gelu_erf":
        config = BertConfig.from_dict({**config.to_dict(), **changes})
    model = MODELS[head][0](config)
    rng = np.random.default_rng(8)
    for weight in model.weights:
        weight.assign(weight + rng.normal(size=weight.shape) * 0.05)
    values = {
        k: v.numpy() for k, v in checkpoint.checkpoint_names(model).items()
    }
    write_huggingface(
        str(work / "hf"),
        stored(values),
        config,
        head=head,
        do_lower_case=True,
        vocab=(tiny / "vocab.txt").read_bytes(),
    )
    shape = (3, 2, 11) if head == "multiple_choice" else (3, 11)
    ids = rng.integers(0, config.vocab_size, shape)
    mask = np.broadcast_to(np.arange(11) < 7, shape).astype("i8")
    types = np.broadcast_to(np.arange(11) > 4, shape).astype("i8")
    np.savez(
        work / "inputs.npz",
        input_ids=ids,
        attention_mask=mask,
        token_type_ids=types,
    )
    (work / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    outputs = model(
        {"input_ids": ids, "input_mask": mask, "segment_ids": types}
    )
    return config, values, outputs


@pytest.fixture(scope="module")
def cases(transformers_python, golden_dir, tmp_path_factory):
    """All cases, seen by transformers in one process: it starts slowly."""
    found, arguments = {}, []
    for head, activation in CASES:
        work = tmp_path_factory.mktemp(f"{head}_{activation}")
        tiny = golden_dir / "checkpoints" / "tiny"
        prepared = prepare(work, head, activation, tiny)
        found[head, activation] = (work, *prepared)
        arguments += [str(work), MODELS[head][1]]
    subprocess.run(
        [transformers_python, "-c", ORACLE, *arguments],
        check=True,
        env={**os.environ, "TRANSFORMERS_VERBOSITY": "error"},
    )
    return found


@pytest.mark.parametrize(("head", "activation"), CASES)
def test_transformers_gives_the_same_numbers(cases, head, activation):
    work, _, _, ours = cases[head, activation]
    theirs = np.load(work / "outputs.npz")
    assert theirs.files
    for key in theirs.files:
        own = OUTPUTS.get(key, key)
        if key == "logits":
            own = {
                "masked_lm": "masked_lm_logits",
                "next_sentence": "next_sentence_logits",
            }.get(head, key)
        np.testing.assert_allclose(theirs[key], ours[own], atol=1e-4, rtol=0)


def test_transformers_gives_the_same_ids(cases):
    work = cases[None, "gelu"][0]
    tokenizer = bert_tf.FullTokenizer(work / "hf" / "vocab.txt", True)
    expected = []
    for text in TEXTS:
        pieces = ["[CLS]", *tokenizer.tokenize(text), "[SEP]"]
        expected.append(tokenizer.convert_tokens_to_ids(pieces))
    assert json.loads((work / "ids.json").read_text()) == expected


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize(("head", "activation"), CASES)
def test_what_transformers_writes_is_read(cases, head, activation, name):
    work, config, values, _ = cases[head, activation]
    source = open_huggingface(work / "again" / name)
    assert source.config == config and source.head == head
    assert not source.unexpected
    lost = values.keys() - source.tensors.keys()
    assert all(x.startswith("bert/pooler/") for x in lost)
    for key, tensor in source.tensors.items():
        assert tensor.read().tobytes() == values[key].tobytes()


# --- the real weights -------------------------------------------------------


@pytest.fixture(scope="module")
def minilm():
    """Folder of all-MiniLM-L6-v2, out of a Python package."""
    folder = os.environ.get("BERT_TF_MINILM", "")
    if not os.path.exists(os.path.join(folder, "model.safetensors")):
        pytest.skip("BERT_TF_MINILM names no folder with the real weights")
    return folder


REAL_TEXTS = (
    "The weather is lovely today.",
    "It's so sunny outside!",
    "He drove to the stadium.",
)
# Published with the model.
REAL_SIMILARITIES = [0.6660, 0.1046, 0.1411]


def assert_published(similarities):
    found = np.asarray(similarities)[[0, 0, 1], [1, 2, 2]]
    np.testing.assert_allclose(found, REAL_SIMILARITIES, atol=1e-3)


def test_similarities_of_real_sentences(minilm):
    config = BertConfig.from_json_file(os.path.join(minilm, "config.json"))
    assert config.hidden_act == "gelu_erf"
    model = bert_tf.BertModel(config)
    bert_tf.load_checkpoint(model, minilm, strict=True)
    tokenizer = bert_tf.FullTokenizer(os.path.join(minilm, "vocab.txt"), True)
    features = [tokenizer.encode(x, max_seq_length=16) for x in REAL_TEXTS]
    inputs = {k: np.array([x[k] for x in features]) for k in features[0]}
    hidden = model(inputs)["sequence_output"].numpy()
    mask = inputs["input_mask"][..., np.newaxis]
    means = (hidden * mask).sum(1) / mask.sum(1)
    means /= np.linalg.norm(means, axis=1, keepdims=True)
    assert_published(means @ means.T)


@pytest.mark.parametrize("name", ["huggingface", "tf1"])
def test_real_sentences_through_the_embedder(minilm, tmp_path, name):
    folder = minilm
    if name == "tf1":
        folder = str(tmp_path)
        convert(Conversion(minilm, folder, "tf1"))
    assert_published(Embedder(folder).similarity(REAL_TEXTS))


def test_real_weights_to_tf1_and_back(minilm, tmp_path):
    convert(Conversion(minilm, str(tmp_path / "tf1"), "tf1"))
    there = Conversion(str(tmp_path / "tf1"), str(tmp_path), "huggingface")
    convert(there)
    first = safetensors.SafetensorsFile(f"{minilm}/model.safetensors")
    second = safetensors.SafetensorsFile(tmp_path / "model.safetensors")
    renamed = {x.removeprefix("bert."): x for x in second.entries}
    assert first.entries.keys() - renamed.keys() == {"embeddings.position_ids"}
    for name, ours in renamed.items():
        assert first.read(name).tobytes() == second.read(ours).tobytes()


def test_real_weights_are_written_to_the_bit(minilm, tmp_path):
    source = open_huggingface(minilm)
    write_huggingface(str(tmp_path), source.tensors, source.config)
    first = safetensors.SafetensorsFile(f"{minilm}/model.safetensors")
    second = safetensors.SafetensorsFile(tmp_path / "model.safetensors")
    left = first.entries.keys() - second.entries.keys()
    assert left == {"embeddings.position_ids"}
    for name in second.entries:
        assert first.read(name).tobytes() == second.read(name).tobytes()


def test_files_are_replaced_only_when_whole(tmp_path, monkeypatch):
    values = write_model(tmp_path)
    before = (tmp_path / "model.safetensors").read_bytes()

    def fail():
        raise OSError("disk full")

    broken = stored(values)
    broken[WORDS] = StoredTensor(WORDS, np.dtype("f4"), (20, 8), fail)
    with pytest.raises(OSError, match="disk full"):
        write_huggingface(str(tmp_path), broken, CONFIG)
    assert (tmp_path / "model.safetensors").read_bytes() == before
    assert not [x for x in os.listdir(tmp_path) if x.endswith(".tmp")]
    shutil.rmtree(tmp_path)
