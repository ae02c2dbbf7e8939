"""Tokens and attention made visible: `python -m bert_tf.visualize --help`."""
