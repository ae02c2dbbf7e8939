"""Fine-tunes BERT to label each word, as in named entity recognition.

For example, with an official checkpoint and the files of CoNLL-2003:

  python run_tagging.py --do_train --do_eval --do_predict --data_dir=conll \\
    --train_file=eng.train --eval_file=eng.testa --predict_file=eng.testb \\
    --vocab_file=$BERT/vocab.txt --bert_config_file=$BERT/bert_config.json \\
    --init_checkpoint=$BERT/bert_model.ckpt --nodo_lower_case \\
    --output_dir=/tmp/ner
"""

import functools

from bert_tf import common_flags, fine_tuning_flags, tagging_flags

common_flags.define_model_flags()
common_flags.define_run_flags()
common_flags.define_epoch_flags()
fine_tuning_flags.define_flags()
common_flags.define_device_flags()
tagging_flags.define_flags()


def main(argv):
    common_flags.start(argv)
    model = common_flags.model_settings()
    run_settings = common_flags.run_settings()
    devices = common_flags.device_settings()

    from bert_tf import runner

    runner.run(
        functools.partial(tagging_flags.create_task, model=model),
        model,
        run_settings,
        devices,
        common_flags.command_line(),
    )


command = functools.partial(common_flags.run_main, main)

if __name__ == "__main__":
    command()
