"""A published ONNX model of BERT's architecture: its weights, our model.

Needs the model's file (BERT_TF_ONNX_MODEL) and a Python with onnx and
onnxruntime (BERT_TF_TRANSFORMERS_PYTHON, else this one).
"""

import os
import subprocess
import sys

import numpy as np
import pytest

import bert_tf
from bert_tf.checkpoint import checkpoint_names
from bert_tf.checkpoint.architecture import all_names
from bert_tf.checkpoint.huggingface_names import huggingface_name
from bert_tf.config import BertConfig

PYTHON = os.environ.get("BERT_TF_TRANSFORMERS_PYTHON", sys.executable)
SENTENCES = 100
LENGTH = 48
# Kernels have made-up names there: each is found through the bias that is
# added to its product.
ORACLE = """
import sys, numpy as np, onnx, onnx.numpy_helper, onnxruntime
model, work = sys.argv[1:]
graph = onnx.load(model).graph
arrays = {x.name: onnx.numpy_helper.to_array(x) for x in graph.initializer}
product = {y: x for x in graph.node if x.op_type == "MatMul" for y in x.output}
found = {k: v for k, v in arrays.items() if not k.startswith("onnx::")}
for node in graph.node:
    if node.op_type != "Add":
        continue
    bias = [x for x in node.input if x.endswith(".bias")]
    matmul = [product[x] for x in node.input if x in product]
    if bias and matmul:
        (kernel,) = [x for x in matmul[0].input if x in arrays]
        found[bias[0].removesuffix("bias") + "kernel"] = arrays[kernel]
np.savez(work + "/weights.npz", **found)
inputs = np.load(work + "/inputs.npz")
session = onnxruntime.InferenceSession(model)
names = {x.name for x in session.get_inputs()}
outputs = session.run(None, {k: inputs[k] for k in inputs.files if k in names})
np.savez(work + "/outputs.npz", *outputs)
"""


@pytest.fixture(scope="module")
def onnx_model():
    path = os.environ.get("BERT_TF_ONNX_MODEL", "")
    if not os.path.exists(path):
        pytest.skip("BERT_TF_ONNX_MODEL names no file")
    probe = [PYTHON, "-c", "import onnx, onnxruntime"]
    if subprocess.run(probe, capture_output=True).returncode:
        pytest.skip("onnx and onnxruntime absent")
    return path


def test_onnx_model_agrees(onnx_model, data_dir, tmp_path):
    folder = data_dir / "vocab" / "uncased_L-12_H-768_A-12"
    vocab = folder / "vocab.txt"
    tokenizer = bert_tf.FullTokenizer(vocab, True)
    rows = (data_dir / "cls_sst2_layout_polarity" / "dev.tsv").read_text(
        "utf-8"
    )
    texts = [x.split("\t")[0] for x in rows.splitlines()[1 : SENTENCES + 1]]
    assert len(texts) == SENTENCES
    features = [tokenizer.encode(x, max_seq_length=LENGTH) for x in texts]
    inputs = {k: np.array([x[k] for x in features]) for k in features[0]}
    np.savez(
        tmp_path / "inputs.npz",
        input_ids=inputs["input_ids"].astype("i8"),
        attention_mask=inputs["input_mask"].astype("i8"),
        token_type_ids=inputs["segment_ids"].astype("i8"),
    )
    subprocess.run(
        [PYTHON, "-c", ORACLE, onnx_model, str(tmp_path)], check=True
    )
    weights = np.load(tmp_path / "weights.npz")
    prefix = "model.0.auto_model."
    named = {x.removeprefix(prefix): weights[x] for x in weights.files}
    words = named["embeddings.word_embeddings.weight"]
    layers = 1 + max(int(x.split(".")[2]) for x in named if ".layer." in x)
    config = BertConfig(
        vocab_size=words.shape[0],
        hidden_size=words.shape[1],
        num_hidden_layers=layers,
        num_attention_heads=12,
        intermediate_size=1536,
        hidden_act="gelu_erf",
        type_vocab_size=2,
    )
    model = bert_tf.BertModel(config)
    variables = checkpoint_names(model)
    assigned = 0
    for name in all_names(layers):
        theirs = huggingface_name(name).removeprefix("bert.")
        if name.endswith("/kernel"):
            theirs = theirs.removesuffix("weight") + "kernel"
        if theirs in named and name in variables:
            variables[name].assign(named[theirs])
            assigned += 1
    assert assigned == 5 + 16 * layers  # without pooler
    ours = model(inputs)["sequence_output"].numpy()
    theirs = np.load(tmp_path / "outputs.npz")
    tokens = next(theirs[x] for x in theirs.files if theirs[x].ndim == 3)
    mask = inputs["input_mask"][..., np.newaxis].astype(bool)
    difference = np.abs(np.where(mask, tokens - ours, 0)).max()
    print(f"largest difference of {mask.sum()} tokens: {difference:.1e}")
    assert difference < 1e-4
    shape = (SENTENCES, config.hidden_size)
    pooled = next(theirs[x] for x in theirs.files if theirs[x].shape == shape)
    means = (ours * mask).sum(1) / mask.sum(1)
    if np.allclose(np.linalg.norm(pooled, axis=1), 1, atol=1e-3):
        means /= np.linalg.norm(means, axis=1, keepdims=True)
    np.testing.assert_allclose(means, pooled, atol=1e-4)
