"""Fine-tunes BERT to choose the text that fits a context, as in SWAG.

For example, with an official checkpoint and the files of SWAG:

  python run_multiple_choice.py --task_name=swag --do_train --do_eval \\
    --data_dir=swag --train_batch_size=16 --learning_rate=2e-5 \\
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \\
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/tmp/swag
"""

import functools

from bert_tf import common_flags, fine_tuning_flags, multiple_choice_flags

common_flags.define_model_flags()
common_flags.define_run_flags()
common_flags.define_epoch_flags()
fine_tuning_flags.define_flags()
common_flags.define_device_flags()
multiple_choice_flags.define_flags()


def main(argv):
    common_flags.start(argv)
    model = common_flags.model_settings()
    run_settings = common_flags.run_settings()
    devices = common_flags.device_settings()

    from bert_tf import runner

    runner.run(
        functools.partial(multiple_choice_flags.create_task, model=model),
        model,
        run_settings,
        devices,
        common_flags.command_line(),
    )


command = functools.partial(common_flags.run_main, main)

if __name__ == "__main__":
    command()
