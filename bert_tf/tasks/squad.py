"""Answers as spans of a context, as in SQuAD.

Shape letters: B batch, S sequence.
"""

import dataclasses
import json
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_tf import files, losses
from bert_tf.config import BertConfig
from bert_tf.heads import BertForQuestionAnswering
from bert_tf.records import write_records
from bert_tf.run_folder import path_in
from bert_tf.tasks.base import (
    MODES,
    RecordFiles,
    Split,
    Task,
    count_examples,
    sum_over_examples,
)
from bert_tf.tasks.found_values import read_found, write_found
from bert_tf.tasks.squad_answers import (
    QuestionAnswer,
    WindowResult,
    answer_questions,
    with_threshold,
)
from bert_tf.tasks.squad_data import SkippedExample, SquadExample
from bert_tf.tasks.squad_predictions import AnswerStore, AnswerWriter
from bert_tf.tasks.squad_scoring import score_version_1, score_version_2
from bert_tf.tasks.squad_settings import SquadSettings
from bert_tf.tasks.squad_windows import SquadFeaturizer, feature_spec
from bert_tf.tokenization import FullTokenizer

DROPPED_FILE = "dropped_examples.jsonl"
THRESHOLD_FILE = "null_threshold.json"
# The original shuffles the questions so, whatever the run's seed.
_ORDER_SEED = 12345
_LOGGED_WINDOWS = 5
_PROGRESS_LINE_EVERY = 10_000

_logger = logging.getLogger("bert_tf")


class SquadTask(Task):
    """A start and an end in each window of a context.

    Args:
      settings: files, windows, choice of answers.
      tokenizer: text -> ids; may be left out where only the loss is wanted.
    """

    name = "squad"
    packed_modes = MODES
    position_features = ("start_positions", "end_positions")
    token_outputs = dict.fromkeys(
        ("start_logits", "end_logits"), losses.OUTSIDE_LOGIT
    )
    _LOSS = "span_loss"

    def __init__(
        self, settings: SquadSettings, tokenizer: FullTokenizer | None = None
    ):
        self.settings = settings
        self.tokenizer = tokenizer
        self._examples: dict[str, list[SquadExample]] = {}
        self._records: dict[str, RecordFiles] = {}
        self._featurizers: dict[str, SquadFeaturizer] = {}
        self._scored: dict[str, AnswerStore] = {}

    # Model and loss -----------------------------------------------------

    def create_model(self, config: BertConfig, **kwargs):
        return BertForQuestionAnswering(config, **kwargs)

    def head_shapes(self, config: BertConfig):
        return {"cls/squad/output_weights": (2, config.hidden_size)}

    def feature_spec(self, mode: str):
        return feature_spec(self.settings.max_seq_length, mode == "train")

    @property
    def loss_terms(self):
        return (self._LOSS,)

    def loss_weights(self, features):
        return {self._LOSS: count_examples(features)}

    def loss_sums(self, outputs, features):
        """Over all S positions as in the original; in packed rows (logits
        [B, S], positions [B * M]) over the window's own pieces, for it has no
        padding."""
        logits = [outputs["start_logits"], outputs["end_logits"]]
        if "sequence_ids" in features:
            ids = features["sequence_ids"]
            places = features["sequence_starts"].shape[1]
            logits = [losses.logits_by_sequence(x, ids, places) for x in logits]
        loss = losses.span_cross_entropy(
            *logits, features["start_positions"], features["end_positions"]
        )
        return {self._LOSS: sum_over_examples(loss, features)}

    def example_outputs(self, outputs, features):
        results = {"unique_ids": features["unique_ids"]}
        for name in ("start_logits", "end_logits"):
            logits = tf.cast(outputs[name], tf.float32)
            if self.settings.pack_sequences:
                # Such a model has never been told to keep off the padding.
                is_piece = features["input_mask"] > 0
                logits = tf.where(is_piece, logits, losses.OUTSIDE_LOGIT)
            results[name] = logits
        return results

    # Data ---------------------------------------------------------------

    def splits(self, mode: str) -> list[Split]:
        return [Split(mode, self.settings.file_of(mode))]

    def prepare(self, split: Split, output_dir: str) -> RecordFiles:
        """Writes the windows of a file.

        `train.tf_record` and `eval.tf_record` (of what is predicted) are
        those of the original; `scored.tf_record` is that of --eval_file
        where it is another file.
        """
        if split.mode == "train":
            return self._prepare_training(split, output_dir)
        path = split.name
        if path not in self._records:
            self._examples[path], _ = self.settings.read(split.mode)
            # It counts windows from the first: each file needs its own.
            self._featurizers[path] = self.settings.featurizer(
                self.tokenizer, False
            )
            also_predicted = self.settings.predict_file in (None, path)
            is_main = split.mode == "predict" or also_predicted
            name = "eval.tf_record" if is_main else "scored.tf_record"
            self._records[path] = self._write_windows(
                self._examples[path],
                self._featurizers[path],
                path_in(output_dir, name),
            )
        if split.mode == "eval":
            self._check_scorable(path)
        return self._records[path]

    def _check_scorable(self, path: str) -> None:
        answers = [e.answers for e in self._examples[path]]
        if not self.settings.version_2_with_negative:
            answers = [found or None for found in answers]
        if all(found is None for found in answers):
            raise ValueError(
                f"--do_eval: no question of {path} has answers to score against"
            )

    def _prepare_training(self, split: Split, output_dir: str) -> RecordFiles:
        examples, report = self.settings.read("train")
        random.Random(_ORDER_SEED).shuffle(examples)
        featurizer = self.settings.featurizer(self.tokenizer, True)
        records = self._write_windows(
            examples, featurizer, path_in(output_dir, split.record_file)
        )
        dropped = report.dropped + [
            SkippedExample(qas_id, "context without tokens")
            for qas_id in featurizer.without_window
        ]
        self._list_dropped(dropped, output_dir)
        if not records.num_records:
            raise ValueError(
                f"--train_file={split.name}: nothing to train on, "
                f"{len(dropped)} of {report.num_questions} questions are "
                f"dropped (see {path_in(output_dir, DROPPED_FILE)})"
            )
        _logger.info(
            "one epoch is %d questions or %d windows; steps are counted by "
            "%s (--count_steps_by)",
            records.num_examples,
            records.num_records,
            self.settings.count_steps_by,
        )
        if self.settings.count_steps_by == "windows":
            return dataclasses.replace(
                records, num_examples=records.num_records
            )
        return records

    def _list_dropped(
        self, dropped: Sequence[SkippedExample], output_dir: str
    ) -> None:
        path = path_in(output_dir, DROPPED_FILE)
        with files.atomic_write(path) as stream:
            for skipped in dropped:
                line = {
                    "id": skipped.qas_id,
                    "reason": skipped.reason,
                    "detail": skipped.detail,
                }
                stream.write(json.dumps(line, ensure_ascii=False) + "\n")
        if dropped:
            _logger.warning(
                "%d questions dropped, listed with reasons in %s",
                len(dropped),
                path,
            )

    def _write_windows(
        self,
        examples: Sequence[SquadExample],
        featurizer: SquadFeaturizer,
        path: str,
    ) -> RecordFiles:
        count = write_records(
            path,
            feature_spec(featurizer.max_seq_length, featurizer.is_training),
            self._window_records(examples, featurizer),
        )
        return RecordFiles([path], count, len(examples))

    def _window_records(
        self, examples: Sequence[SquadExample], featurizer: SquadFeaturizer
    ) -> Iterator[Mapping[str, Any]]:
        for number, window in enumerate(featurizer.stream(examples), 1):
            if number <= _LOGGED_WINDOWS:
                _logger.info(
                    "%s: %s -> %s to %s",
                    examples[window.example_index].qas_id,
                    " ".join(
                        self.tokenizer.convert_ids_to_tokens(window.input_ids)
                    ),
                    window.start_position,
                    window.end_position,
                )
            if number % _PROGRESS_LINE_EVERY == 0:
                _logger.info(
                    "%d windows, question %d of %d",
                    number,
                    window.example_index + 1,
                    len(examples),
                )
            yield window.record(self.settings.max_seq_length)

    # Answers ------------------------------------------------------------

    def _answers(
        self,
        split: Split,
        batches: Iterator[Mapping[str, np.ndarray]],
        threshold: float,
    ) -> Iterator[QuestionAnswer]:
        """Answers as the batches come; holds one question's logits."""
        return answer_questions(
            self._examples[split.name],
            self._featurizers[split.name],
            _window_results(batches),
            self.settings.answer_settings(threshold),
        )

    def compute_metrics(self, results, batch_size):
        raise NotImplementedError("evaluate() scores answers as they come")

    def evaluate(self, split, batches, batch_size, output_dir):
        """Scores answers; in version 2, stores the best null threshold.

        Returns:
          `exact_match` and `f1`, or in version 2 the scores of
          `score_version_2` and the threshold that `exact` and `f1` hold for.
        """
        settings = self.settings
        threshold = settings.null_score_diff_threshold or 0.0
        texts, odds, best_texts = {}, {}, {}
        store = self._scored[split.name] = AnswerStore()
        for answer in self._answers(split, batches, threshold):
            texts[answer.qas_id] = answer.best.text
            odds[answer.qas_id] = answer.null_odds
            best_texts[answer.qas_id] = answer.best_text
            store.add(answer)
        gold = {e.qas_id: e.answers for e in self._examples[split.name]}
        if not settings.version_2_with_negative:
            return score_version_1(gold, texts, settings.split_cjk_words)
        scores = score_version_2(
            gold, texts, odds, best_texts, settings.split_cjk_words
        )
        self._store_threshold(scores, split, output_dir)
        return {**scores, "null_score_diff_threshold": threshold}

    def predict(self, split, batches, output_dir):
        """Writes the original's files and one with character offsets."""
        threshold = self.threshold_in_force(output_dir)
        if split.name in self._scored:
            # The evaluation has answered this file: the model rests.
            answers = (
                with_threshold(answer, threshold)
                for answer in self._scored[split.name]
            )
        else:
            answers = self._answers(split, batches, threshold)
        is_version_2 = self.settings.version_2_with_negative
        with AnswerWriter(output_dir, is_version_2) as writer:
            for answer in answers:
                writer.write(answer)
        return writer.paths

    # Null threshold -----------------------------------------------------

    def _store_threshold(
        self, scores: Mapping[str, float], split: Split, output_dir: str
    ) -> None:
        values = {
            "null_score_diff_threshold": scores["best_f1_thresh"],
            "best_f1": scores["best_f1"],
            "eval_file": split.name,
        }
        write_found(output_dir, THRESHOLD_FILE, values, self.checkpoint)

    def threshold_in_force(self, output_dir: str) -> float:
        """Given, or found best for this very checkpoint, or 0."""
        given = self.settings.null_score_diff_threshold
        if not self.settings.version_2_with_negative or given is not None:
            return given or 0.0
        record = read_found(
            output_dir,
            THRESHOLD_FILE,
            self.checkpoint,
            "null_score_diff_threshold is 0 (--do_eval finds the best one)",
        )
        if record is None:
            return 0.0
        path = path_in(output_dir, THRESHOLD_FILE)
        try:
            value = float(record["null_score_diff_threshold"])
            part = record["eval_file"]
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"{path}: expected null_score_diff_threshold and eval_file, "
                f"found something else ({error!r})"
            ) from None
        _logger.info(
            "null_score_diff_threshold is %g, the best on %s (%s)",
            value,
            part,
            path,
        )
        return value

    def description(self):
        return {"task": self.name, **self.settings.description()}


def _window_results(
    batches: Iterator[Mapping[str, np.ndarray]],
) -> Iterator[WindowResult]:
    for batch in batches:
        starts, ends = batch["start_logits"], batch["end_logits"]
        if not (np.isfinite(starts).all() and np.isfinite(ends).all()):
            raise ValueError(
                "the model gives numbers that are not finite: the checkpoint "
                "is broken, its training may have diverged"
            )
        for unique_id, start, end in zip(
            batch["unique_ids"], starts, ends, strict=True
        ):
            yield WindowResult(int(unique_id), start, end)
