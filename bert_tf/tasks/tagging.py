"""A label for each word: named entities, chunks, parts of speech.

The first piece of a word carries its label, the others take no part in the
loss (arXiv 1810.04805, section 5.3).

Shape letters: B batch, S sequence, L labels.
"""

import dataclasses
import itertools
import json
import logging
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import files, losses, metrics
from bert_tf.config import BertConfig
from bert_tf.heads import BertForTokenClassification
from bert_tf.records import write_records
from bert_tf.run_folder import path_in
from bert_tf.tabular import check_file
from bert_tf.tasks import tagging_predictions
from bert_tf.tasks.base import MODES, RecordFiles, Split, Task
from bert_tf.tasks.tagging_data import ColumnLayout, Sentence, read_sentences
from bert_tf.tasks.tagging_entities import (
    OUTSIDE,
    EncodingCheck,
    encoding_of_labels,
    format_table,
    marks_entities,
    score_entities,
)
from bert_tf.tasks.tagging_features import (
    NO_LABEL,
    TaggingFeaturizer,
    TaggingStats,
    feature_spec,
)
from bert_tf.tasks.tagging_predictions import TaggedSentence, tag_sentence

_LOGGED_SENTENCES = 3

_logger = logging.getLogger("bert_tf")


@dataclasses.dataclass(frozen=True)
class TaggingSource:
    """Where the sentences of a tagging task come from.

    Attributes:
      featurizer: words -> windows.
      paths: mode -> file.
      layout: columns of the files.
      encoding: of the training labels, such as IOB1; None if unknown or if
        the labels do not mark entities.
    """

    featurizer: TaggingFeaturizer
    paths: Mapping[str, str]
    layout: ColumnLayout = dataclasses.field(default_factory=ColumnLayout)
    encoding: str | None = None


class TaggingTask(Task):
    """One label of L for each word.

    The loss is the mean over the labelled words of the global batch.

    Args:
      labels: in the order of the output units.
      max_seq_length: S.
      source: where sentences come from; may be left out where only the loss
        is wanted.
    """

    name = "tagging"
    packed_modes = MODES
    token_features = ("input_ids", "input_mask", "segment_ids", "label_ids")
    token_outputs: Mapping[str, float] = {
        "loss": 0.0,
        "probabilities": 0.0,
        "label_ids": NO_LABEL,
    }
    _LOSS = "tagging_loss"

    def __init__(
        self,
        labels: Sequence[str],
        max_seq_length: int,
        source: TaggingSource | None = None,
    ):
        self.labels = list(labels)
        self.max_seq_length = max_seq_length
        self.source = source
        self.with_entities = marks_entities(self.labels)

    def create_model(self, config: BertConfig, **kwargs):
        return BertForTokenClassification(config, len(self.labels), **kwargs)

    def head_shapes(self, config: BertConfig):
        return {"output_weights": (len(self.labels), config.hidden_size)}

    def feature_spec(self, mode: str):
        return feature_spec(self.max_seq_length)

    def splits(self, mode: str) -> list[Split]:
        return [Split(mode, mode)]

    def sentences(self, split: Split) -> Iterator[Sentence]:
        """Reads the sentences of a part, in file order."""
        return read_sentences(
            self.source.paths[split.mode],
            self.source.layout,
            self.labels,
            with_labels=split.mode != "predict",
        )

    def prepare(self, split: Split, output_dir: str) -> RecordFiles:
        check_file(self.source.paths[split.mode], f"{split.mode}_file")
        stats = TaggingStats()
        if self.with_entities and split.mode != "predict":
            stats.encoding = EncodingCheck(self.source.encoding)
        path = path_in(output_dir, split.record_file)
        records = self.source.featurizer.records(
            self._logged(self.sentences(split), split), self.labels, stats
        )
        count = write_records(path, self.feature_spec(split.mode), records)
        stats.log(split.name)
        if not count:
            found = (
                f"none of its {stats.words} words gives a piece"
                if stats.words
                else "it holds no word"
            )
            raise ValueError(f"{self.source.paths[split.mode]}: {found}")
        return RecordFiles([path], count, count)

    def _logged(self, sentences, split: Split):
        for i, sentence in enumerate(sentences):
            if i < _LOGGED_SENTENCES:
                labels = sentence.labels or [""] * len(sentence.words)
                pairs = zip(sentence.words, labels, strict=True)
                shown = " ".join(f"{w}/{k}" if k else w for w, k in pairs)
                _logger.info("%s-%d: %s", split.name, i, shown)
            yield sentence

    @property
    def loss_terms(self):
        return (self._LOSS,)

    def loss_weights(self, features):
        labelled = features["label_ids"] >= 0
        return {self._LOSS: tf.reduce_sum(tf.cast(labelled, tf.float32))}

    def loss_sums(self, outputs, features):
        return {self._LOSS: tf.reduce_sum(self._losses(outputs, features))}

    def _losses(self, outputs, features):
        """[B, S], 0 where there is no label."""
        return losses.softmax_cross_entropy(
            outputs["logits"], features["label_ids"]
        )

    def example_outputs(self, outputs, features):
        return {
            "loss": self._losses(outputs, features),
            "probabilities": tf.nn.softmax(outputs["logits"], axis=-1),
            "label_ids": features["label_ids"],
        }

    def tagged(
        self, split: Split, rows: Iterator[np.ndarray]
    ) -> Iterator[TaggedSentence]:
        """Reads the sentences again and gives each word its probabilities.

        Args:
          split: the part.
          rows: [L] for each word that a window labels, in order.
        """
        for sentence in self.sentences(split):
            found = self.source.featurizer.featurize(sentence.words)
            yield tag_sentence(sentence, found.marks, rows, self.labels)
        assert next(rows, None) is None, "more rows than words"

    def evaluate(self, split, batches, batch_size, output_dir):
        targets, predictions = [], []
        word_losses: list[np.ndarray] = []

        def rows():
            for loss, probabilities in labelled_rows(batches):
                word_losses.append(loss)
                yield from probabilities

        counts = {"sentences": 0, "words": 0, "cut": 0, "no_pieces": 0}
        for tagged in self.tagged(split, rows()):
            targets.append(tagged.sentence.labels)
            predictions.append(tagged.labels)
            counts["sentences"] += 1
            counts["words"] += len(tagged.labels)
            for mark in ("cut", "no_pieces"):
                counts[mark] += tagged.marks.count(mark)
        results = {
            "loss": np.concatenate(word_losses),
            "targets": targets,
            "predictions": predictions,
        }
        self._write_report(split, results, counts, output_dir)
        return self.compute_metrics(results, batch_size)

    def compute_metrics(self, results, batch_size):
        """Scores of whole sentences.

        Args:
          results: `loss` [words that were seen], `targets` and `predictions`:
            a list of labels for each sentence, all its words included.
          batch_size: not used: all scores are over words or entities.

        Returns:
          `eval_loss` (mean over the words seen), `eval_accuracy` (of all
          words), and `eval_precision`, `eval_recall`, `eval_f1` of entities,
          or `eval_macro_f1` of labels that mark none.
        """
        scores = self.scores(results["targets"], results["predictions"])
        names = ["accuracy", "precision", "recall", "f1", "macro_f1"]
        return {
            "eval_loss": np.float32(np.mean(results["loss"], dtype=float)),
            **{
                f"eval_{name}": np.float32(scores[name])
                for name in names
                if name in scores
            },
        }

    def scores(
        self,
        targets: Sequence[Sequence[str]],
        predictions: Sequence[Sequence[str]],
    ) -> dict:
        """Accuracy over words; entities as `score_entities`, or the scores of
        each label where labels mark none, in `types`."""
        names = sorted({*self.labels, OUTSIDE})
        ids = {label: i for i, label in enumerate(names)}
        actual, found = (
            np.array([ids[k] for k in itertools.chain.from_iterable(labels)])
            for labels in (targets, predictions)
        )
        scores = {"accuracy": metrics.accuracy(actual, found)}
        if self.with_entities:
            return {**scores, **score_entities(targets, predictions)}
        scores["macro_f1"] = metrics.macro_f1(actual, found)
        matrix = metrics.confusion_matrix(actual, found, len(names))
        each = metrics.precision_recall_f1(matrix)
        scores["types"] = {
            name: {key: values[i].item() for key, values in each.items()}
            for i, name in enumerate(names)
            if matrix[i].any() or matrix[:, i].any()
        }
        return scores

    def _write_report(self, split, results, counts, output_dir) -> None:
        """Writes `eval_metrics.json` and logs the table of types."""
        targets, predictions = results["targets"], results["predictions"]
        scores = self.scores(targets, predictions)
        rows = dict(scores["types"])
        report = {"part": split.name, **scores, "counts": counts}
        if self.with_entities:
            rows["all"] = scores
            expected = self._check_encoding(targets, None)
            predicted = self._check_encoding(predictions, expected.encoding)
            report["encoding"] = expected.encoding
            counts["inconsistent_labels"] = expected.inconsistent()[0]
            counts["inconsistent_predictions"] = predicted.inconsistent()[0]
        _logger.info("%s:\n%s", split.name, format_table(rows))
        _logger.info("%s: %s", split.name, counts)
        path = path_in(output_dir, f"eval_metrics{split.suffix}.json")
        with files.atomic_write(path) as stream:
            json.dump(report, stream, indent=2, ensure_ascii=False)
            stream.write("\n")

    def _check_encoding(self, sentences, encoding) -> EncodingCheck:
        check = EncodingCheck(encoding or self.source.encoding)
        for labels in sentences:
            check.add(labels)
        return check

    def predict(self, split, batches, output_dir):
        source = self.source
        explained = path_in(output_dir, tagging_predictions.EXPLAINED_FILE)
        labelled = path_in(output_dir, tagging_predictions.LABELLED_FILE)
        rows = (
            row
            for _, probabilities in labelled_rows(batches)
            for row in probabilities
        )
        check = EncodingCheck(
            source.encoding or encoding_of_labels(self.labels)
        )
        words: list[tuple[str, str | None]] = []
        for tagged in tagging_predictions.write_explained(
            explained, self.tagged(split, rows), self.labels, self.with_entities
        ):
            words += zip(tagged.labels, tagged.marks, strict=True)
            if self.with_entities:
                check.add(tagged.labels)
        path = source.paths[split.mode]
        replaces, reason = tagging_predictions.has_label_column(
            path, source.layout, self.labels
        )
        if not replaces:
            _logger.info(
                "%s has no column of labels (%s): the predicted ones are "
                "added as its last column",
                path,
                reason,
            )
        count = tagging_predictions.write_labelled(
            labelled, path, source.layout, words, replaces
        )
        _logger.info(
            "%s: %d words, %d of them not seen by the model; %d predicted "
            "labels do not fit their neighbours",
            labelled,
            count,
            sum(mark is not None for _, mark in words),
            check.inconsistent()[0] if self.with_entities else 0,
        )
        return [labelled, explained]

    def description(self):
        record = {"task": self.name, "labels": self.labels}
        source = self.source
        if source is not None:
            record["encoding"] = source.encoding
            record["long_sentences"] = source.featurizer.long_sentences
            record["window_stride"] = source.featurizer.window_stride
            record.update(dataclasses.asdict(source.layout))
        return record


def labelled_rows(
    batches: Iterator[Mapping[str, np.ndarray]],
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Picks the words' rows out of what `example_outputs` gives.

    Yields:
      For each batch the losses [words] and probabilities [words, L].
    """
    for batch in batches:
        labelled = batch["label_ids"] >= 0
        yield batch["loss"][labelled], batch["probabilities"][labelled]
