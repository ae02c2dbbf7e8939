"""Reads SavedModels of BERT encoders, as TF-Hub and Kaggle have them.

The folder holds `saved_model.pb` (the graph), `variables/` (a checkpoint) and
`assets/` (the vocabulary). Nothing of the graph is run: variables are read as
a checkpoint, and of the graph only the names of its operations are looked at.
Source: tf-models-official, `official/nlp/tools/export_tfhub_lib.py`.
"""

import os
from collections.abc import Mapping

from bert_tf import files
from bert_tf.checkpoint.locating import join
from bert_tf.checkpoint.report import CheckpointError
from bert_tf.checkpoint.sources import Source, StoredTensor
from bert_tf.config import BertConfig

MODEL_FILE = "saved_model.pb"
VARIABLES = "variables/variables"
_LOWER_CASE = "do_lower_case/.ATTRIBUTES/VARIABLE_VALUE"
_HUB_PREFIX = "module/"


def is_saved_model(path: str | os.PathLike) -> bool:
    """Tells whether a folder is a SavedModel."""
    path = os.fspath(path)
    return files.is_dir(path) and files.exists(join(path, MODEL_FILE))


def add_beside(
    source: Source, folder: str, stored: Mapping[str, StoredTensor]
) -> None:
    """Adds what a SavedModel has beside the weights.

    Args:
      source: its tensors are there; vocabulary, casing and config are set.
      folder: the SavedModel.
      stored: all tensors by their names in the file.

    Raises:
      CheckpointError: (a ValueError) a damaged graph.
    """
    vocab = join(folder, "assets/vocab.txt")
    if files.exists(vocab):
        source.vocab = files.read_bytes(vocab)
    if _LOWER_CASE in stored:
        source.do_lower_case = bool(stored[_LOWER_CASE].read())
    for place in ("assets.extra", "assets", "."):
        path = join(folder, f"{place}/bert_config.json")
        if files.exists(path):
            source.config = BertConfig.from_json_file(path)
            return
    if source.num_attention_heads is None:
        return
    source.config = infer_config(source, _activation(folder))


def infer_config(source: Source, hidden_act: str) -> BertConfig:
    """Reads the architecture off the shapes.

    Args:
      source: with tensors, and the number of heads.
      hidden_act: the activation, which no shape tells.

    Raises:
      CheckpointError: (a ValueError) a variable is missing.
    """
    shapes = source.shapes
    layers = {
        name.split("/")[2]
        for name in shapes
        if name.startswith("bert/encoder/")
    }
    try:
        words = shapes["bert/embeddings/word_embeddings"]
        positions = shapes["bert/embeddings/position_embeddings"]
        types = shapes["bert/embeddings/token_type_embeddings"]
        inner = shapes["bert/encoder/layer_0/intermediate/dense/kernel"]
    except KeyError as error:
        raise CheckpointError(f"{source.path}: no variable {error}") from None
    source.notes.append(
        f"the config is inferred: sizes from the shapes, hidden_act "
        f"{hidden_act}, layer norm epsilon 1e-12"
    )
    return BertConfig(
        vocab_size=words[0],
        hidden_size=words[1],
        num_hidden_layers=len(layers),
        num_attention_heads=source.num_attention_heads,
        intermediate_size=inner[1],
        hidden_act=hidden_act,
        max_position_embeddings=positions[0],
        type_vocab_size=types[0],
        source=source.path,
    )


def official_name(name: str) -> str:
    """The name of a variable of a TF1 hub module."""
    return name.removeprefix(_HUB_PREFIX)


def _activation(folder: str) -> str:
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import saved_model_pb2

    path = join(folder, MODEL_FILE)
    model = saved_model_pb2.SavedModel()
    try:
        model.ParseFromString(files.read_bytes(path))
    except DecodeError as error:
        raise CheckpointError(
            f"{path}: damaged or cut short: {error}"
        ) from None
    operations = set()
    for meta in model.meta_graphs:
        nodes = [meta.graph_def.node]
        nodes += [x.node_def for x in meta.graph_def.library.function]
        operations.update(node.op for part in nodes for node in part)
    if operations & {"Erf", "Erfc"}:
        return "gelu_erf"
    return "relu" if "Relu" in operations else "gelu"
