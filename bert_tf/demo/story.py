"""The demo's steps, each through the library that the scripts use."""

import collections
import json
import logging
import pathlib

from bert_tf import runner
from bert_tf.config import BertConfig
from bert_tf.demo import texts
from bert_tf.demo.pictures import draw_loss
from bert_tf.inference import FillMask
from bert_tf.pretraining_data import create_pretraining_data
from bert_tf.pretraining_settings import PretrainingDataSettings
from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings
from bert_tf.tasks.classification import (
    ClassificationSource,
    ClassificationTask,
)
from bert_tf.tasks.data_sets import custom_data_set
from bert_tf.tasks.pretraining import PretrainingSource, PretrainingTask
from bert_tf.tokenization import FullTokenizer
from bert_tf.tokenization.learning import learn_vocabulary, save_vocabulary

VOCAB_SIZE = 2000
SEQ_LENGTH = 64
PREDICTIONS = 20
BATCH_SIZE = 32
DEV_SHARE = 0.15
BLANKS = (
    "Return the [MASK] of the list.",
    "If the file does not exist, an [MASK] is raised.",
)

_logger = logging.getLogger("bert_tf")


def tell(
    output_dir: str, pretraining_steps: int, per_family: int, seed: int
) -> None:
    """Runs the whole demo and prints what came out.

    Args:
      output_dir: folder that must not hold anything yet.
      pretraining_steps: number of updates on the corpus.
      per_family: labelled sentences of each class.
      seed: of the drawn text, the weights and the order of the data.

    Raises:
      ValueError: the folder holds something already.
    """
    folder = pathlib.Path(output_dir)
    if folder.exists() and any(folder.iterdir()):
        raise ValueError(
            f"--output_dir={folder} is not empty; remove it or name another"
        )
    folder.mkdir(parents=True, exist_ok=True)
    write_texts(folder, per_family, seed)
    config = write_model_files(folder)
    pretrain(folder, config, pretraining_steps, seed)
    accuracies = {
        name: fine_tune(folder, config, name, start, seed)
        for name, start in (
            ("from_pretraining", str(folder / "pretraining")),
            ("from_scratch", None),
        )
    }
    report(folder, accuracies)


def write_texts(folder: pathlib.Path, per_family: int, seed: int) -> None:
    """Writes corpus.txt, train.tsv and dev.tsv."""
    rows = texts.labelled_sentences(per_family, seed)
    dev = int(len(rows) * DEV_SHARE)
    for name, part in (("dev", rows[:dev]), ("train", rows[dev:])):
        with open(folder / f"{name}.tsv", "w", encoding="utf-8") as stream:
            stream.write("family\tsentence\n")
            stream.writelines(f"{label}\t{text}\n" for label, text in part)
    held_out = {text for _, text in rows[:dev]}
    with open(folder / "corpus.txt", "w", encoding="utf-8") as stream:
        for document in texts.corpus_documents():
            # What is to be predicted later must not be read before.
            kept = [s for s in document if s not in held_out]
            stream.write("\n".join(kept) + "\n\n")
    _logger.info("%d labelled sentences and a corpus written", len(rows))


def write_model_files(folder: pathlib.Path) -> BertConfig:
    """Learns vocab.txt and writes bert_config.json."""
    with open(folder / "corpus.txt", encoding="utf-8") as stream:
        pieces = learn_vocabulary(stream, VOCAB_SIZE)
    save_vocabulary(pieces, folder / "vocab.txt")
    config = BertConfig(
        vocab_size=len(pieces),
        hidden_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=512,
        max_position_embeddings=128,
        type_vocab_size=2,
        initializer_range=0.06,
    )
    config.save(folder / "bert_config.json")
    _logger.info("a vocabulary of %d pieces learned", len(pieces))
    return config


def model_settings(
    folder: pathlib.Path, init_checkpoint: str | None
) -> ModelSettings:
    """The demo's model, as flags would describe it."""
    return ModelSettings(
        bert_config_file=str(folder / "bert_config.json"),
        vocab_file=str(folder / "vocab.txt"),
        init_checkpoint=init_checkpoint,
        max_seq_length=SEQ_LENGTH,
    )


def pretrain(
    folder: pathlib.Path, config: BertConfig, steps: int, seed: int
) -> None:
    """Makes masked records of the corpus and trains on them."""
    records = str(folder / "corpus.tf_record")
    create_pretraining_data(
        PretrainingDataSettings(
            input_file=str(folder / "corpus.txt"),
            output_file=records,
            vocab_file=str(folder / "vocab.txt"),
            max_seq_length=SEQ_LENGTH,
            max_predictions_per_seq=PREDICTIONS,
            masked_lm_prob=0.3,
            dupe_factor=2,
            random_seed=seed,
        )
    )
    runner.run(
        lambda _: PretrainingTask(
            SEQ_LENGTH,
            PREDICTIONS,
            source=PretrainingSource([records]),
            use_next_sentence=False,
            position_init="sinusoidal",
        ),
        model_settings(folder, None),
        RunSettings(
            output_dir=str(folder / "pretraining"),
            do_train=True,
            train_batch_size=BATCH_SIZE,
            # What lets so small a model see neighbouring words so soon is in
            # docs/pretraining.md.
            learning_rate=2e-3,
            adam_bias_correction=True,
            num_train_steps=steps,
            num_warmup_steps=steps // 10,
            random_seed=seed,
        ),
        DeviceSettings(),
    )


def fine_tune(
    folder: pathlib.Path,
    config: BertConfig,
    name: str,
    init_checkpoint: str | None,
    seed: int,
) -> float:
    """Trains, evaluates and predicts; returns the accuracy."""
    data = custom_data_set(
        text_a="sentence",
        label="family",
        train_file=str(folder / "train.tsv"),
        dev_file=str(folder / "dev.tsv"),
        test_file=str(folder / "dev.tsv"),
    )
    source = ClassificationSource(data, FullTokenizer(folder / "vocab.txt"))
    scores = runner.run(
        lambda _: ClassificationTask(
            sorted(texts.FAMILIES), SEQ_LENGTH, source=source
        ),
        model_settings(folder, init_checkpoint),
        RunSettings(
            output_dir=str(folder / name),
            do_train=True,
            do_eval=True,
            do_predict=True,
            train_batch_size=BATCH_SIZE,
            eval_batch_size=BATCH_SIZE,
            predict_batch_size=BATCH_SIZE,
            learning_rate=5e-4,
            num_train_epochs=3.0,
            # Layers that look at neighbours are no start for whole sentences.
            reinit_top_layers=config.num_hidden_layers
            if init_checkpoint
            else 0,
            random_seed=seed,
        ),
        DeviceSettings(),
    )
    return float(scores["dev"]["eval_accuracy"])


def report(folder: pathlib.Path, accuracies: dict[str, float]) -> None:
    """Prints accuracies, confusions, samples, blanks; draws the loss."""
    best = folder / "from_pretraining"
    with open(folder / "dev.tsv", encoding="utf-8") as stream:
        rows = [line.rstrip("\n").split("\t") for line in stream][1:]
    counts = collections.Counter(label for label, _ in rows)
    print("\nWhich family of packages does a sentence document?")
    majority = counts.most_common(1)[0][1] / len(rows)
    print(f"  accuracy, always the largest class   {majority:.3f}")
    print(
        f"  accuracy, from scratch               "
        f"{accuracies['from_scratch']:.3f}"
    )
    print(
        f"  accuracy, pre-trained first          "
        f"{accuracies['from_pretraining']:.3f}"
    )
    print_confusion(best / "eval_metrics.json")
    print_samples(best / "predictions.jsonl", rows)
    print("\nFilling in blanks after pre-training:")
    for filled in FillMask(str(folder / "pretraining"), top_k=3)(list(BLANKS)):
        print(f"  {filled.text}\n    {filled.to_line()}")
    picture = folder / "loss.png"
    draw_loss(folder / "pretraining", picture)
    print(f"\nThe loss of the pre-training is drawn in {picture}.")


def print_confusion(path: pathlib.Path) -> None:
    """Prints the confusion matrix, a row for each true label."""
    scores = json.loads(path.read_text("utf-8"))
    labels, matrix = scores["labels"], scores["confusion_matrix"]
    width = max(map(len, labels))
    print("\nRows: the truth; columns: the prediction, in the same order.")
    for label, row in zip(labels, matrix, strict=True):
        print(f"  {label:<{width}} {' '.join(f'{n:4d}' for n in row)}")


def print_samples(path: pathlib.Path, rows: list[list[str]]) -> None:
    """Prints the first three predictions beside the truth."""
    print("\nThree predictions:")
    with open(path, encoding="utf-8") as stream:
        for line, (label, _) in zip(stream, rows[:3], strict=False):
            found = json.loads(line)
            chance = found["probabilities"][found["label"]]
            print(f"  {found['text_a']}")
            print(f"    {found['label']} ({chance:.2f}), truth: {label}")
