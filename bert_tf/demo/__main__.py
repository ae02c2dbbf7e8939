"""BERT from nothing to predictions, with no download.

  python -m bert_tf.demo

makes labelled text and a corpus from the documentation that comes with
Python, learns a vocabulary, pre-trains a tiny model, fine-tunes a classifier
from it and another from scratch, and shows what each has learned. All files
stay in --output_dir, where the real scripts can go on with them.
"""

import argparse
import logging
import sys
import time

from bert_tf.environment import prepare_environment


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bert_tf.demo",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--output_dir",
        default="demo_output",
        help="folder for everything; must be new (default: %(default)s)",
    )
    parser.add_argument(
        "--pretraining_steps",
        type=int,
        default=900,
        help="steps of 32 examples (default: %(default)s)",
    )
    parser.add_argument(
        "--sentences_per_family",
        type=int,
        default=700,
        help="labelled sentences of each class (default: %(default)s)",
    )
    parser.add_argument(
        "--random_seed", type=int, default=12345, help="of everything"
    )
    options = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    prepare_environment()

    from bert_tf.demo import story

    start = time.monotonic()
    try:
        story.tell(
            options.output_dir,
            options.pretraining_steps,
            options.sentences_per_family,
            options.random_seed,
        )
    except ValueError as error:
        sys.exit(f"error: {error}")
    print(f"\n{time.monotonic() - start:.0f} seconds in all.")


if __name__ == "__main__":
    main()
