"""Classification, regression or multi-label on a text or a pair of texts.

Shape letters: B batch, S sequence, L labels.
"""

import dataclasses
import json
import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import files, losses, metrics
from bert_tf.config import BertConfig
from bert_tf.heads import BertForSequenceClassification
from bert_tf.records import write_records
from bert_tf.run_folder import path_in
from bert_tf.tasks import prediction_files
from bert_tf.tasks.base import (
    MODES,
    RecordFiles,
    Split,
    Task,
    count_examples,
    sum_over_examples,
)
from bert_tf.tasks.classification_data import (
    ALL_LANGUAGES,
    Example,
    find_languages,
    read_split,
)
from bert_tf.tasks.classification_features import (
    FeaturizeStats,
    feature_spec,
    featurize,
)
from bert_tf.tasks.classification_thresholds import (
    DEFAULT,
    TUNE,
    read_thresholds,
    write_thresholds,
)
from bert_tf.tasks.data_sets import DataSet
from bert_tf.tasks.glue_submission import write_glue_submission
from bert_tf.tokenization import FullTokenizer

_PARTS = {"train": "train", "eval": "dev", "predict": "test"}
# All that the original writes to `eval_results.txt`.
_ORIGINAL_RESULTS = ("eval_accuracy", "eval_loss", "global_step", "loss")
_LOGGED_EXAMPLES = 5
_PROGRESS_LINE_EVERY = 10_000

_logger = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True)
class ClassificationSource:
    """Where the examples of a classification task come from.

    Attributes:
      data_set: files, columns, label rules and scores.
      tokenizer: text -> ids.
      data_dir: folder of the files.
      train_language: language of the training file, where there are several.
      eval_languages: languages to evaluate and predict, each on its own;
        empty for the training language; one of them `"all"` for each that
        the file holds.
      on_bad_row: `"error"` or `"skip"`.
      glue_submission: also write the files that the GLUE site takes.
    """

    data_set: DataSet
    tokenizer: FullTokenizer
    data_dir: str | None = None
    train_language: str = "zh"
    eval_languages: Sequence[str] = ()
    on_bad_row: str = "error"
    glue_submission: bool = False


class ClassificationTask(Task):
    """One label of L for each example, a number, or several labels.

    Args:
      labels: in the order of the output units; None for regression.
      max_seq_length: S.
      kind: `"classification"`, `"regression"` or `"multi_label"`.
      source: where examples come from; may be left out where only the loss
        is wanted.
      threshold: of multi-label, the probability from which a label counts;
        `"tune"` finds the best for each label in the evaluation and stores
        them; None takes those stored for the checkpoint, 0.5 without them.
    """

    name = "classification"
    packed_modes = MODES
    _LOSS = "classification_loss"

    def __init__(
        self,
        labels: Sequence[str] | None,
        max_seq_length: int,
        kind: str = "classification",
        source: ClassificationSource | None = None,
        threshold: float | str | None = None,
    ):
        self.labels = list(labels) if labels is not None else None
        self.max_seq_length = max_seq_length
        self.kind = kind
        self.source = source
        self.threshold = threshold
        scores = self._own_score_names()
        if kind == "classification":
            self.result_names = _ORIGINAL_RESULTS
            scores = ("accuracy", *scores)
        self.score_names = tuple(
            dict.fromkeys(("eval_loss", "loss", *(f"eval_{x}" for x in scores)))
        )

    def _own_score_names(self) -> tuple[str, ...]:
        if self.kind == "multi_label":
            names = metrics.MULTI_LABEL_SCORES
            tuned = [f"tuned_{name}" for name in names]
            return (*names, *(tuned if self.threshold == TUNE else ()))
        return self.source.data_set.metrics if self.source else ()

    @property
    def num_outputs(self) -> int:
        """Output units of the head: L, or 1 for a number."""
        return len(self.labels) if self.labels else 1

    def create_model(self, config: BertConfig, **kwargs):
        return BertForSequenceClassification(config, self.num_outputs, **kwargs)

    def head_shapes(self, config: BertConfig):
        return {"output_weights": (self.num_outputs, config.hidden_size)}

    def feature_spec(self, mode: str):
        return feature_spec(self.max_seq_length, self.kind, self.num_outputs)

    def splits(self, mode: str) -> list[Split]:
        """The official file first; others, such as MNLI's mismatched part,
        where they exist."""
        source = self.source
        names = source.data_set.splits_of(_PARTS[mode])
        if not names:
            raise ValueError(
                f"data set {source.data_set.name} has no {_PARTS[mode]} part "
                f"for --do_{mode}"
            )
        if mode == "train":
            return [Split(mode, names[0])]
        if source.eval_languages:
            languages = source.eval_languages
            if ALL_LANGUAGES in languages:
                languages = find_languages(
                    source.data_set,
                    names[0],
                    source.data_dir,
                    source.on_bad_row,
                )
            return [
                Split(mode, f"{names[0]}:{language}", f"_{language}")
                for language in languages
            ]
        splits = [Split(mode, names[0])]
        for name in names[1:]:
            path = source.data_set.split(name).path(source.data_dir)
            if files.exists(path):
                splits.append(Split(mode, name, f"_{name}"))
            else:
                _logger.info("%s is not there: no %s", path, name)
        return splits

    def examples(self, split: Split) -> Iterator[Example]:
        """Reads the examples of a part, in file order."""
        source = self.source
        name, _, language = split.name.partition(":")
        return read_split(
            source.data_set,
            name,
            source.data_dir,
            self.labels,
            with_labels=split.mode != "predict",
            language=language or source.train_language,
            on_bad_row=source.on_bad_row,
        )

    def prepare(self, split: Split, output_dir: str) -> RecordFiles:
        path = path_in(output_dir, split.record_file)
        stats = FeaturizeStats()
        count = write_records(
            path,
            self.feature_spec(split.mode),
            self._features(split, stats),
        )
        if not count:
            raise ValueError(f"{split.name}: the file has no data row")
        _logger.info("%s: %s", split.name, stats.summary(self.max_seq_length))
        return RecordFiles([path], count, count)

    def _features(self, split: Split, stats: FeaturizeStats):
        for i, example in enumerate(self.examples(split)):
            features = featurize(
                example,
                self.labels,
                self.max_seq_length,
                self.source.tokenizer,
                self.kind,
                stats,
            )
            if i < _LOGGED_EXAMPLES:
                self._log_example(example, features)
            if i and i % _PROGRESS_LINE_EVERY == 0:
                _logger.info("%s: %d examples", split.name, i)
            yield features

    def _log_example(self, example: Example, features: Mapping) -> None:
        length = sum(features["input_mask"])
        pieces = self.source.tokenizer.convert_ids_to_tokens(
            features["input_ids"][:length]
        )
        _logger.info(
            "%s: %s -> %s", example.guid, " ".join(pieces), example.label
        )

    @property
    def loss_terms(self):
        return (self._LOSS,)

    def loss_weights(self, features):
        return {self._LOSS: count_examples(features)}

    def loss_sums(self, outputs, features):
        loss = self._losses(outputs, features)
        return {self._LOSS: sum_over_examples(loss, features)}

    def _losses(self, outputs, features):
        logits = outputs["logits"]
        if self.kind == "classification":
            return losses.softmax_cross_entropy(logits, features["label_ids"])
        values = features["label_values"]
        if self.kind == "regression":
            return tf.square(logits[:, 0] - values)
        return losses.sigmoid_cross_entropy(logits, values)

    def example_outputs(self, outputs, features):
        logits = outputs["logits"]
        results = {"loss": self._losses(outputs, features)}
        if self.kind == "classification":
            results["probabilities"] = tf.nn.softmax(logits, axis=-1)
            results["targets"] = features["label_ids"]
        else:
            results["targets"] = features["label_values"]
            results["probabilities"] = (
                logits[:, 0]
                if self.kind == "regression"
                else tf.nn.sigmoid(logits)
            )
        return results

    def compute_metrics(self, results, batch_size):
        """The original's scores, and the data set's own beside.

        `loss` is the mean over batches of the mean loss of each batch,
        `eval_loss` the mean over examples.
        """
        loss = results["loss"]
        found = {
            "eval_loss": np.float32(np.mean(loss, dtype=np.float64)),
            "loss": np.float32(metrics.mean_of_batch_means(loss, batch_size)),
        }
        if self.kind == "classification":
            best = np.argmax(results["probabilities"], axis=1)
            accuracy = metrics.accuracy(results["targets"], best)
            found["eval_accuracy"] = np.float32(accuracy)
        found.update(
            (f"eval_{name}", np.float32(value))
            for name, value in self.scores(results).items()
        )
        return found

    def scores(self, results) -> dict[str, float]:
        """The data set's own scores, the official one first.

        With `"tune"` those of multi-label come twice: at 0.5, and, named
        `tuned_...`, at the best threshold of each label.
        """
        targets, outputs = results["targets"], results["probabilities"]
        if self.kind == "multi_label":
            return self._multi_label_scores(targets, outputs)
        if self.kind == "classification":
            outputs = np.argmax(outputs, axis=1)
        return metrics.compute_scores(self._own_score_names(), targets, outputs)

    def _multi_label_scores(self, targets, outputs) -> dict[str, float]:
        if self.threshold != TUNE:
            fixed = DEFAULT if self.threshold is None else self.threshold
            return metrics.multi_label_scores(targets, outputs, fixed)
        scores = metrics.multi_label_scores(targets, outputs, DEFAULT)
        best = metrics.best_thresholds(targets, outputs)
        tuned = metrics.multi_label_scores(targets, outputs, best)
        return {**scores, **{f"tuned_{k}": v for k, v in tuned.items()}}

    def write_evaluation(self, split: Split, results, output_dir: str) -> None:
        """Writes `eval_metrics.json`: own scores and the confusion matrix.

        With `"tune"` it also stores the best threshold of each label.
        """
        if self.threshold == TUNE:
            path = write_thresholds(
                output_dir,
                self.labels,
                metrics.best_thresholds(
                    results["targets"], results["probabilities"]
                ),
                split.name,
                self.checkpoint,
            )
            _logger.info("%s: thresholds of the labels in %s", split.name, path)
        report: dict = {"part": split.name, **self.scores(results)}
        if self.kind == "classification":
            best = np.argmax(results["probabilities"], axis=1)
            report["labels"] = self.labels
            report["confusion_matrix"] = metrics.confusion_matrix(
                results["targets"], best, len(self.labels)
            ).tolist()
        path = path_in(output_dir, f"eval_metrics{split.suffix}.json")
        with files.atomic_write(path) as stream:
            json.dump(report, stream, indent=2, ensure_ascii=False)
            stream.write("\n")

    def write_predictions(self, split, results, output_dir):
        outputs = results["probabilities"]
        table = path_in(output_dir, f"test_results{split.suffix}.tsv")
        lines = path_in(output_dir, f"predictions{split.suffix}.jsonl")
        examples = self.examples(split)
        prediction_files.write_test_results(table, outputs)
        if self.kind == "classification":
            prediction_files.write_predictions(
                lines, examples, outputs, self.labels
            )
        elif self.kind == "multi_label":
            prediction_files.write_multi_label_predictions(
                lines,
                examples,
                outputs,
                self.labels,
                self._thresholds_in_force(output_dir),
            )
        else:
            prediction_files.write_regression_predictions(
                lines, examples, outputs
            )
        written = [table, lines]
        if self.source.glue_submission:
            best = (
                outputs
                if self.kind == "regression"
                else np.argmax(outputs, axis=1)
            )
            ids = [example.id for example in self.examples(split)]
            folder = path_in(output_dir, "glue_submission")
            written.append(
                write_glue_submission(
                    self.source.data_set, split.name, ids, best, folder
                )
            )
        return written

    def _thresholds_in_force(self, output_dir: str) -> float | list[float]:
        """Given, or found best for this very checkpoint, or 0.5."""
        if isinstance(self.threshold, float):
            return self.threshold
        stored = read_thresholds(output_dir, self.labels, self.checkpoint)
        return DEFAULT if stored is None else stored

    def description(self):
        record = {"task": self.name, "kind": self.kind, "labels": self.labels}
        if self.source is not None:
            record["data_set"] = self.source.data_set.name
        return record
