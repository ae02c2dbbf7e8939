"""Runs a model on texts; see `python -m bert_tf.inference --help`."""

from bert_tf.inference.command import main

if __name__ == "__main__":
    main()
