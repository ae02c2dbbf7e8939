"""Reads a model folder, writes it for serving and checks what was written."""

import logging
import os
import uuid
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files, inference, run_folder
from bert_tf.checkpoint.names import checkpoint_names
from bert_tf.config import BertConfig
from bert_tf.export.answers import AnswerServing
from bert_tf.export.fill_mask import FillMaskServing
from bert_tf.export.serving import (
    INPUTS,
    ClassificationServing,
    EmbeddingServing,
    Serving,
)
from bert_tf.export.tagging import TaggingServing
from bert_tf.inference.model_folder import open_model_folder

_SERVING = {
    "classification": ("Classifier", ClassificationServing),
    "embedding": ("Embedder", EmbeddingServing),
    "fill_mask": ("FillMask", FillMaskServing),
    "squad": ("QuestionAnswerer", AnswerServing),
    "tagging": ("Tagger", TaggingServing),
}
_OWN_OPTIONS = {
    "classification": ("labels", "threshold"),
    "embedding": ("pooling", "normalize"),
    "fill_mask": ("top_k",),
}
# Largest difference from the Keras model that passes, by dtype.
_TOLERANCE = {"float32": 1e-4, "bfloat16": 0.05}
_EMBEDDABLE = ("pretraining", None)

_logger = logging.getLogger("bert_tf")


def export_model(
    model_dir: str | os.PathLike,
    output: str | os.PathLike,
    *,
    format: str = "saved_model",
    task: str | None = None,
    dtype: str = "float32",
    max_seq_length: int | None = None,
    fixed_length: bool = False,
    checkpoint: str | None = None,
    do_lower_case: bool | None = None,
    **options: Any,
) -> Serving:
    """Writes a model for serving.

    Args:
      model_dir: a run folder, or the folder of a released model.
      output: a new folder; a new file for `litert` and `onnx`.
      format: `saved_model` (text and ids), `litert` or `onnx` (ids).
      task: by default that of the run; `embedding` without one.
      dtype: `float32`, or `bfloat16` with variables in float32.
      max_seq_length: longest input; by default that of the run.
      fixed_length: pad every input to that.
      checkpoint: another than the folder's own.
      do_lower_case: casing, where the folder does not say it.
      **options: `labels`, `threshold` of a classifier; `pooling`,
        `normalize` of embeddings; `top_k` of `fill_mask`.

    Returns:
      The functions that were written.

    Raises:
      ValueError: the folder holds no such model, the output exists, a package
        is missing, or what was written does not compute the same.
    """
    output = os.fspath(output)
    if files.exists(output) and (
        not files.is_dir(output) or files.list_dir(output)
    ):
        raise ValueError(f"--output={output} exists; choose a new one")
    common = {
        "do_lower_case": do_lower_case,
        "max_seq_length": max_seq_length,
        "checkpoint": checkpoint,
    }
    if task is None:
        task = _task_of(open_model_folder(model_dir, **common).run)
    name, serving_class = _SERVING[task]
    own = {
        key: options[key]
        for key in _OWN_OPTIONS.get(task, ())
        if key in options
    }
    predictor = getattr(inference, name)(model_dir, xla=False, **common, **own)
    model = predictor.model
    if dtype != "float32":
        model = _in_dtype(predictor.model, f"mixed_{dtype}")
    serving = serving_class(predictor, model, fixed_length)
    if format == "saved_model":
        write_saved_model(serving, output)
        found = _saved_model_outputs(serving, output)
    else:
        from bert_tf.export import runtimes

        run = getattr(runtimes, f"write_{format}")(serving, output)
        found = run(_example_inputs(serving))
    _check(serving, found, _TOLERANCE[dtype], output)
    return serving


def _task_of(run: dict[str, Any]) -> str:
    task = run.get("task")
    if task in _EMBEDDABLE:
        return "embedding"
    if task not in _SERVING:
        raise ValueError(
            f"a model for the task {task!r} cannot be exported; give --task, "
            f"one of {', '.join(_SERVING)}"
        )
    return task


def _in_dtype(model, dtype: str):
    """The same model with other compute dtype."""
    labels = getattr(model, "num_labels", None)
    arguments = (model.config,) if labels is None else (model.config, labels)
    other = type(model)(*arguments, dtype=dtype)
    values = checkpoint_names(model)
    for name, variable in checkpoint_names(other).items():
        variable.assign(values[name])
    return other


def write_saved_model(serving: Serving, folder: str) -> None:
    """Writes all signatures, all or nothing.

    Config, run.json and vocabulary go to `assets.extra`, which nothing reads
    in serving.
    """
    root = tf.train.Checkpoint()
    for name, variable in sorted(checkpoint_names(serving.model).items()):
        setattr(root, name, variable)
    signatures = {
        name: tf.function(function, autograph=False).get_concrete_function(
            *specs
        )
        for name, (function, specs) in serving.signatures().items()
    }
    temporary = f"{folder.rstrip('/')}_temp_{uuid.uuid4().hex[:12]}"
    model_folder = serving.predictor.folder
    config: BertConfig = model_folder.config
    try:
        tf.saved_model.save(root, temporary, signatures=signatures)
        run_folder.write_run(
            run_folder.path_in(temporary, "assets.extra"),
            model_folder.run,
            config,
            model_folder.tokenizer.vocab_file,
        )
        if files.is_dir(folder):
            files.remove_tree(folder)
        files.replace(temporary, folder)
    finally:
        if files.exists(temporary):
            files.remove_tree(temporary)
    _logger.info(
        "%s: SavedModel with the signatures %s",
        folder,
        ", ".join(signatures),
    )


def _example_inputs(serving: Serving) -> dict[str, np.ndarray]:
    """Two random rows, the second one shorter and a pair."""
    length = serving.max_seq_length
    if not serving.fixed_length:
        length = min(length, 16)
    source = np.random.default_rng(0)
    shape = (2, length)
    features = {name: np.zeros(shape, np.int32) for name in INPUTS}
    vocab_size = serving.predictor.folder.config.vocab_size
    features["input_ids"][:] = source.integers(0, vocab_size, shape)
    features["input_mask"][:] = 1
    features["input_mask"][1, length // 2 :] = 0
    features["segment_ids"][1, length // 4 :] = 1
    return features


def _saved_model_outputs(serving: Serving, folder: str):
    loaded = tf.saved_model.load(folder)
    inputs = _example_inputs(serving)
    outputs = loaded.signatures["ids"](
        **{name: tf.constant(value) for name, value in inputs.items()}
    )
    return {name: value.numpy() for name, value in outputs.items()}


def _check(serving, found, tolerance: float, output: str) -> None:
    """Compares outputs with those of the Keras model in float32."""
    inputs = {
        name: tf.constant(value)
        for name, value in _example_inputs(serving).items()
    }
    model = serving.predictor.model
    expected = serving.select(model(inputs, training=False), inputs)
    largest = 0.0
    for name, value in expected.items():
        value = value.numpy()
        if value.dtype.kind != "f":
            continue
        scale = max(1.0, float(np.abs(value).max()))
        difference = np.abs(value - np.asarray(found[name], np.float32))
        largest = max(largest, float(difference.max()) / scale)
    if not largest <= tolerance:
        raise ValueError(
            f"{output} was written, but its outputs differ from the model's "
            f"by {largest:.2g}, more than {tolerance:g}"
        )
    _logger.info(
        "%s: largest difference from the Keras model %.1e", output, largest
    )
