"""A first run with no download: `python -m bert_tf.demo`."""
