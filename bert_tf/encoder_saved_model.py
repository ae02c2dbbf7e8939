"""Writes an encoder as a SavedModel of the form that TF-Hub and Kaggle have.

`tensorflow_hub.KerasLayer` and `tf.saved_model.load` take it: a dict of
`input_word_ids`, `input_mask` and `input_type_ids` in, a dict with
`pooled_output`, `sequence_output`, `encoder_outputs` and `default` out. Source:
the interface of text encoders at tensorflow.org/hub/common_saved_model_apis.

Shape letters: B batch, S sequence, P masked predictions.
"""

import os
import tempfile
import uuid
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf import files, run_folder
from bert_tf.checkpoint.architecture import MASKED_LM, POOLER
from bert_tf.checkpoint.names import checkpoint_names
from bert_tf.checkpoint.sources import StoredTensor
from bert_tf.config import BertConfig
from bert_tf.heads import BertForMaskedLM
from bert_tf.modeling import BertModel
from bert_tf.preprocessing_saved_model import INPUTS, write_preprocessing
from bert_tf.tokenization.graph import GraphTokenizer

PREPROCESSING_FOLDER = "preprocess"

_POSITIONS = "masked_lm_positions"
# The length that preprocessors on TF-Hub have.
_MAX_SEQ_LENGTH = 128


def write_saved_model(
    folder: str,
    tensors: Mapping[str, StoredTensor],
    config: BertConfig,
    *,
    do_lower_case: bool | None = None,
    vocab: bytes | None = None,
    record: Mapping[str, Any] | None = None,
    tokenizer: GraphTokenizer | None = None,
) -> None:
    """Writes a SavedModel, all or nothing.

    A masked LM head can be called as `mlm`; variables of other heads are kept
    in the file, but nothing calls them.

    Args:
      folder: replaced if it exists.
      tensors: by official name, float32, no optimizer state.
      config: the architecture; it is kept under `assets.extra`.
      do_lower_case: casing of the tokenizer.
      vocab: bytes of vocab.txt.
      record: what `run.json` beside the config says.
      tokenizer: written as a SavedModel too, to the folder `preprocess` inside
        the other, so that both are there or none.

    Raises:
      ValueError: the pooler is missing, which the form asks for.
    """
    if POOLER[0] not in tensors:
        raise ValueError(
            "the checkpoint has no pooler, but a SavedModel of an encoder "
            "must give a pooled output"
        )
    temporary = f"{folder.rstrip('/')}_temp_{uuid.uuid4().hex[:12]}"
    try:
        with tempfile.TemporaryDirectory() as assets:
            root, signature = _trackable(tensors, config)
            if vocab is not None:
                path = os.path.join(assets, "vocab.txt")
                with open(path, "wb") as stream:
                    stream.write(vocab)
                root.vocab_file = tf.saved_model.Asset(path)
            if do_lower_case is not None:
                root.do_lower_case = tf.Variable(do_lower_case, trainable=False)
            tf.saved_model.save(root, temporary, signatures=signature)
        if tokenizer is not None:
            write_preprocessing(
                run_folder.path_in(temporary, PREPROCESSING_FOLDER),
                tokenizer,
                min(_MAX_SEQ_LENGTH, config.max_position_embeddings),
            )
        extra = run_folder.path_in(temporary, "assets.extra")
        run_folder.write_run(extra, record or {}, config, None)
        if files.is_dir(folder):
            files.remove_tree(folder)
        files.replace(temporary, folder)
    finally:
        if files.exists(temporary):
            files.remove_tree(temporary)


def _trackable(tensors: Mapping[str, StoredTensor], config: BertConfig):
    """The object to save, and its function for serving."""
    has_masked_lm = MASKED_LM[0] in tensors
    model = (BertForMaskedLM if has_masked_lm else BertModel)(config)
    variables = checkpoint_names(model)
    for name, variable in variables.items():
        variable.assign(tensors[name].read())
    for name in tensors.keys() - variables.keys():
        variables[name] = tf.Variable(tensors[name].read(), name=name)

    def encode(inputs, training=False):
        outputs = model(_renamed(inputs), training=training)
        return _encoder_outputs(outputs)

    def predict_masked(inputs, training=False):
        outputs = model(_renamed(inputs), training=training)
        return {
            **_encoder_outputs(outputs),
            "mlm_logits": outputs["masked_lm_logits"],
        }

    def serve(inputs):
        outputs = root.__call__(inputs)
        # No signature can give the list of all layers.
        return {x: outputs[x] for x in outputs if x != "encoder_outputs"}

    def list_variables(target, prefixes):
        """What `KerasLayer` asks of what it wraps."""
        found = [x for n, x in variables.items() if n.startswith(prefixes)]
        target.variables = target.trainable_variables = found
        target.regularization_losses = []

    root = tf.train.Checkpoint()
    for name in sorted(variables):
        # Under its official name, so that it is found again.
        setattr(root, name, variables[name])
    list_variables(root, "bert/")
    specs = {
        name: tf.TensorSpec([None, None], tf.int32, name) for name in INPUTS
    }
    root.__call__ = _traced(encode, specs)
    if has_masked_lm:
        specs[_POSITIONS] = tf.TensorSpec([None, None], tf.int32, _POSITIONS)
        root.mlm = tf.train.Checkpoint()
        list_variables(root.mlm, ("bert/", "cls/predictions/"))
        root.mlm.__call__ = _traced(predict_masked, specs)
        del specs[_POSITIONS]
    signature = tf.function(serve, autograph=False)
    return root, signature.get_concrete_function(specs)


def _traced(function, specs):
    """A function for a SavedModel, traced with and without dropout."""
    traced = tf.function(function, autograph=False)
    for training in (False, True):
        traced.get_concrete_function(dict(specs), training=training)
    return traced


def _renamed(inputs):
    renamed = {ours: inputs[theirs] for theirs, ours in INPUTS.items()}
    if _POSITIONS in inputs:
        renamed[_POSITIONS] = inputs[_POSITIONS]
    return renamed


def _encoder_outputs(outputs):
    return {
        "pooled_output": outputs["pooled_output"],
        "default": outputs["pooled_output"],
        "sequence_output": outputs["sequence_output"],
        "encoder_outputs": outputs["all_encoder_layers"],
    }
