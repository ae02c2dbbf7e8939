"""Fine-tunes BERT to answer questions on a text, as in SQuAD; answers, scores.

For example, with an official checkpoint and the files of SQuAD 2.0:

  python run_squad.py --version_2_with_negative --do_train --do_predict \\
    --train_file=train-v2.0.json --predict_file=dev-v2.0.json --do_eval \\
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \\
    --init_checkpoint=$BERT/bert_model.ckpt --output_dir=/tmp/squad
"""

import functools

from bert_tf import common_flags, fine_tuning_flags, squad_flags

common_flags.define_model_flags(max_seq_length=384)
common_flags.define_run_flags()
common_flags.define_epoch_flags()
fine_tuning_flags.define_flags()
common_flags.define_device_flags()
squad_flags.define_flags()


def main(argv):
    common_flags.start(argv)
    model = common_flags.model_settings()
    run_settings = common_flags.run_settings()
    devices = common_flags.device_settings()
    settings = squad_flags.squad_settings(model)

    from bert_tf import runner

    runner.run(
        functools.partial(
            squad_flags.create_task, model=model, settings=settings
        ),
        model,
        run_settings,
        devices,
        common_flags.command_line(),
    )


command = functools.partial(common_flags.run_main, main)

if __name__ == "__main__":
    command()
