"""`QuestionAnswerer`: the span of a context that answers a question."""

import dataclasses
import os
from typing import Any

from bert_tf.inference.predictor import Encoded, Predictor, split_pair
from bert_tf.inference.results import Result
from bert_tf.tasks.squad_answers import WindowResult, answer_question
from bert_tf.tasks.squad_data import Paragraph, SquadExample, word_pattern
from bert_tf.tasks.squad_settings import STORED, SquadSettings
from bert_tf.tasks.squad_windows import FIRST_UNIQUE_ID


@dataclasses.dataclass(frozen=True)
class Answer(Result):
    """The answer to one question.

    Attributes:
      question: the question.
      context: the text that holds the answer.
      text: the answer; empty for no answer.
      start: its first character in the context; None for no answer.
      end: one past its last character.
      probability: among the best candidates.
      candidates: the best answers with their probabilities, best first.
      null_odds: score of no answer less that of the best one, where no
        answer is possible; else None.
    """

    question: str
    context: str
    text: str
    start: int | None
    end: int | None
    probability: float
    candidates: list[tuple[str, float]]
    null_odds: float | None = None

    def to_dict(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        del values["context"]
        values["candidates"] = [
            {"text": text, "probability": probability}
            for text, probability in self.candidates
        ]
        if self.null_odds is None:
            del values["null_odds"]
        return values

    def to_line(self) -> str:
        return f"{self.text or '(no answer)'}\t{self.probability:.4f}"

    def cells(self) -> dict[str, Any]:
        return {
            "question": self.question,
            "answer": self.text or "(no answer)",
            "probability": self.probability,
            "characters": ""
            if self.start is None
            else f"{self.start} to {self.end}",
            "candidates": dict(self.candidates[:5]),
        }


class QuestionAnswerer(Predictor):
    """Answers questions from a context with a run of `run_squad.py`.

    An input is a tuple (question, context). The context is cut into windows
    as in the runner; windows are not padded to `max_seq_length`, so the last
    candidates of a list may differ from the runner's.

    Args:
      model_dir: the run folder.
      version_2_with_negative: no answer is possible; by default as the run
        was trained, as are the next three.
      doc_stride: distance between windows, in pieces.
      max_query_length: longest question, in pieces; the rest is cut off.
      split_cjk_words: each CJK character counts as a word, so that answers
        in texts without blanks are found.
      null_score_diff_threshold: null odds above which there is no answer; by
        default what the run's evaluation found best, else 0.
      n_best_size: candidates of an answer.
      max_answer_length: longest answer, in pieces.
      **kwargs: see `Predictor`.
    """

    tasks = ("squad",)

    def __init__(
        self,
        model_dir,
        *,
        version_2_with_negative: bool | None = None,
        doc_stride: int | None = None,
        max_query_length: int | None = None,
        split_cjk_words: bool | None = None,
        null_score_diff_threshold: float | None = None,
        n_best_size: int = 20,
        max_answer_length: int = 30,
        **kwargs,
    ):
        self._given = {
            "version_2_with_negative": version_2_with_negative,
            "doc_stride": doc_stride,
            "max_query_length": max_query_length,
            "split_cjk_words": split_cjk_words,
        }
        self._choice = {
            "null_score_diff_threshold": null_score_diff_threshold,
            "n_best_size": n_best_size,
            "max_answer_length": max_answer_length,
        }
        super().__init__(model_dir, **kwargs)

    def _create_model(self):
        from bert_tf.heads import BertForQuestionAnswering
        from bert_tf.tasks.squad import SquadTask

        stored = {k: v for k, v in self.folder.run.items() if k in STORED}
        given = {k: v for k, v in self._given.items() if v is not None}
        self.settings = SquadSettings(
            max_seq_length=self.folder.max_seq_length,
            **self._choice,
            **{**stored, **given},
        )
        task = SquadTask(self.settings)
        task.use_checkpoint(os.path.basename(self.folder.checkpoint))
        threshold = task.threshold_in_force(self.folder.path)
        self._answer_settings = self.settings.answer_settings(threshold)
        return BertForQuestionAnswering(self.folder.config)

    def _select(self, outputs, features):
        return {name: outputs[name] for name in ("start_logits", "end_logits")}

    def _encode(self, item, where):
        question, context = split_pair(item, where)
        if context is None:
            raise ValueError(f"{where}: expected a tuple (question, context)")
        settings = self.settings
        pattern = word_pattern(
            settings.split_cjk_words, settings.split_unicode_blanks
        )
        example = SquadExample("", question, Paragraph(context, pattern))
        # A featurizer remembers every context it has seen: one each.
        featurizer = settings.featurizer(self.tokenizer, is_training=False)
        windows = featurizer.windows(example, 0, FIRST_UNIQUE_ID)
        rows = []
        for window in windows:
            second = len(window.input_ids) - window.doc_offset
            segment_ids = [0] * window.doc_offset + [1] * second
            rows.append(
                {"input_ids": window.input_ids, "segment_ids": segment_ids}
            )
        length = len(self.tokenizer.tokenize_to_ids(question))
        is_cut = length > settings.max_query_length
        return Encoded(rows, is_cut, (example, windows))

    def _result(self, item, encoded, outputs):
        example, windows = encoded.extra
        results = [
            WindowResult(
                window.unique_id,
                *(
                    found[name][: len(window.input_ids)]
                    for name in ("start_logits", "end_logits")
                ),
            )
            for window, found in zip(windows, outputs, strict=True)
        ]
        answer = answer_question(
            example, windows, results, self.tokenizer, self._answer_settings
        )
        best = answer.best
        return Answer(
            example.question_text,
            example.paragraph.context,
            best.text,
            best.start,
            best.end,
            best.probability,
            [(x.text, x.probability) for x in answer.nbest],
            answer.null_odds,
        )
