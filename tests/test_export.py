"""Exported models, served where there is no bert_tf."""

import json
import random
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

from bert_tf import heads, inference
from bert_tf.checkpoint import save_checkpoint
from bert_tf.config import BertConfig
from bert_tf.run_folder import write_run

pytest.importorskip("tensorflow_text")

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
    initializer_range=0.4,
)
RUN = {"do_lower_case": True, "max_seq_length": 40}
KINDS = {
    "classification": (
        lambda **kwargs: heads.BertForSequenceClassification(
            CONFIG, 3, **kwargs
        ),
        {"kind": "classification", "labels": ["good", "b\u00e4d", "so-so"]},
    ),
    "multi_label": (
        lambda: heads.BertForSequenceClassification(CONFIG, 2),
        {"kind": "multi_label", "labels": ["x", "y"]},
    ),
    "regression": (
        lambda: heads.BertForSequenceClassification(CONFIG, 1),
        {"kind": "regression"},
    ),
    "tagging": (
        lambda: heads.BertForTokenClassification(CONFIG, 3),
        {"labels": ["O", "B-LOC", "I-LOC"]},
    ),
    "squad": (
        lambda: heads.BertForQuestionAnswering(CONFIG),
        {
            "version_2_with_negative": True,
            "doc_stride": 8,
            "max_query_length": 10,
        },
    ),
    "pretraining": (lambda: heads.BertForPreTraining(CONFIG), {}),
}


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Kind of model -> its run folder."""
    keras.utils.set_random_seed(7)
    root = tmp_path_factory.mktemp("models")
    vocab = root / "vocab.txt"
    vocab.write_text("\n".join(PIECES) + "\n")
    for name, (create, record) in KINDS.items():
        model = create()
        for weight in model.weights:
            # Heads start near zero, where every answer would be a tie.
            if "output_weights" in weight.path:
                weight.assign(weight * 30)
        task = "classification" if "kind" in record else name
        folder = root / name
        write_run(
            str(folder), {"task": task, **record, **RUN}, CONFIG, str(vocab)
        )
        save_checkpoint(model, folder / "bert_model.ckpt")
    return root


@pytest.fixture(scope="module")
def exported(folders):
    """Exports a kind once; gives its signatures and its predictor."""
    from bert_tf.export.writing import export_model

    made = {}

    def export(kind):
        if kind not in made:
            output = folders / f"{kind}_served"
            serving = export_model(folders / kind, output)
            loaded = tf.saved_model.load(str(output))
            made[kind] = loaded, serving.predictor
        loaded, predictor = made[kind]
        return loaded.signatures, predictor

    return export


def sentences(count, longest, seed=0):
    source = random.Random(seed)
    words = [
        *WORDS[:20],
        "The",
        "films",
        "sitting",
        ",",
        "Sat.",
        "\u00e9\u2026",
    ]
    for _ in range(count):
        length = source.randint(0, longest)
        yield " ".join(source.choices(words, k=length))


def strings(values):
    return [value.decode() for value in values]


def test_classes(exported):
    signatures, classifier = exported("classification")
    assert set(signatures) == {"serving_default", "pair", "ids"}
    texts = list(sentences(20, 60))
    found = signatures["serving_default"](text=tf.constant(texts))
    expected = classifier(texts)
    assert strings(found["label"].numpy()) == [x.label for x in expected]
    for i, result in enumerate(expected):
        names = strings(found["labels"][i].numpy())
        assert names == list(result.probabilities)
        np.testing.assert_allclose(
            found["probabilities"][i],
            list(result.probabilities.values()),
            atol=1e-5,
        )
    pairs = list(zip(texts, reversed(texts), strict=True))
    first, second = zip(*pairs, strict=True)
    found = signatures["pair"](
        text_a=tf.constant(first), text_b=tf.constant(second)
    )
    expected = [list(x.probabilities.values()) for x in classifier(pairs)]
    np.testing.assert_allclose(found["probabilities"], expected, atol=1e-5)


def test_labels_of_their_own_and_values(exported):
    signatures, classifier = exported("multi_label")
    texts = list(sentences(9, 20))
    found = signatures["serving_default"](text=tf.constant(texts))
    for i, result in enumerate(classifier(texts)):
        chosen = found["labels"][i][found["predicted"][i]]
        assert strings(chosen.numpy()) == result.label
    signatures, classifier = exported("regression")
    found = signatures["serving_default"](text=tf.constant(texts))
    expected = [x.value for x in classifier(texts)]
    np.testing.assert_allclose(found["value"], expected, atol=1e-5)


def test_embeddings_of_a_model_without_a_head(exported):
    signatures, embedder = exported("pretraining")
    texts = list(sentences(9, 70))
    found = signatures["serving_default"](text=tf.constant(texts))
    np.testing.assert_allclose(found["embedding"], embedder(texts), atol=1e-5)


def test_tags_of_words_in_one_window_and_in_several(exported):
    signatures, tagger = exported("tagging")
    texts = [*sentences(20, 110), "\x01 cat \u200b", "", "a,b.the!"]
    found = signatures["serving_default"](text=tf.constant(texts))
    found = {name: value.numpy() for name, value in found.items()}
    for i, result in enumerate(tagger(texts)):
        count = len(result.words)
        assert strings(found["words"][i][:count]) == result.words
        assert strings(found["labels"][i][:count]) == result.labels
        np.testing.assert_allclose(
            found["probabilities"][i][:count], result.probabilities, atol=1e-5
        )
        assert not any(found["words"][i][count:])


def test_tags_of_given_words(exported):
    signatures, tagger = exported("tagging")
    rows = [("the", "cat", "\x01"), ("films,", "", "dog"), ("a", "", "")]
    found = signatures["words"](words=tf.constant(rows))
    for i, (row, count) in enumerate(zip(rows, (3, 3, 1), strict=True)):
        result = tagger(row[:count])
        labels = strings(found["labels"][i].numpy())
        assert labels == result.labels + [""] * (3 - count)
        np.testing.assert_allclose(
            found["probabilities"][i][:count], result.probabilities, atol=1e-5
        )


def test_answers_from_contexts_of_any_length(exported):
    signatures, answerer = exported("squad")
    questions = list(sentences(60, 14, seed=1))
    contexts = [*sentences(58, 90, seed=2), "", " "]
    found = signatures["serving_default"](
        question=tf.constant(questions), context=tf.constant(contexts)
    )
    found = {name: value.numpy() for name, value in found.items()}
    cases = list(zip(questions, contexts, strict=True))
    same = 0
    for i, result in enumerate(answerer(cases)):
        answer = found["answer"][i].decode()
        start, end = int(found["start"][i]), int(found["end"][i])
        if result.text:
            np.testing.assert_allclose(
                found["null_odds"][i], result.null_odds, atol=1e-4
            )
            assert answer and contexts[i][start:end] == answer
            # Where it cannot align characters the original takes the words
            # whole; all else is the same.
            assert answer in result.text or result.text in answer
            same += (answer, start, end) == (
                result.text,
                result.start,
                result.end,
            )
        else:
            assert (answer, start, end) == ("", -1, -1)
    assert same >= 50


def test_words_for_masks(folders, tmp_path):
    from bert_tf.export.writing import export_model

    texts = ["the [MASK] sat", "[MASK][MASK] on the mat. [mask]"]
    serving = export_model(
        folders / "pretraining", tmp_path / "model", task="fill_mask", top_k=3
    )
    signatures = tf.saved_model.load(str(tmp_path / "model")).signatures
    found = signatures["serving_default"](text=tf.constant([*texts, "cat"]))
    assert found["tokens"].shape == (3, 2, 3)
    for i, result in enumerate(serving.predictor(texts)):
        for j, candidates in enumerate(result.masks):
            tokens = strings(found["tokens"][i, j].numpy())
            assert tokens == [x.token for x in candidates]
            np.testing.assert_allclose(
                found["probabilities"][i, j],
                [x.probability for x in candidates],
                atol=1e-5,
            )
    assert not np.any(found["probabilities"][2])
    assert not any(found["tokens"][2].numpy().ravel())


def test_ids_of_any_batch_and_length_up_to_the_models(exported, folders):
    signatures, classifier = exported("classification")
    for shape in ((1, 3), (3, 17), (2, 40)):
        ids = np.full(shape, 7, np.int32)
        features = {
            "input_ids": ids,
            "input_mask": np.ones_like(ids),
            "segment_ids": np.zeros_like(ids),
        }
        features = {k: tf.constant(v) for k, v in features.items()}
        found = signatures["ids"](**features)
        expected = classifier.model(features)["logits"]
        np.testing.assert_allclose(found["logits"], expected, atol=1e-5)
    features = {k: tf.zeros([1, 41], tf.int32) for k in features}
    with pytest.raises(tf.errors.InvalidArgumentError, match="longest input"):
        signatures["ids"](**features)


SERVE = """
import json, sys
import tensorflow as tf
import tensorflow_text
texts = json.load(sys.stdin)
serve = tf.saved_model.load(sys.argv[1]).signatures["serving_default"]
outputs = serve(text=tf.constant(texts))
assert not any(name.split(".")[0] == "bert_tf" for name in sys.modules)
print(json.dumps([
    [label.decode() for label in outputs["label"].numpy()],
    outputs["probabilities"].numpy().tolist(),
]))
"""


def test_a_fresh_process_serves_what_the_runner_predicts(
    folders, exported, tmp_path
):
    """A whole dev set: data file, runner, export, another process."""
    from absl import flags
    from absl.testing import flagsaver

    import run_classifier

    exported("classification")
    texts = [text or "cat" for text in sentences(50, 60, seed=5)]
    rows = [f"{text}\tgood" for text in texts]
    (tmp_path / "dev.tsv").write_text(
        "\n".join(["text\tlabel", *rows]) + "\n", "utf-8"
    )
    run = folders / "classification"
    labels = ",".join(KINDS["classification"][1]["labels"])
    arguments = [
        *("run_classifier.py", "--task_name=custom", "--do_predict"),
        *("--predict_file=dev.tsv", f"--data_dir={tmp_path}"),
        *("--text_column=text", "--label_column=label", f"--labels={labels}"),
        *(f"--output_dir={tmp_path}/out", "--max_seq_length=40"),
        f"--vocab_file={run}/vocab.txt",
        f"--bert_config_file={run}/bert_config.json",
        f"--init_checkpoint={run}/bert_model.ckpt",
    ]
    with flagsaver.flagsaver():
        flags.FLAGS.unparse_flags()
        run_classifier.main(flags.FLAGS(arguments))
    lines = (tmp_path / "out/predictions.jsonl").read_text("utf-8").splitlines()
    predictions = [json.loads(line) for line in lines]
    scores = np.loadtxt(tmp_path / "out/test_results.tsv")
    done = subprocess.run(
        [sys.executable, "-c", SERVE, folders / "classification_served"],
        input=json.dumps(texts),
        capture_output=True,
        check=False,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    labels, probabilities = json.loads(done.stdout.splitlines()[-1])
    assert labels == [prediction["label"] for prediction in predictions]
    np.testing.assert_allclose(probabilities, scores, atol=1e-5)


def test_bfloat16_and_fixed_lengths(folders, tmp_path):
    from bert_tf.export.writing import export_model

    export_model(
        folders / "classification",
        tmp_path / "model",
        dtype="bfloat16",
        fixed_length=True,
        max_seq_length=16,
    )
    signatures = tf.saved_model.load(str(tmp_path / "model")).signatures
    inputs = signatures["ids"].structured_input_signature[1]
    assert inputs["input_ids"].shape.as_list() == [None, 16]
    classifier = inference.Classifier(
        folders / "classification", max_seq_length=16, xla=False
    )
    texts = list(sentences(5, 30))
    found = signatures["serving_default"](text=tf.constant(texts))
    expected = [list(x.probabilities.values()) for x in classifier(texts)]
    np.testing.assert_allclose(found["probabilities"], expected, atol=0.05)
    assert np.abs(found["probabilities"] - expected).max() > 0


@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("kind", ["classification", "squad"])
def test_litert(folders, tmp_path, kind, fixed):
    pytest.importorskip("ai_edge_litert")
    from bert_tf.export.runtimes import run_litert
    from bert_tf.export.writing import export_model

    path = tmp_path / "model.tflite"
    serving = export_model(
        folders / kind, path, format="litert", fixed_length=fixed
    )
    check_runtime(serving, fixed, lambda inputs: run_litert(str(path), inputs))


@pytest.mark.parametrize("kind", ["classification", "tagging", "pretraining"])
def test_onnx(folders, tmp_path, kind):
    pytest.importorskip("tf2onnx")
    onnxruntime = pytest.importorskip("onnxruntime")
    from bert_tf.export.writing import export_model

    path = tmp_path / "model.onnx"
    serving = export_model(folders / kind, path, format="onnx")
    session = onnxruntime.InferenceSession(path)
    names = [output.name for output in session.get_outputs()]
    check_runtime(
        serving,
        False,
        lambda inputs: dict(
            zip(names, session.run(names, inputs), strict=True)
        ),
    )


def check_runtime(serving, fixed, run):
    """Compares a runtime with the Keras model on inputs of its own."""
    shape = (3, serving.max_seq_length if fixed else 11)
    source = np.random.default_rng(4)
    inputs = {
        "input_ids": source.integers(0, len(PIECES), shape, np.int32),
        "input_mask": source.integers(0, 2, shape, np.int32),
        "segment_ids": source.integers(0, 2, shape, np.int32),
    }
    found = run(inputs)
    features = {name: tf.constant(value) for name, value in inputs.items()}
    expected = serving.select(serving.model(features), features)
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-4)


def test_what_cannot_be_exported(folders, tmp_path, monkeypatch):
    from bert_tf.export import writing
    from bert_tf.export.command import main

    (tmp_path / "there").mkdir()
    (tmp_path / "there/file").touch()
    arguments = [f"--model_dir={folders}/classification"]
    with pytest.raises(SystemExit, match="there exists; choose a new one"):
        main([*arguments, f"--output={tmp_path}/there"])
    with pytest.raises(SystemExit, match="'classification', expected 'squad'"):
        main([*arguments, "--task=squad", f"--output={tmp_path}/new"])
    monkeypatch.setattr(writing, "_task_of", lambda run: "classification")
    monkeypatch.setitem(writing._TOLERANCE, "float32", -1.0)
    with pytest.raises(SystemExit, match="outputs differ from the model's by"):
        main([*arguments, f"--output={tmp_path}/new"])
    with pytest.raises(ValueError, match="'multiple_choice' cannot be"):
        monkeypatch.undo()
        writing._task_of({"task": "multiple_choice"})
