"""Opens a checkpoint of any format that BERT weights come in."""

import os

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.checkpoint import saved_model
from bert_tf.checkpoint.architecture import WORD_EMBEDDINGS
from bert_tf.checkpoint.huggingface import open_huggingface
from bert_tf.checkpoint.locating import (
    is_foreign,
    join,
    resolve_checkpoint,
    split,
)
from bert_tf.checkpoint.model_garden import add_object_based
from bert_tf.checkpoint.object_graph import GRAPH_KEY
from bert_tf.checkpoint.reading import READ_ERRORS, read_index
from bert_tf.checkpoint.report import CheckpointError
from bert_tf.checkpoint.sources import Source, StoredTensor
from bert_tf.config import BertConfig


def open_checkpoint(path: str | os.PathLike) -> Source:
    """Opens a checkpoint; values are read later, one by one.

    Args:
      path: a prefix or one of its files, with official names or of the Model
        Garden; a Hugging Face folder or its weights; a SavedModel; or a
        folder with one of these.

    Raises:
      CheckpointError: (a ValueError) there is none, it is damaged, or it is
        no BERT's.
    """
    path = resolve_checkpoint(path)
    if saved_model.is_saved_model(path):
        prefix = join(path, saved_model.VARIABLES)
        source, stored = _open_bundle(prefix)
        source.path, source.format = path, "saved_model"
        saved_model.add_beside(source, path, stored)
        return source
    if is_foreign(path):
        return open_huggingface(path)
    source, _ = _open_bundle(path)
    config = join(split(path)[0], "bert_config.json")
    if files.exists(config):
        source.config = BertConfig.from_json_file(config)
    return source


def open_foreign(path: str) -> Source | None:
    """Opens a checkpoint unless it has official names.

    Args:
      path: as `resolve_checkpoint` gives it.
    """
    if not is_foreign(path):
        index = read_index(path)
        if GRAPH_KEY not in index or WORD_EMBEDDINGS in index:
            return None
    return open_checkpoint(path)


def _open_bundle(prefix: str) -> tuple[Source, dict[str, StoredTensor]]:
    """Variables of TensorFlow's own files, with either kind of names."""
    index = read_index(prefix)
    reader = tf.compat.v1.train.NewCheckpointReader(prefix)

    def read(name: str) -> np.ndarray:
        try:
            return reader.get_tensor(name)
        except READ_ERRORS as error:
            raise CheckpointError(
                f"{prefix}.data-*: damaged or cut short, the values of {name} "
                f"cannot be read: {error}"
            ) from error

    stored = {
        name: StoredTensor(
            name,
            np.dtype(dtype.as_numpy_dtype),
            shape,
            lambda name=name: np.asarray(read(name)),
        )
        for name, (shape, dtype) in index.items()
        if name != GRAPH_KEY
    }
    names = {saved_model.official_name(x): x for x in stored}
    if GRAPH_KEY in index and WORD_EMBEDDINGS not in names:
        source = Source(prefix, "model_garden", {})
        add_object_based(source, stored, read(GRAPH_KEY))
    else:
        source = Source(
            prefix, "tf1", {name: stored[x] for name, x in names.items()}
        )
    return source, stored
