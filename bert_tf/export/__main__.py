"""Exports a model; see `python -m bert_tf.export --help`."""

from bert_tf.export.command import main

if __name__ == "__main__":
    main()
