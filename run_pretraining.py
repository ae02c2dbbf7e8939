"""Pre-trains BERT: masked LM and next-sentence prediction; evaluates.

For example, on records that create_pretraining_data.py has written:

  python run_pretraining.py --do_train --do_eval \\
    --input_file='/tmp/records/part-*' --output_dir=/tmp/pretraining \\
    --bert_config_file=$BERT/bert_config.json \\
    --init_checkpoint=$BERT/bert_model.ckpt \\
    --num_train_steps=20 --num_warmup_steps=10 --learning_rate=2e-5

Without --init_checkpoint the weights start from random values.
"""

import functools

from bert_tf import common_flags, pretraining_run_flags

common_flags.define_model_flags()
common_flags.define_run_flags(("train", "eval"))
common_flags.define_device_flags()
pretraining_run_flags.define_flags()


def main(argv):
    common_flags.start(argv)
    model = pretraining_run_flags.model_settings()
    run_settings = common_flags.run_settings(counts_steps=True)
    devices = common_flags.device_settings()

    from bert_tf import runner

    runner.run(
        functools.partial(
            pretraining_run_flags.create_task, model=model, run=run_settings
        ),
        model,
        run_settings,
        devices,
        common_flags.command_line(),
    )


command = functools.partial(common_flags.run_main, main)

if __name__ == "__main__":
    command()
