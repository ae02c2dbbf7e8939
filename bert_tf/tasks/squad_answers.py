"""SQuAD logits -> answer texts, n-best lists and null odds.

The choice of spans and the mapping back to the context are those of
google-research/bert `run_squad.py`, number for number; character offsets come
on top. Results are consumed as a stream, a question at a time.
Shape letters: S sequence length.
"""

import dataclasses
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from bert_tf.tasks.squad_alignment import SpanTexts
from bert_tf.tasks.squad_data import SquadExample
from bert_tf.tasks.squad_windows import (
    FIRST_UNIQUE_ID,
    SquadFeaturizer,
    SquadWindow,
)

# What version 1 answers where no span qualifies, as the original.
NO_SPAN = "empty"


class WindowResult(NamedTuple):
    """Model outputs for one window.

    Attributes:
      unique_id: the window's number.
      start_logits: float [S].
      end_logits: float [S].
    """

    unique_id: int
    start_logits: np.ndarray
    end_logits: np.ndarray


@dataclasses.dataclass(frozen=True)
class AnswerSettings:
    """How answers are chosen.

    Attributes:
      n_best_size: start and end candidates a window, and entries a list.
      max_answer_length: longest answer, in pieces.
      version_2_with_negative: "" is a possible answer.
      null_score_diff_threshold: null odds above which "" is the answer.
      verbose_logging: log every span that cannot be mapped back exactly.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0
    verbose_logging: bool = False

    def __post_init__(self):
        for name in ("n_best_size", "max_answer_length"):
            if getattr(self, name) < 1:
                raise ValueError(
                    f"{name} is {getattr(self, name)}, expected 1 or more"
                )


@dataclasses.dataclass
class NbestEntry:
    """One candidate answer.

    Attributes:
      text: the answer, "" for none.
      start_logit: logit of its first piece.
      end_logit: logit of its last piece.
      probability: softmax of the logits' sums over the list.
      start: first character in the context; None where there is no span.
      end: one past the last character.
    """

    text: str
    start_logit: float
    end_logit: float
    probability: float = 0.0
    start: int | None = None
    end: int | None = None


@dataclasses.dataclass
class QuestionAnswer:
    """All that is predicted for one question.

    Attributes:
      qas_id: the question's id.
      best: the entry answered with.
      nbest: all entries, best score first; never empty.
      null_odds: score of no answer less that of the best answer; None in
        version 1.
      best_text: the best answer if there had to be one, "" if none qualifies.
    """

    qas_id: str
    best: NbestEntry
    nbest: list[NbestEntry]
    null_odds: float | None
    best_text: str


class _Candidates(NamedTuple):
    """Spans of one question: arrays of one length, in the original's order."""

    windows: np.ndarray
    starts: np.ndarray
    ends: np.ndarray
    start_logits: np.ndarray
    end_logits: np.ndarray


def best_indexes(logits: np.ndarray, n_best_size: int) -> np.ndarray:
    """Positions of the largest logits, largest first, ties by position."""
    return np.argsort(-logits, kind="stable")[:n_best_size]


def softmax(scores: Sequence[float]) -> list[float]:
    """Softmax in float64."""
    if not scores:
        return []
    largest = max(scores)
    exps = [math.exp(score - largest) for score in scores]
    total = sum(exps)
    return [value / total for value in exps]


def _window_candidates(
    window: SquadWindow,
    start_logits: np.ndarray,
    end_logits: np.ndarray,
    settings: AnswerSettings,
) -> tuple[np.ndarray, np.ndarray]:
    """Starts and ends of the valid spans of one window."""
    first = window.doc_offset
    stop = first + len(window.words)
    starts = best_indexes(start_logits, settings.n_best_size)
    ends = best_indexes(end_logits, settings.n_best_size)
    starts = starts[(starts >= first) & (starts < stop)]
    # Only the start has to have the maximum context.
    starts = starts[window.is_max_context[starts - first]]
    ends = ends[(ends >= first) & (ends < stop)]
    lengths = ends[None, :] - starts[:, None] + 1
    at_start, at_end = np.nonzero(
        (lengths > 0) & (lengths <= settings.max_answer_length)
    )
    return starts[at_start], ends[at_end]


def _candidates(
    windows: Sequence[SquadWindow],
    results: Sequence[WindowResult],
    settings: AnswerSettings,
) -> tuple[_Candidates, tuple[float, float] | None]:
    """All valid spans, and the null logits of the window least for null."""
    parts = []
    null_logits = None
    for index, (window, result) in enumerate(
        zip(windows, results, strict=True)
    ):
        start_logits = np.asarray(result.start_logits, np.float64)
        end_logits = np.asarray(result.end_logits, np.float64)
        null = float(start_logits[0]), float(end_logits[0])
        if null_logits is None or sum(null) < sum(null_logits):
            null_logits = null
        starts, ends = _window_candidates(
            window, start_logits, end_logits, settings
        )
        parts.append(
            _Candidates(
                np.full(len(starts), index),
                starts,
                ends,
                start_logits[starts],
                end_logits[ends],
            )
        )
    if not parts:
        return _Candidates(*[np.zeros(0)] * 5), None
    return _Candidates(*map(np.concatenate, zip(*parts, strict=True))), (
        null_logits
    )


def answer_question(
    example: SquadExample,
    windows: Sequence[SquadWindow],
    results: Sequence[WindowResult],
    tokenizer,
    settings: AnswerSettings,
) -> QuestionAnswer:
    """Chooses the answer of one question.

    Args:
      example: the question.
      windows: its windows.
      results: their outputs, in the same order.
      tokenizer: the `FullTokenizer` that made the windows.
      settings: how to choose.

    Returns:
      The answer; an entry is there even where no span qualifies.
    """
    found, null_logits = _candidates(windows, results, settings)
    null = NbestEntry("", *(null_logits or (0.0, 0.0)))
    texts = SpanTexts(example.paragraph, tokenizer, settings.verbose_logging)
    nbest = _nbest_entries(found, null, windows, texts, settings)
    return _choose(example.qas_id, nbest, null, settings)


def _nbest_entries(
    found: _Candidates,
    null: NbestEntry,
    windows: Sequence[SquadWindow],
    texts: SpanTexts,
    settings: AnswerSettings,
) -> list[NbestEntry]:
    """The best spans with different texts, best first."""
    scores = found.start_logits + found.end_logits
    order = np.argsort(-scores, kind="stable").tolist()
    if settings.version_2_with_negative:
        # No answer is one candidate, behind all spans that score the same.
        null_score = null.start_logit + null.end_logit
        order.insert(int(np.sum(scores >= null_score)), None)
    seen = set()
    nbest = []
    for index in order:
        if len(nbest) >= settings.n_best_size:
            break
        if index is None:
            nbest.append(null)
            continue
        text, first_word, position = texts.resolve(
            windows[found.windows[index]],
            int(found.starts[index]),
            int(found.ends[index]),
        )
        if text in seen:
            continue
        seen.add(text)
        entry = NbestEntry(
            text,
            float(found.start_logits[index]),
            float(found.end_logits[index]),
        )
        entry.start, entry.end = texts.characters(text, first_word, position)
        nbest.append(entry)
    if settings.version_2_with_negative and null not in nbest:
        nbest.append(null)
    return nbest or [NbestEntry(NO_SPAN, 0.0, 0.0)]


def _choose(
    qas_id: str,
    nbest: list[NbestEntry],
    null: NbestEntry,
    settings: AnswerSettings,
) -> QuestionAnswer:
    """Probabilities, null odds and the final choice."""
    probabilities = softmax([e.start_logit + e.end_logit for e in nbest])
    for entry, probability in zip(nbest, probabilities, strict=True):
        entry.probability = probability
    if not settings.version_2_with_negative:
        return QuestionAnswer(qas_id, nbest[0], nbest, None, nbest[0].text)
    odds = null.start_logit + null.end_logit
    best = next((entry for entry in nbest if entry.text), None)
    if best is None:  # the original stops here
        return QuestionAnswer(qas_id, null, nbest, odds, "")
    odds = odds - best.start_logit - best.end_logit
    return with_threshold(
        QuestionAnswer(qas_id, best, nbest, odds, best.text),
        settings.null_score_diff_threshold,
    )


def with_threshold(answer: QuestionAnswer, threshold: float) -> QuestionAnswer:
    """The same candidates, chosen from by another null threshold.

    Args:
      answer: a question's answer; unchanged in version 1.
      threshold: null odds above which "" is the answer.

    Returns:
      The answer with another `best`.
    """
    if answer.null_odds is None or not answer.best_text:
        return answer
    is_null = answer.null_odds > threshold
    best = next(entry for entry in answer.nbest if bool(entry.text) != is_null)
    return dataclasses.replace(answer, best=best)


def answer_questions(
    examples: Iterable[SquadExample],
    featurizer: SquadFeaturizer,
    results: Iterable[WindowResult],
    settings: AnswerSettings,
) -> Iterator[QuestionAnswer]:
    """Answers questions from a stream of results.

    Windows are made anew, so that neither they nor the logits of more than
    one question are held.

    Args:
      examples: the questions, in the order in which they were featurized.
      featurizer: one that makes the same windows.
      results: one result a window, `unique_id` ascending.
      settings: how to choose.

    Yields:
      One answer a question, in order.

    Raises:
      ValueError: at the end, if windows have no result; says how many. A
        result that belongs to no window, or comes out of order.
    """
    stream = iter(results)
    pending = next(stream, None)
    unique_id = FIRST_UNIQUE_ID
    missing = []
    for index, example in enumerate(examples):
        windows = featurizer.windows(example, index, unique_id)
        own = []
        for window in windows:
            if pending is not None and pending.unique_id < window.unique_id:
                raise ValueError(
                    f"result {pending.unique_id} came where "
                    f"{window.unique_id} was due: results must have the "
                    "windows' order and come once each"
                )
            if pending is None or pending.unique_id > window.unique_id:
                missing.append(window.unique_id)
                continue
            own.append(pending)
            pending = next(stream, None)
        unique_id += len(windows)
        if len(own) == len(windows):
            yield answer_question(
                example, windows, own, featurizer.tokenizer, settings
            )
    if missing:
        raise ValueError(
            f"{len(missing)} of {unique_id - FIRST_UNIQUE_ID} windows have no "
            f"result (the first is {missing[0]}); no prediction is written"
        )
    if pending is not None:
        raise ValueError(
            f"result {pending.unique_id} belongs to no window: the last is "
            f"{unique_id - 1}"
        )
