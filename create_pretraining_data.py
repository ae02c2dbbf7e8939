"""Turns text into masked instances for `run_pretraining.py`.

Text is one sentence a line with a blank line between documents:

  python create_pretraining_data.py --input_file='text/*.txt' \\
    --output_file=/tmp/records@8 --vocab_file=$BERT/vocab.txt \\
    --max_seq_length=128 --max_predictions_per_seq=20 --dupe_factor=5

--dry_run shows what the text gives. Small input makes the records that the
original script makes; larger input is streamed, in several processes, and a
killed start goes on where it was. On a cluster, with Apache Beam:

  python create_pretraining_data.py --runner=DataflowRunner \\
    --input_file='gs://bucket/text/*' --output_file=gs://bucket/records@1000 \\
    --vocab_file=gs://bucket/vocab.txt -- --project=mine --region=here
"""

import functools

from absl import flags, logging

from bert_tf import common_flags, pretraining_flags

pretraining_flags.define_flags()
flags.adopt_module_key_flags(common_flags)  # so that --help lists them


def main(argv):
    options = pretraining_flags.pipeline_options(argv)
    settings = pretraining_flags.pretraining_data_settings()
    runner = common_flags.FLAGS.runner
    logging.set_verbosity(logging.INFO)
    from bert_tf import pretraining_data

    if runner:
        from bert_tf import pretraining_beam

        statistics = pretraining_beam.create_with_beam(
            settings, runner, options
        )
    else:
        statistics = pretraining_data.create_pretraining_data(settings)
    print(pretraining_data.report(settings, statistics))


command = functools.partial(common_flags.run_main, main)

if __name__ == "__main__":
    command()
