"""A trained model as something that serves: text in, answers out.

    python -m bert_tf.export --model_dir RUN --output DIR

writes a SavedModel that needs tensorflow and tensorflow-text only, and
`--format litert` or `--format onnx` the model behind the tokenizer for other
runtimes. `docs/serving.md` shows how each is called.
"""
