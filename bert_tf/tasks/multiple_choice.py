"""Choosing one of a fixed number of texts that fit a context, as in SWAG.

Each choice makes a sequence of its own, `[CLS] context [SEP] choice [SEP]`;
a vector scores the pooled output of each, and a softmax over the scores is
trained (arXiv 1810.04805, section 4.4).

Shape letters: B batch, C choices, S sequence.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import files, losses, metrics
from bert_tf.config import BertConfig
from bert_tf.heads import BertForMultipleChoice
from bert_tf.records import write_records
from bert_tf.run_folder import path_in
from bert_tf.tasks.base import RecordFiles, Split, Task
from bert_tf.tasks.multiple_choice_data import (
    ChoiceExample,
    ChoiceLayout,
    read_choices,
)
from bert_tf.tasks.multiple_choice_features import (
    ChoiceStats,
    feature_spec,
    records,
)
from bert_tf.tasks.prediction_files import (
    PREDICTIONS_FILE,
    RESULTS_FILE,
    write_test_results,
)
from bert_tf.tokenization import FullTokenizer

_LOGGED_EXAMPLES = 3

_logger = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True)
class MultipleChoiceSource:
    """Where the examples of a multiple-choice task come from.

    Attributes:
      tokenizer: text -> ids.
      paths: mode -> file.
      layout: columns of the files.
      names: what the label column calls the choices; None for 0, 1 and so on.
      data_set: its name, for the record.
    """

    tokenizer: FullTokenizer
    paths: Mapping[str, str]
    layout: ChoiceLayout
    names: Sequence[str] | None = None
    data_set: str = "custom"


class MultipleChoiceTask(Task):
    """One of C choices.

    Args:
      num_choices: C.
      max_seq_length: S.
      source: where examples come from; may be left out where only the loss
        is wanted.
    """

    name = "multiple_choice"
    _LOSS = "multiple_choice_loss"

    def __init__(
        self,
        num_choices: int,
        max_seq_length: int,
        source: MultipleChoiceSource | None = None,
    ):
        if num_choices < 2:
            raise ValueError(
                f"--num_choices is {num_choices}, expected at least 2"
            )
        self.num_choices = num_choices
        self.max_seq_length = max_seq_length
        self.source = source

    def create_model(self, config: BertConfig, **kwargs):
        return BertForMultipleChoice(config, **kwargs)

    def head_shapes(self, config: BertConfig):
        return {"output_weights": (1, config.hidden_size)}

    def feature_spec(self, mode: str):
        return feature_spec(self.num_choices, self.max_seq_length)

    def splits(self, mode: str) -> list[Split]:
        return [Split(mode, mode)]

    def examples(self, split: Split) -> Iterator[ChoiceExample]:
        """Reads the examples of a part, in file order."""
        source = self.source
        return read_choices(
            source.paths[split.mode],
            f"{split.mode}_file",
            source.layout,
            self.num_choices,
            source.names,
            with_labels=split.mode != "predict",
        )

    def prepare(self, split: Split, output_dir: str) -> RecordFiles:
        stats = ChoiceStats()
        path = path_in(output_dir, split.record_file)
        count = write_records(
            path,
            self.feature_spec(split.mode),
            records(
                self._logged(split),
                self.max_seq_length,
                self.source.tokenizer,
                stats,
                split.name,
            ),
        )
        stats.log(split.name, self.max_seq_length)
        return RecordFiles([path], count, count)

    def _logged(self, split: Split) -> Iterator[ChoiceExample]:
        for i, example in enumerate(self.examples(split)):
            if i < _LOGGED_EXAMPLES:
                _logger.info(
                    "%s %s: %s | %s -> %s",
                    split.name,
                    example.id,
                    example.context,
                    " | ".join(example.choices),
                    example.label,
                )
            yield example

    @property
    def loss_terms(self):
        return (self._LOSS,)

    def loss_weights(self, features):
        batch = tf.shape(features["input_ids"])[0]
        return {self._LOSS: tf.cast(batch, tf.float32)}

    def loss_sums(self, outputs, features):
        return {self._LOSS: tf.reduce_sum(self._losses(outputs, features))}

    def _losses(self, outputs, features):
        return losses.softmax_cross_entropy(
            outputs["logits"], features["label_ids"]
        )

    def example_outputs(self, outputs, features):
        return {
            "loss": self._losses(outputs, features),
            "probabilities": tf.nn.softmax(outputs["logits"], axis=-1),
            "targets": features["label_ids"],
        }

    def compute_metrics(self, results, batch_size):
        """The same lines as a classifier's: accuracy, and the two losses.

        `loss` is the mean over batches of the mean loss of each batch,
        `eval_loss` the mean over examples.
        """
        loss = results["loss"]
        best = np.argmax(results["probabilities"], axis=1)
        return {
            "eval_accuracy": np.float32(
                metrics.accuracy(results["targets"], best)
            ),
            "eval_loss": np.float32(np.mean(loss, dtype=np.float64)),
            "loss": np.float32(metrics.mean_of_batch_means(loss, batch_size)),
        }

    def write_evaluation(self, split: Split, results, output_dir: str) -> None:
        """Writes `eval_metrics.json`: accuracy, and which choices were right
        and taken."""
        best = np.argmax(results["probabilities"], axis=1)
        report = {
            "part": split.name,
            "accuracy": metrics.accuracy(results["targets"], best),
            "confusion_matrix": metrics.confusion_matrix(
                results["targets"], best, self.num_choices
            ).tolist(),
        }
        path = path_in(output_dir, f"eval_metrics{split.suffix}.json")
        with files.atomic_write(path) as stream:
            json.dump(report, stream, indent=2)
            stream.write("\n")

    def write_predictions(self, split, results, output_dir):
        """Writes the probabilities, and a JSON object for each example."""
        probabilities = results["probabilities"]
        metrics.check_probabilities(probabilities, self.num_choices)
        table = path_in(output_dir, RESULTS_FILE)
        lines = path_in(output_dir, PREDICTIONS_FILE)
        write_test_results(table, probabilities)
        names = self.source.names
        with files.atomic_write(lines) as stream:
            for example, row in zip(
                self.examples(split), probabilities, strict=True
            ):
                best = int(np.argmax(row))
                line = {
                    "id": example.id,
                    "choice": best,
                    **({"label": names[best]} if names else {}),
                    "text": example.choices[best],
                    "probabilities": [float(p) for p in row],
                }
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        return [table, lines]

    def description(self):
        record = {"task": self.name, "num_choices": self.num_choices}
        if self.source is not None:
            record["data_set"] = self.source.data_set
            record["choice_names"] = self.source.names
            record["layout"] = dataclasses.asdict(self.source.layout)
        return record
