"""Converts BERT checkpoints from one format to another.

For example, a model of Hugging Face for the scripts here, and back:

  python convert_checkpoint.py --input=bert-base-german-cased \\
    --output=/tmp/german --output_format=tf1
  python convert_checkpoint.py --input=/tmp/my_run --output=/tmp/my_run_hf \\
    --output_format=huggingface
"""

import functools

from bert_tf import common_flags, conversion_flags

conversion_flags.define_flags()


def main(argv):
    common_flags.start(argv)
    request = conversion_flags.conversion()

    from bert_tf.conversion import convert

    report = convert(request)
    print(report.table())
    print(report.summary())
    if common_flags.FLAGS.report:
        report.save(common_flags.FLAGS.report)


command = functools.partial(common_flags.run_main, main)

if __name__ == "__main__":
    command()
