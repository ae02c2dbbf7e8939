"""Fine-tunes BERT to classify texts or pairs of texts; evaluates, predicts.

For example, with an official checkpoint and the files of a GLUE task:

  python run_classifier.py --task_name=mrpc --do_train --do_eval \\
    --data_dir=glue/MRPC --vocab_file=$BERT/vocab.txt \\
    --bert_config_file=$BERT/bert_config.json \\
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/tmp/mrpc
"""

import functools

from bert_tf import classification_flags, common_flags, fine_tuning_flags

common_flags.define_model_flags()
common_flags.define_run_flags()
common_flags.define_epoch_flags()
fine_tuning_flags.define_flags()
common_flags.define_device_flags()
classification_flags.define_flags()


def main(argv):
    common_flags.start(argv)
    model = common_flags.model_settings()
    run_settings = common_flags.run_settings()
    devices = common_flags.device_settings()

    from bert_tf import runner

    runner.run(
        functools.partial(classification_flags.create_task, model=model),
        model,
        run_settings,
        devices,
        common_flags.command_line(),
    )


command = functools.partial(common_flags.run_main, main)

if __name__ == "__main__":
    command()
