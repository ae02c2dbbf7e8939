"""The id signature for LiteRT and ONNX Runtime.

Both come without the tokenizer: ids in, outputs of the model's head out.
"""

import tempfile
from collections.abc import Callable, Mapping

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.checkpoint.names import checkpoint_names
from bert_tf.export.serving import INPUTS, Serving

# What tf2onnx converts and ONNX Runtime has run for years.
_OPSET = 17
_SIGNATURE = "ids"

Run = Callable[[Mapping[str, np.ndarray]], dict[str, np.ndarray]]


def _function(serving: Serving) -> tf.types.experimental.GenericFunction:
    """The id signature without a check of lengths, which strings need."""

    def predict(input_ids, input_mask, segment_ids):
        return serving.apply(
            {
                "input_ids": input_ids,
                "input_mask": input_mask,
                "segment_ids": segment_ids,
            }
        )

    return tf.function(
        predict, input_signature=serving.id_specs(), autograph=False
    )


def write_litert(serving: Serving, path: str) -> Run:
    """Writes a `.tflite` file; returns what runs it."""
    root = tf.train.Checkpoint(
        **{
            f"variable_{i}": variable
            for i, variable in enumerate(
                checkpoint_names(serving.model).values()
            )
        }
    )
    function = _function(serving)
    root.function = function
    with tempfile.TemporaryDirectory(prefix="bert_tf_") as folder:
        tf.saved_model.save(root, folder, signatures={_SIGNATURE: function})
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=[_SIGNATURE]
        )
        content = converter.convert()
    with files.atomic_write(path, "wb") as stream:
        stream.write(content)
    return lambda inputs: run_litert(path, inputs)


def run_litert(
    path: str, inputs: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Runs a `.tflite` file once.

    Raises:
      ValueError: there is no runtime.
    """
    try:
        from ai_edge_litert.interpreter import Interpreter
    except ImportError as error:
        raise ValueError(
            f"checking a LiteRT model needs its runtime ({error}): "
            "pip install 'bert-tf[litert]'"
        ) from error
    return Interpreter(path).get_signature_runner(_SIGNATURE)(**inputs)


def write_onnx(serving: Serving, path: str) -> Run:
    """Writes an `.onnx` file; returns what runs it.

    Raises:
      ValueError: tf2onnx is not installed.
    """
    try:
        import onnxruntime
        import tf2onnx
    except ImportError as error:
        raise ValueError(
            f"--format=onnx needs more packages ({error}): "
            "pip install 'bert-tf[onnx]'"
        ) from error
    function = _function(serving)
    model, _ = tf2onnx.convert.from_function(
        function, input_signature=serving.id_specs(), opset=_OPSET
    )
    # TensorFlow flattens a dict by the order of its keys.
    names = sorted(function.get_concrete_function().structured_outputs)
    _rename_outputs(model.graph, names)
    with files.atomic_write(path, "wb") as stream:
        stream.write(model.SerializeToString())

    def run(inputs):
        session = onnxruntime.InferenceSession(
            path, providers=["CPUExecutionProvider"]
        )
        values = {name: inputs[name] for name in INPUTS}
        return dict(zip(names, session.run(names, values), strict=True))

    return run


def _rename_outputs(graph, names: list[str]) -> None:
    """Gives the outputs of an ONNX graph the signature's names."""
    new = {
        output.name: name
        for output, name in zip(graph.output, names, strict=True)
    }
    for output in graph.output:
        output.name = new[output.name]
    for node in graph.node:
        for values in (node.input, node.output):
            for i, value in enumerate(values):
                values[i] = new.get(value, value)
