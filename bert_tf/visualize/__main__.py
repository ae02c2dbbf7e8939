"""Shows tokens and attention; see `python -m bert_tf.visualize --help`."""

from bert_tf.visualize.command import main

if __name__ == "__main__":
    main()
