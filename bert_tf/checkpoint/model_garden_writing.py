"""Writes checkpoints that models of the TensorFlow Model Garden restore.

For their names and shapes see `model_garden`.
"""

import os
import re
from collections.abc import Mapping

from bert_tf import files
from bert_tf.checkpoint.architecture import (
    MASKED_LM,
    NEXT_SENTENCE,
    POOLER,
    ROOT,
    SPAN,
    USE_POOLER,
)
from bert_tf.checkpoint.locating import split
from bert_tf.checkpoint.model_garden import LOGITS, garden_name
from bert_tf.checkpoint.object_graph import GRAPH_KEY, Leaf, Tree, build_graph
from bert_tf.checkpoint.sources import StoredTensor
from bert_tf.checkpoint.tensor_bundle import scalar, write_bundle
from bert_tf.config import BertConfig

_COPY = "copy of "


def _expanded(name: str, shape: tuple[int, ...], heads: int) -> tuple[int, ...]:
    """The shape with an axis of heads, where there is one."""
    size = shape[-1] // heads
    if re.search(r"self_attention/(query|key|value)/kernel$", name):
        return (shape[0], heads, size)
    if re.search(r"self_attention/(query|key|value)/bias$", name):
        return (heads, size)
    if name.endswith("self_attention/attention_output/kernel"):
        return (heads, shape[0] // heads, shape[1])
    return shape


def write_model_garden(
    prefix: str | os.PathLike,
    tensors: Mapping[str, StoredTensor],
    config: BertConfig,
    head: str | None,
) -> dict[str, tuple[str, StoredTensor]]:
    """Writes a checkpoint that the Model Garden's models restore.

    The attributes are those of both encoders, and of the model with the head:
    `BertPretrainerV2`, `BertClassifier`, `BertTokenClassifier` or
    `BertSpanLabeler`; multiple choice is written as a classifier of one class.
    Both `encoder` and `model` lead to the encoder where there is no head.

    Returns:
      Key there and tensor, by the official name.
    """
    heads = config.num_attention_heads
    written = {}
    for name, tensor in tensors.items():
        if name in (SPAN[0], ROOT[0], NEXT_SENTENCE[0]):
            written[name] = tensor.transposed()
        else:
            shape = _expanded(garden_name(name), tensor.shape, heads)
            written[name] = tensor.reshaped(shape)
    if POOLER[0] in tensors and head in USE_POOLER:
        # Heads there have a pooler apart from the encoder's; one variable
        # could be restored into only one of both.
        written |= {_COPY + name: written[name] for name in POOLER}
    tree = _objects(written, config.num_hidden_layers, head)
    graph, keys = build_graph(tree)
    prefix = os.fspath(prefix)
    files.make_dirs(split(prefix)[0])
    by_key = {keys[name]: x for name, x in written.items()}
    by_key[keys["save_counter"]] = scalar(1)
    write_bundle(prefix, by_key, {GRAPH_KEY: graph})
    return {name: (keys[name], x) for name, x in written.items()}


def _dense(name: str, full_name: str, bias: str | None = None) -> Tree:
    bias = bias or name.replace("kernel", "bias")
    return {
        "kernel": Leaf(name, f"{full_name}/kernel"),
        "bias": Leaf(bias, f"{full_name}/bias"),
    }


def _norm(scope: str) -> Tree:
    return {
        x: Leaf(f"{scope}/{x}", garden_name(f"{scope}/{x}"))
        for x in ("gamma", "beta")
    }


def _encoder(num_layers: int) -> Tree:
    def dense(scope: str) -> Tree:
        name = f"{scope}/kernel"
        return _dense(name, garden_name(name).removesuffix("/kernel"))

    def table(kind: str) -> Tree:
        name = f"bert/embeddings/{kind}_embeddings"
        return {"embeddings": Leaf(name, garden_name(name))}

    layers: list[Tree] = []
    for i in range(num_layers):
        scope = f"bert/encoder/layer_{i}"
        attention: Tree = {
            f"_{x}_dense": dense(f"{scope}/attention/self/{x}")
            for x in ("query", "key", "value")
        }
        attention["_output_dense"] = dense(f"{scope}/attention/output/dense")
        layers.append(
            {
                "_attention_layer": attention,
                "_attention_layer_norm": _norm(
                    f"{scope}/attention/output/LayerNorm"
                ),
                "_intermediate_dense": dense(f"{scope}/intermediate/dense"),
                "_output_dense": dense(f"{scope}/output/dense"),
                "_output_layer_norm": _norm(f"{scope}/output/LayerNorm"),
            }
        )
    parts: dict[str, Tree] = {
        "_embedding_layer": table("word"),
        "_position_embedding_layer": table("position"),
        "_type_embedding_layer": table("token_type"),
        "_embedding_norm_layer": _norm("bert/embeddings/LayerNorm"),
    }
    pooler = dense("bert/pooler/dense")
    in_order = [*parts.values(), *layers, pooler]
    return {
        **{f"layer_with_weights-{i}": x for i, x in enumerate(in_order)},
        **parts,
        "_transformer_layers": {str(i): x for i, x in enumerate(layers)},
        "_pooler_layer": pooler,
    }


def _objects(
    tensors: Mapping[str, StoredTensor], num_layers: int, head: str | None
) -> Tree:
    encoder = _encoder(num_layers)
    root: Tree = {"encoder": encoder, "model": encoder}
    root["save_counter"] = Leaf("save_counter", "save_counter")
    pooler = encoder["_pooler_layer"]
    if head in ("pre_training", "masked_lm", "next_sentence"):
        model: Tree = {"encoder_network": encoder}
        if MASKED_LM[0] in tensors:
            dense = _dense(MASKED_LM[0], "bert/cls/predictions/transform/dense")
            bias = Leaf(MASKED_LM[-1], f"bert/{garden_name(MASKED_LM[-1])}")
            root["masked_lm"] = model["masked_lm"] = {
                "dense": dense,
                "layer_norm": _norm("cls/predictions/transform/LayerNorm"),
                "output_bias/bias": bias,
                "bias": bias,
                "embedding_table": encoder["_embedding_layer"]["embeddings"],
            }
        if NEXT_SENTENCE[0] in tensors:
            project = _dense(
                NEXT_SENTENCE[0], "bert/next_sentence/logits", NEXT_SENTENCE[1]
            )
            own = _dense(
                _COPY + POOLER[0],
                "bert/next_sentence/pooler_dense",
                _COPY + POOLER[1],
            )
            classifier: Tree = {"out_proj": project, "dense": own}
            model["classification_heads"] = {"0": classifier}
            root["next_sentence.pooler_dense"] = own
        root["model"] = model
    elif head == "question_answering":
        dense = _dense(SPAN[0], LOGITS, SPAN[1])
        span: Tree = {"layer_with_weights-0": dense}
        root["model"] = _task_model(encoder, span, "span_labeling")
    elif head == "token_classification":
        dense = _dense(ROOT[0], LOGITS, ROOT[1])
        root["model"] = _task_model(encoder, dense, "classifier")
    elif head is not None:
        project = _dense(ROOT[0], "sentence_prediction/logits", ROOT[1])
        own = _dense(
            _COPY + POOLER[0],
            "sentence_prediction/pooler_dense",
            _COPY + POOLER[1],
        )
        root["model"] = _task_model(
            encoder, {"out_proj": project, "dense": own}, "classifier"
        )
        root["sentence_prediction.pooler_dense"] = own
    if POOLER[0] not in tensors:
        _forget(root, pooler)
    return root


def _task_model(encoder: Tree, layer: Tree, attribute: str) -> Tree:
    return {
        "layer_with_weights-0": encoder,
        "layer_with_weights-1": layer,
        "_network": encoder,
        attribute: layer,
    }


def _forget(node: Tree | Leaf, gone: Tree) -> None:
    """Takes an object out of all that lead to it."""
    if isinstance(node, Leaf):
        return
    for name in [x for x, child in node.items() if child is gone]:
        del node[name]
    for child in node.values():
        _forget(child, gone)
