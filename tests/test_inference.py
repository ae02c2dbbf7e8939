"""Models for use: load a folder once, call it many times with strings."""

import io
import json
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import heads, packing
from bert_tf.checkpoint import save_checkpoint
from bert_tf.config import BertConfig
from bert_tf.inference import (
    Classifier,
    Embedder,
    FillMask,
    NextSentence,
    QuestionAnswerer,
    Tagger,
    command,
)
from bert_tf.inference.model_folder import open_model_folder
from bert_tf.inference.results import html_table
from bert_tf.modeling import BertModel
from bert_tf.run_folder import write_run
from bert_tf.tasks.classification_thresholds import write_thresholds

WORDS = (  # noqa: SIM905
    "the a cat dog sat on mat in house big red who where is was "
    "and not good bad film ##s ##ed ##ing , . ? ! <"
).split()
PIECES = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
CONFIG = BertConfig(
    vocab_size=len(PIECES),
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=2,
    intermediate_size=32,
    max_position_embeddings=64,
    type_vocab_size=2,
    # Large enough that attention is far from uniform.
    initializer_range=0.4,
)
TEXTS = [
    "the cat sat on the mat",
    "",
    "who is in the big red house ? the dog , the cat and the dog .",
    "film",
    ("where is the cat", "the cat is in the house"),
    "not good",
]


def make_folder(folder, model, **record):
    """A folder as a run leaves it; without a record, as a release."""
    folder.mkdir()
    vocab = folder / "vocab.txt"
    vocab.write_text("\n".join(PIECES) + "\n")
    if record:
        write_run(str(folder), record, CONFIG, str(vocab))
    else:
        CONFIG.save(folder / "bert_config.json")
    save_checkpoint(model, folder / "bert_model.ckpt")
    return folder


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folder of each kind of model, and the models."""
    keras.utils.set_random_seed(7)
    root = tmp_path_factory.mktemp("models")
    run = {"do_lower_case": True, "max_seq_length": 40}
    models = {
        "released": (heads.BertForPreTraining(CONFIG), {}),
        "classifier": (
            heads.BertForSequenceClassification(CONFIG, 3),
            {
                "task": "classification",
                "kind": "classification",
                "labels": ["good", "bad", "so-so"],
                **run,
            },
        ),
        "multi_label": (
            heads.BertForSequenceClassification(CONFIG, 2),
            {
                "task": "classification",
                "kind": "multi_label",
                "labels": ["x", "y"],
                **run,
            },
        ),
        "regression": (
            heads.BertForSequenceClassification(CONFIG, 1),
            {"task": "classification", "kind": "regression", **run},
        ),
        "squad": (
            heads.BertForQuestionAnswering(CONFIG),
            {
                "task": "squad",
                "version_2_with_negative": True,
                "doc_stride": 8,
                "max_query_length": 10,
                **run,
            },
        ),
        "tagging": (
            heads.BertForTokenClassification(CONFIG, 3),
            {"task": "tagging", "labels": ["O", "B-LOC", "I-LOC"], **run},
        ),
    }
    made = {}
    for name, (model, record) in models.items():
        # Heads start near zero, where every answer would be a tie.
        for weight in model.weights:
            if "output_weights" in weight.path:
                weight.assign(weight * 30)
        made[name] = make_folder(root / name, model, **record)
    return made


@pytest.fixture(scope="module")
def embedder(folders):
    return Embedder(folders["released"], do_lower_case=True, xla=False)


def direct(model, tokenizer, item, length=64):
    """Outputs of a model called by hand on one padded input."""
    texts = item if isinstance(item, tuple) else (item, None)
    features = tokenizer.encode(*texts, max_seq_length=length)
    return model({k: np.int32([v]) for k, v in features.items()})


# Folders ----------------------------------------------------------------


def test_run_folder_says_everything(folders):
    folder = open_model_folder(folders["classifier"])
    assert folder.tokenizer.do_lower_case is True
    assert folder.casing_source == "run.json"
    assert folder.max_seq_length == 40
    assert folder.labels() == ["good", "bad", "so-so"]
    assert folder.config == CONFIG


@pytest.mark.parametrize(
    ("name", "extra", "expected", "source"),
    [
        ("my-uncased-model", [], True, "folder name"),
        ("my_cased_L-2", [], False, "folder name"),
        ("model", [], True, "vocabulary"),
        ("model", ["Paris", "London"], False, "vocabulary"),
    ],
)
def test_casing_is_judged_and_told(
    tmp_path, folders, caplog, name, extra, expected, source
):
    (folder := tmp_path / name).mkdir()
    for path in folders["released"].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    if extra:
        # The vocabulary keeps its size.
        pieces = [*PIECES[: -len(extra)], *extra]
        (folder / "vocab.txt").write_text("\n".join(pieces) + "\n")
    found = open_model_folder(folder)
    assert found.tokenizer.do_lower_case is expected
    assert found.casing_source == source
    assert f"do_lower_case={expected}, by its {source}" in caplog.text
    caplog.clear()
    given = open_model_folder(folder, do_lower_case=not expected)
    assert given.tokenizer.do_lower_case is not expected
    assert "does not say its casing" not in caplog.text


def test_casing_of_the_config_counts(tmp_path, folders, caplog):
    (folder := tmp_path / "uncased_model").mkdir()
    for path in folders["released"].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    values = {**CONFIG.to_dict(), "do_lower_case": False}
    (folder / "bert_config.json").write_text(json.dumps(values))
    found = open_model_folder(folder)
    assert found.tokenizer.do_lower_case is False
    assert found.casing_source == "config"
    assert "does not say its casing" not in caplog.text


def test_hugging_face_folders_will_do(tmp_path, folders):
    (folder := tmp_path / "model").mkdir()
    for path in folders["released"].iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (folder / "bert_config.json").rename(folder / "config.json")
    (folder / "tokenizer_config.json").write_text('{"do_lower_case": false}')
    found = open_model_folder(folder)
    assert found.config == CONFIG
    assert found.tokenizer.do_lower_case is False
    assert found.casing_source == "tokenizer_config.json"


def test_released_name_contradicts_casing(tmp_path):
    model = BertModel(CONFIG)
    folder = make_folder(tmp_path / "uncased_L-12_H-768_A-12", model)
    with pytest.raises(ValueError, match="pre-trained on lower-cased text"):
        open_model_folder(folder, do_lower_case=False)


def test_folders_that_hold_no_model(tmp_path, folders):
    with pytest.raises(ValueError, match="no such folder"):
        open_model_folder(tmp_path / "absent")
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ValueError, match=r"no bert_config.json.*notes.txt"):
        open_model_folder(tmp_path)
    with pytest.raises(ValueError, match="max_seq_length is 65"):
        open_model_folder(folders["classifier"], max_seq_length=65)
    with pytest.raises(ValueError, match=r"'squad', expected 'classification'"):
        Classifier(folders["squad"])


def test_every_variable_must_come_from_the_checkpoint(tmp_path):
    folder = make_folder(tmp_path / "encoder_only", BertModel(CONFIG))
    with pytest.raises(ValueError, match="cls/predictions/transform"):
        FillMask(folder)
    with pytest.raises(ValueError, match="holds no classifier"):
        Classifier(folder, labels=["a", "b"])


# Embeddings -------------------------------------------------------------


@pytest.mark.parametrize("pooling", ["cls", "mean", "max", "pooled"])
def test_vectors_are_those_of_the_model(folders, embedder, pooling):
    layers = [0, "embeddings"]
    own = Embedder(
        folders["released"],
        pooling=pooling,
        layers=layers,
        do_lower_case=True,
    )
    vectors = own(TEXTS)
    assert vectors.shape == (len(TEXTS), own.size)
    for item, vector in zip(TEXTS, vectors, strict=True):
        outputs = direct(own.model, own.tokenizer, item)
        texts = item if isinstance(item, tuple) else (item, None)
        mask = own.tokenizer.encode(*texts, max_seq_length=64)["input_mask"]
        hidden = np.concatenate(
            [
                outputs["all_encoder_layers"][0][0],
                outputs["embedding_output"][0],
            ],
            axis=-1,
        )[: sum(mask)]
        expected = {
            "cls": hidden[0],
            "mean": hidden.mean(0),
            "max": hidden.max(0),
            "pooled": outputs["pooled_output"][0],
        }[pooling]
        np.testing.assert_allclose(vector, expected, atol=1e-5)


def test_same_text_at_padded_lengths_8_and_64(embedder):
    short = "the cat sat"
    outputs = [
        direct(embedder.model, embedder.tokenizer, short, length)
        for length in (8, 64)
    ]
    for name in ("sequence_output", "pooled_output"):
        a, b = (x[name][0] for x in outputs)
        if name == "sequence_output":
            a, b = a[:5], b[:5]
        np.testing.assert_allclose(a, b, atol=1e-5)


def test_a_vector_does_not_depend_on_its_batch(embedder):
    together = embedder(TEXTS * 5)
    for i, item in enumerate(TEXTS):
        alone = embedder(item)
        assert alone.shape == (embedder.size,)
        for copy in range(5):
            np.testing.assert_allclose(
                together[i + copy * len(TEXTS)], alone, atol=1e-5
            )


def test_same_text_twice_gives_the_same_bits(embedder):
    np.testing.assert_array_equal(embedder(TEXTS), embedder(TEXTS))


def test_compiled_programs_give_the_same_vectors(folders, embedder):
    compiled = Embedder(folders["released"], do_lower_case=True, xla=True)
    for item in TEXTS[:2]:
        np.testing.assert_allclose(compiled(item), embedder(item), atol=1e-5)


def test_streams_never_read_far_ahead(embedder):
    read = []

    def endless():
        while True:
            read.append(None)
            yield TEXTS[len(read) % 2]

    stream = embedder.stream(endless(), window=4)
    found = [next(stream) for _ in range(6)]
    assert len(read) == 8
    np.testing.assert_allclose(found[0], embedder(TEXTS[1]), atol=1e-5)


def test_empty_lists_and_wrong_inputs(embedder):
    assert embedder([]).shape == (0, 16)
    with pytest.raises(ValueError, match=r"input 1: .*found \(int\)"):
        embedder(["the", 3])
    with pytest.raises(ValueError, match=r"input 0: .*found \(bytes\)"):
        embedder(b"the cat")
    with pytest.raises(ValueError, match=r"found \(str, str, str\)"):
        embedder(("a", "b", "c"))


def test_long_texts_are_cut_as_in_the_runners(folders, caplog):
    short = Embedder(folders["released"], do_lower_case=True, max_seq_length=6)
    vectors = short(["the cat sat on the mat", "the cat"])
    assert "1 inputs were too long for the model's 6 pieces" in caplog.text
    np.testing.assert_allclose(vectors[0], short("the cat sat on"), atol=1e-5)


def test_similarity(embedder):
    found = embedder.similarity(["the cat", "the cat", "film"])
    np.testing.assert_allclose(np.diag(found.values), 1, atol=1e-6)
    assert found.values[0, 1] == pytest.approx(1, abs=1e-6)
    assert found.values[0, 2] < 0.999
    lines = str(found).split("\n")
    assert len(lines) == 4
    assert lines[3].endswith("1.000  film")
    other = embedder.similarity(["the cat"], ["film", "the cat"])
    assert np.asarray(other).shape == (1, 2)
    assert "<table>" in other._repr_html_()


# Heads ------------------------------------------------------------------


@pytest.fixture(scope="module")
def fill_mask(folders):
    return FillMask(folders["released"], do_lower_case=True, top_k=3)


def test_fill_mask_gives_the_models_probabilities(fill_mask):
    text = "the [MASK] sat on [MASK] mat"
    found = fill_mask(text)
    tokenizer = fill_mask.tokenizer
    ids = tokenizer.encode(text, max_seq_length=64)["input_ids"]
    assert ids[2] == ids[5] == tokenizer.mask_id
    logits = direct(fill_mask.model, tokenizer, text)["masked_lm_logits"][0]
    assert len(found.masks) == 2
    for position, candidates in zip((2, 5), found.masks, strict=True):
        probabilities = tf.nn.softmax(logits[position]).numpy()
        best = np.argsort(-probabilities)[:3]
        assert [x.token for x in candidates] == [PIECES[i] for i in best]
        np.testing.assert_allclose(
            [x.probability for x in candidates],
            probabilities[best],
            atol=1e-5,
        )


def test_fill_mask_in_order_and_with_targets(folders, fill_mask):
    texts = ["[MASK]", "the cat [MASK] on the [MASK] . " * 3, "a [MASK] dog"]
    found = fill_mask(texts)
    assert [x.text for x in found] == texts
    assert [len(x.masks) for x in found] == [1, 6, 1]
    assert "<table>" in found._repr_html_()
    chosen = FillMask(
        folders["released"],
        do_lower_case=True,
        targets=["cat", "dog", "mat"],
        top_k=2,
    )
    (candidates,) = chosen("a [MASK] dog").masks
    assert {x.token for x in candidates} < {"cat", "dog", "mat"}
    every = FillMask(folders["released"], do_lower_case=True, top_k=100)
    all_of_them = {
        x.token: x.probability for x in every("a [MASK] dog").masks[0]
    }
    assert len(all_of_them) == len(PIECES)
    assert sum(all_of_them.values()) == pytest.approx(1, abs=1e-5)
    for x in candidates:
        assert x.probability == pytest.approx(all_of_them[x.token], abs=1e-6)


def test_best_text_joins_inner_pieces(fill_mask):
    found = fill_mask("the [MASK] [MASK] .")
    tokens = [candidates[0].token for candidates in found.masks]
    text = "the"
    for token in tokens:
        text += token[2:] if token.startswith("##") else f" {token}"
    assert found.best_text == f"{text} ."


def test_fill_mask_refuses_what_it_cannot_fill(folders, fill_mask):
    with pytest.raises(ValueError, match=r"input 1 has no \[MASK\]: 'the cat'"):
        fill_mask(["a [MASK]", "the cat"])
    with pytest.raises(ValueError, match="1 of 2 masks lie beyond the 64"):
        fill_mask("[MASK] " + "the " * 70 + "[MASK]")
    with pytest.raises(ValueError, match=r"targets .* 'zebra'"):
        FillMask(folders["released"], targets=["cat", "zebra"])
    with pytest.raises(ValueError, match="top_k is 0"):
        FillMask(folders["released"], top_k=0)


def test_next_sentence(folders):
    judge = NextSentence(folders["released"], do_lower_case=True)
    pairs = [("where is the cat ?", "in the house ."), ("a dog", "film")]
    for pair, found in zip(pairs, judge(pairs), strict=True):
        logits = direct(judge.model, judge.tokenizer, pair)
        expected = tf.nn.softmax(logits["next_sentence_logits"])[0, 0]
        assert found.probability == pytest.approx(float(expected), abs=1e-5)
        assert found.is_next == (found.probability > 0.5)
        assert (found.text_a, found.text_b) == pair
    with pytest.raises(ValueError, match="input 0: expected a tuple of two"):
        judge("the cat")


def test_classifier(folders):
    classify = Classifier(folders["classifier"])
    for item, found in zip(TEXTS, classify(TEXTS), strict=True):
        outputs = direct(classify.model, classify.tokenizer, item, 40)
        expected = tf.nn.softmax(outputs["logits"][0]).numpy()
        assert list(found.probabilities) == ["good", "bad", "so-so"]
        np.testing.assert_allclose(
            list(found.probabilities.values()), expected, atol=1e-5
        )
        assert found.label == classify.labels[int(expected.argmax())]
        assert found.probability == max(found.probabilities.values())
        json.dumps(found.to_dict())


def test_multi_label_and_regression(folders):
    classify = Classifier(folders["multi_label"], threshold=0.4)
    found = classify("the good film")
    outputs = direct(classify.model, classify.tokenizer, "the good film", 40)
    expected = tf.nn.sigmoid(outputs["logits"][0]).numpy()
    np.testing.assert_allclose(
        list(found.probabilities.values()), expected, atol=1e-5
    )
    assert found.label == [
        x for x, p in zip("xy", expected, strict=True) if p >= 0.4
    ]
    score = Classifier(folders["regression"])
    found = score("the good film")
    outputs = direct(score.model, score.tokenizer, "the good film", 40)
    assert found.value == pytest.approx(
        float(outputs["logits"][0, 0]), abs=1e-5
    )
    assert found.to_dict() == {"text": "the good film", "value": found.value}


def test_stored_thresholds_of_a_multi_label_folder(tmp_path, caplog):
    model = heads.BertForSequenceClassification(CONFIG, 2)
    run = {"task": "classification", "kind": "multi_label"}
    folder = make_folder(
        tmp_path / "run",
        model,
        labels=["x", "y"],
        do_lower_case=True,
        max_seq_length=40,
        **run,
    )
    assert Classifier(folder).threshold == 0.5
    found = Classifier(folder)("the good film").probabilities
    stored = [found["x"] + 0.01, found["y"] - 0.01]
    write_thresholds(str(folder), ["x", "y"], stored, "dev", "bert_model.ckpt")
    classify = Classifier(folder)
    assert classify.threshold == stored
    assert classify("the good film").label == ["y"]
    given = Classifier(folder, threshold=0.0)
    assert given("the good film").label == ["x", "y"]
    caplog.clear()
    write_thresholds(str(folder), ["x", "y"], stored, "dev", "model.ckpt-9")
    assert Classifier(folder).threshold == 0.5
    assert "found for model.ckpt-9 and is not used for bert_m" in caplog.text


def test_labels_must_fit(tmp_path, folders):
    model = heads.BertForSequenceClassification(CONFIG, 3)
    folder = make_folder(tmp_path / "uncased_old_run", model)
    with pytest.raises(ValueError, match="give labels in the order of its 3"):
        Classifier(folder)
    with pytest.raises(ValueError, match=r"2 labels .* has 3 outputs"):
        Classifier(folder, labels=["a", "b"])
    assert Classifier(folder, labels="abc")("cat").label in "abc"
    with pytest.raises(ValueError, match="was trained with good, bad, so-so"):
        Classifier(folders["classifier"], labels=["bad", "good", "so-so"])


def test_question_answerer_agrees_with_the_runners_windows(folders):
    answer = QuestionAnswerer(folders["squad"])
    settings = answer.settings
    assert settings.version_2_with_negative
    assert (settings.doc_stride, settings.max_query_length) == (8, 10)
    context = (
        "the big cat sat on the red mat in the house . the dog was not in "
        "the house , and the film was not bad . where is the dog ? "
    ) * 2
    pairs = [("where is the cat ?", context), ("who ?", "a  dog"), ("who", "")]
    found = answer(pairs)
    for (question, text), one in zip(pairs, found, strict=True):
        assert one.question == question
        assert one.null_odds is not None
        for candidate, probability in one.candidates:
            assert candidate in " ".join(text.split())
            assert 0 <= probability <= 1
        if one.start is not None:
            assert text[one.start : one.end] == one.text
        json.dumps(one.to_dict())
    assert found[2].text == ""
    # The best span of the only window, found by hand.
    one = QuestionAnswerer(folders["squad"], version_2_with_negative=False)(
        pairs[1]
    )
    tokenizer = answer.tokenizer
    outputs = direct(answer.model, tokenizer, ("who ?", "a dog"), 40)
    start, end = (
        outputs[f"{end}_logits"][0, 4:6].numpy() for end in ("start", "end")
    )
    spans = {
        text: start[i] + end[j]
        for text, i, j in (("a", 0, 0), ("dog", 1, 1), ("a dog", 0, 1))
    }
    assert one.text == max(spans, key=spans.get)
    assert one.null_odds is None
    with pytest.raises(ValueError, match=r"expected a tuple \(question"):
        answer("who ?")


def test_tagger_labels_every_word(folders):
    tag = Tagger(folders["tagging"])
    sentence = ("the", "big", "\u200b", "dog", "film" * 80, "cat")
    found = tag(sentence)
    assert found.words == list(sentence)
    assert found.marks == [None, None, "no_pieces", None, None, None]
    assert found.labels[2] == "O"
    assert found.probabilities[2] == 0
    short = ("the", "big", "dogs")
    one = tag(short)
    row = packing.pack(tag.tokenizer.tokenize_words(short).ids, None, 40, 2, 3)
    outputs = tag.model({k: np.int32([v]) for k, v in row._asdict().items()})
    expected = np.argmax(outputs["logits"][0, 1:4], axis=-1)
    assert one.labels == [tag.labels[i] for i in expected]
    many = tag(["the dog, the cat.", short])
    assert many[0].words == ["the", "dog", ",", "the", "cat", "."]
    assert many[1].labels == one.labels
    for kind, text, start, end in many[0].entities:
        assert kind == "LOC"
        assert text == " ".join(many[0].words[start:end])


def test_tagger_sees_all_of_a_long_sentence(folders):
    tag = Tagger(folders["tagging"])
    words = ("cat", "dog", "house") * 40
    found = tag(words)
    assert len(found.labels) == len(words)
    assert not any(found.marks)
    assert all(found.probabilities)


# Notebooks --------------------------------------------------------------


def test_predictors_and_results_show_themselves(folders, embedder):
    assert repr(embedder).startswith("Embedder(")
    page = embedder._repr_html_()
    assert "do_lower_case" in page
    assert "True (given)" in page
    found = Classifier(folders["classifier"])(["<b>the</b> & cat"])
    page = found._repr_html_()
    assert "&lt;b&gt;the&lt;/b&gt; &amp; cat" in page
    assert "<b>the" not in page
    assert found[0]._repr_html_().count("<tr>") == 2


def test_labels_are_escaped_in_tables(tmp_path):
    model = heads.BertForSequenceClassification(CONFIG, 2)
    run = {"task": "classification", "labels": ["<i>", "a&b"]}
    folder = make_folder(
        tmp_path / "run", model, do_lower_case=True, max_seq_length=40, **run
    )
    page = Classifier(folder)("the cat")._repr_html_()
    assert "<i>" not in page and "a&b" not in page
    assert "&lt;i&gt; 0." in page and "a&amp;b 0." in page


def test_long_tables_are_shortened():
    page = html_table([{"text": str(i)} for i in range(60)])
    assert page.count("<tr>") == 51
    assert "and 10 more" in page


# Commands ---------------------------------------------------------------


def run_command(capsys, monkeypatch, arguments, stdin=b""):
    stream = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
    monkeypatch.setattr(sys, "stdin", stream)
    command.main([str(x) for x in arguments])
    return capsys.readouterr().out.splitlines()


def test_fill_mask_command(capsys, monkeypatch, folders):
    options = ["fill-mask", "--model_dir", folders["released"], "--top_k=2"]
    texts = ["the [MASK] sat", "a [MASK] and a [MASK]"]
    lines = run_command(capsys, monkeypatch, [*options, *texts])
    assert len(lines) == 2
    assert lines[0].count(",") == 1
    assert lines[1].count(" | ") == 1
    typed = run_command(
        capsys, monkeypatch, options, "\r\n".join(texts).encode()
    )
    assert typed == lines
    (line,) = run_command(capsys, monkeypatch, [*options, "--json", texts[0]])
    found = json.loads(line)
    assert found["text"] == texts[0]
    assert f"{found['masks'][0][0]['probability']:.4f}" in lines[0]


def test_commands_with_pairs(capsys, monkeypatch, folders, tmp_path):
    stdin = b"who is it ||| the cat\n\nthe dog\n"
    lines = run_command(
        capsys,
        monkeypatch,
        ["classify", "--json", "--model_dir", folders["classifier"]],
        stdin,
    )
    found = [json.loads(line)["text"] for line in lines]
    assert found == [["who is it", "the cat"], "", "the dog"]
    (line,) = run_command(
        capsys,
        monkeypatch,
        ["next-sentence", "--model_dir", folders["released"], "a ||| b"],
    )
    assert line.split()[0] in ("next", "random")
    context = tmp_path / "context.txt"
    context.write_text("the cat sat on the mat", encoding="utf-8")
    (line,) = run_command(
        capsys,
        monkeypatch,
        [
            "answer",
            "--json",
            f"--model_dir={folders['squad']}",
            f"--context_file={context}",
            "who sat ?",
        ],
    )
    assert json.loads(line)["question"] == "who sat ?"


def test_tag_and_embed_commands(capsys, monkeypatch, folders, tmp_path):
    (line,) = run_command(
        capsys,
        monkeypatch,
        ["tag", "--model_dir", folders["tagging"], "the cat sat ."],
    )
    assert [x.split("/")[0] for x in line.split()] == ["the", "cat", "sat", "."]
    options = ["embed", "--model_dir", folders["released"], "--layers=-1,0"]
    lines = run_command(
        capsys, monkeypatch, [*options, "--json", "cat", "the dog"]
    )
    vectors = np.float32([json.loads(line) for line in lines])
    assert vectors.shape == (2, 32)
    path = tmp_path / "vectors.npy"
    run_command(
        capsys, monkeypatch, [*options, f"--output={path}"], b"cat\nthe dog"
    )
    np.testing.assert_allclose(np.load(path), vectors, atol=1e-6)
    lines = run_command(
        capsys, monkeypatch, [*options, "--similarity", "cat", "the dog"]
    )
    assert len(lines) == 3


def test_command_ends_with_a_message(capsys, monkeypatch, folders):
    with pytest.raises(SystemExit, match=r"error: .*no \[MASK\]"):
        run_command(
            capsys,
            monkeypatch,
            ["fill-mask", "--model_dir", folders["released"], "the cat"],
        )
    with pytest.raises(SystemExit, match=r"error: .*no such folder"):
        run_command(
            capsys, monkeypatch, ["tag", "--model_dir", "absent", "the cat"]
        )


def test_help_comes_without_tensorflow(repo_dir):
    code = (
        "import sys\n"
        "from bert_tf.inference.command import main\n"
        "try: main(['answer', '--help'])\n"
        "except SystemExit: print('tensorflow' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=repo_dir,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--context_file" in done.stdout
    assert done.stdout.endswith("False\n")
