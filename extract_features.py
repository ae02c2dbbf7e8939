"""Writes the vectors that BERT's layers give for each piece of each line.

For example:

  python extract_features.py --input_file=input.txt \\
    --output_file=output.jsonl --vocab_file=$BERT/vocab.txt \\
    --bert_config_file=$BERT/bert_config.json \\
    --init_checkpoint=$BERT/bert_model.ckpt --layers=-1,-2,-3,-4
"""

import functools

from bert_tf import common_flags, extract_flags

extract_flags.define_flags()
common_flags.define_device_flags()


def main(argv):
    common_flags.start(argv)
    model = extract_flags.model_settings()
    settings = extract_flags.extraction_settings()
    devices = common_flags.device_settings()

    from bert_tf import feature_extraction

    feature_extraction.run(
        functools.partial(common_flags.create_tokenizer, model),
        model,
        settings,
        devices,
        common_flags.FLAGS.use_one_hot_embeddings,
    )


command = functools.partial(common_flags.run_main, main)

if __name__ == "__main__":
    command()
