"""Trains a tiny model from scratch on many data sets, through the runners.

The model has 2 layers of 128 units and no pre-training: the figures show that
every kind of data goes through its runner and is learned from, not how good
BERT is. Each row is one command, which is printed.

  python benchmarks/data_sets.py --data=DATA --only=cls_sms_spam

DATA holds one folder a data set and `vocab/<release>/vocab.txt`.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time

from bert_tf.tokenization import load_vocab

ROOT = pathlib.Path(__file__).resolve().parent.parent
UNCASED = "uncased_L-12_H-768_A-12"
CHINESE = "chinese_L-12_H-768_A-12"
MULTI = "multi_cased_L-12_H-768_A-12"
CASED = "cased_L-12_H-768_A-12"
CUSTOM = "run_classifier.py --task_name=custom"

# folder: (vocabulary, length, epochs, script and its data flags)
RUNS = {
    "cls_sms_spam": (
        UNCASED,
        64,
        3,
        f"{CUSTOM} --train_file=train.tsv --eval_file=dev.tsv "
        "--label_column=0 --text_column=1",
    ),
    "cls_banking77": (
        UNCASED,
        32,
        4,
        f"{CUSTOM} --train_file=train.csv --eval_file=test.csv "
        "--label_column=category --text_column=text",
    ),
    "cls_sst2_layout_polarity": (
        UNCASED,
        64,
        2,
        "run_classifier.py --task_name=sst-2",
    ),
    "cls_cola_layout_blimp": (
        UNCASED,
        32,
        4,
        "run_classifier.py --task_name=cola",
    ),
    "cls_zh_poetry": (
        CHINESE,
        64,
        3,
        f"{CUSTOM} --train_file=train.tsv --eval_file=dev.tsv "
        "--label_column=label --text_column=text_a",
    ),
    "long_movie_reviews": (
        UNCASED,
        256,
        4,
        f"{CUSTOM} --train_file=train.tsv --eval_file=dev.tsv "
        "--label_column=label --text_column=text --train_batch_size=16",
    ),
    "pair_mnli_layout_snli": (
        UNCASED,
        64,
        3,
        "run_classifier.py --task_name=mnli",
    ),
    "pair_mrpc_layout_pawsx_de": (
        MULTI,
        64,
        3,
        "run_classifier.py --task_name=mrpc --nodo_lower_case",
    ),
    "pair_qnli_layout_squad": (
        UNCASED,
        64,
        4,
        "run_classifier.py --task_name=qnli",
    ),
    "pair_xnli_layout_klue_ko": (
        MULTI,
        64,
        3,
        "run_classifier.py --task_name=xnli --train_language=ko "
        "--nodo_lower_case",
    ),
    "reg_stsb_layout_jsts_ja": (
        MULTI,
        64,
        3,
        "run_classifier.py --task_name=sts-b --nodo_lower_case",
    ),
    "reg_emobank": (
        UNCASED,
        48,
        3,
        f"{CUSTOM} --train_file=train.csv --eval_file=dev.csv "
        "--label_kind=regression --label_column=V --text_column=text",
    ),
    "ml_goemotions": (
        UNCASED,
        32,
        6,
        f"{CUSTOM} --train_file=train.tsv --eval_file=dev.tsv --noheader "
        "--label_kind=multi_label --label_column=1 --text_column=0 "
        "--threshold=tune",
    ),
    "ner_wnut17": (
        CASED,
        64,
        6,
        "run_tagging.py --train_file=wnut17train.conll "
        "--eval_file=emerging.dev.conll --nodo_lower_case "
        "--train_batch_size=16",
    ),
    "ner_uner_zh": (
        CHINESE,
        64,
        5,
        "run_tagging.py --train_file=train.txt --eval_file=dev.txt",
    ),
    "mc_swag_layout_codah": (
        UNCASED,
        64,
        2,
        "run_multiple_choice.py --task_name=swag --train_batch_size=16",
    ),
    "mc_arct": (
        UNCASED,
        64,
        4,
        "run_multiple_choice.py --task_name=arct --train_batch_size=16",
    ),
}


def run_one(name, data, folder, seed):
    """Runs one data set; returns its scores and the seconds it took."""
    release, length, epochs, command = RUNS[name]
    vocab = data / "vocab" / release / "vocab.txt"
    config = folder / f"{release}.json"
    config.write_text(
        json.dumps(
            {
                "vocab_size": load_vocab(vocab).line_count,
                "hidden_size": 128,
                "num_hidden_layers": 2,
                "num_attention_heads": 2,
                "intermediate_size": 512,
                "max_position_embeddings": 512,
                "type_vocab_size": 2,
            }
        )
    )
    script, *flags = command.split()
    if name == "ml_goemotions":
        labels = (data / name / "labels.txt").read_text("utf-8").split()
        flags += [f"--labels={','.join(labels)}", "--labels_are_numbers"]
    output = folder / name
    words = [
        script,
        *flags,
        "--do_train",
        "--do_eval",
        f"--data_dir={data / name}",
        f"--vocab_file={vocab}",
        f"--bert_config_file={config}",
        f"--max_seq_length={length}",
        f"--num_train_epochs={epochs}",
        "--learning_rate=3e-4",
        "--eval_batch_size=32",
        f"--random_seed={seed}",
        f"--output_dir={output}",
    ]
    print("python", " ".join(words), file=sys.stderr, flush=True)
    start = time.monotonic()
    subprocess.run(
        [sys.executable, str(ROOT / words[0]), *words[1:]],
        check=True,
        stderr=subprocess.DEVNULL,
    )
    seconds = time.monotonic() - start
    return read_scores(output), seconds


def read_scores(folder):
    """Scores of `eval_results.txt`, and the first of `eval_metrics.json`.

    That is the official one of a classification: of cola, Matthews.
    """
    lines = (folder / "eval_results.txt").read_text().splitlines()
    scores = dict(line.split(" = ") for line in lines)
    report = json.loads((folder / "eval_metrics.json").read_text())
    official = next(k for k, v in report.items() if isinstance(v, float))
    return {f"eval_{official}": report[official], **scores}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--only", nargs="*", default=list(RUNS))
    parser.add_argument("--seed", type=int, default=12345)
    options = parser.parse_args()
    print("| data | length | epochs | steps | scores | seconds |")
    print("| --- | --- | --- | --- | --- | --- |", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.only:
            scores, seconds = run_one(
                name, options.data, pathlib.Path(folder), options.seed
            )
            shown = ", ".join(
                f"{key.removeprefix('eval_')} {float(value):.3f}"
                for key, value in scores.items()
                if key not in ("global_step", "loss", "eval_loss")
            )
            _, length, epochs, _ = RUNS[name]
            print(
                f"| {name} | {length} | {epochs} | {scores['global_step']} "
                f"| {shown} | {seconds:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
