"""Exact match and F1 of SQuAD answers, and the best null threshold.

The definitions are those of the official scripts (Rajpurkar et al. 2016,
arXiv:1606.05250; 2018, arXiv:1806.03822). For languages written without
spaces, texts can be split at CJK characters and freed of all Unicode
punctuation, as the multilingual data sets do (MLQA, Lewis et al. 2020,
arXiv:1910.07475).
"""

import logging
import re
import string
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from bert_tf.tokenization.characters import CJK_CLASS

_LOGGER = logging.getLogger("bert_tf")

_ARTICLE = re.compile(r"\b(a|an|the)\b")
_CJK_CHARACTER = re.compile(f"([{CJK_CLASS}])")
_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)

Gold = Mapping[str, Sequence[str] | None]


class Threshold(NamedTuple):
    """A null threshold and the score it gives.

    Attributes:
      score: percent.
      value: questions with null odds above it get no answer.
    """

    score: float
    value: float


def answer_tokens(text: str, split_cjk: bool = False) -> list[str]:
    """Words that two answers are compared by.

    Args:
      text: an answer.
      split_cjk: each CJK character is a word, and punctuation is what
        Unicode calls so; otherwise the official rule, ASCII punctuation and
        blanks.

    Returns:
      Lower-cased words without punctuation and English articles.
    """
    text = text.lower()
    if split_cjk:
        text = "".join(
            char
            for char in text
            if not unicodedata.category(char).startswith("P")
        )
        text = _CJK_CHARACTER.sub(r" \1 ", text)
    text = _ARTICLE.sub(" ", text.translate(_ASCII_PUNCTUATION))
    return text.split()


def exact_match(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """1 if two lists of `answer_tokens` agree, else 0."""
    return float(list(predicted) == list(gold))


def f1_score(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """Harmonic mean of precision and recall over two bags of words."""
    common = sum((Counter(predicted) & Counter(gold)).values())
    if not common:
        return 0.0
    precision = common / len(predicted)
    recall = common / len(gold)
    return 2 * precision * recall / (precision + recall)


def _f1_or_agreement(predicted: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of version 2: no answer scores 1 against no answer, else 0."""
    if not predicted or not gold:
        return float(list(predicted) == list(gold))
    return f1_score(predicted, gold)


def _warn(number: int, what: str) -> None:
    if number:
        _LOGGER.warning("scoring: %d questions %s", number, what)


def _mean(scores: Mapping[str, float], ids: Sequence[str]) -> float:
    return 100.0 * sum(scores[i] for i in ids) / len(ids)


def score_version_1(
    gold: Gold, predictions: Mapping[str, str], split_cjk: bool = False
) -> dict[str, float]:
    """Scores answers where every question has one.

    Args:
      gold: question id to its right answers; questions without any are left
        out and counted.
      predictions: question id to answer; a missing one scores 0.
      split_cjk: see `answer_tokens`.

    Returns:
      `exact_match` and `f1` in percent, `total` questions scored.

    Raises:
      ValueError: no question has an answer to score against.
    """
    ids = [qas_id for qas_id, answers in gold.items() if answers]
    _warn(len(gold) - len(ids), "have no right answer and are not scored")
    _warn(sum(i not in predictions for i in ids), "have no prediction: score 0")
    if not ids:
        raise ValueError("no question has a right answer to score against")
    exact = f1 = 0.0
    for qas_id in ids:
        if qas_id not in predictions:
            continue
        predicted = answer_tokens(predictions[qas_id], split_cjk)
        golds = [answer_tokens(text, split_cjk) for text in gold[qas_id]]
        exact += max(exact_match(predicted, tokens) for tokens in golds)
        f1 += max(f1_score(predicted, tokens) for tokens in golds)
    total = len(ids)
    return {
        "exact_match": 100.0 * exact / total,
        "f1": 100.0 * f1 / total,
        "total": total,
    }


def _question_scores(
    gold: Gold, predictions: Mapping[str, str], split_cjk: bool
) -> tuple[dict[str, float], dict[str, float]]:
    """Exact match and F1 by question, version 2."""
    exact, f1 = {}, {}
    for qas_id, answers in gold.items():
        if answers is None or qas_id not in predictions:
            continue
        golds = [answer_tokens(text, split_cjk) for text in answers]
        golds = [tokens for tokens in golds if tokens] or [[]]
        predicted = answer_tokens(predictions[qas_id], split_cjk)
        exact[qas_id] = max(exact_match(predicted, g) for g in golds)
        f1[qas_id] = max(_f1_or_agreement(predicted, g) for g in golds)
    return exact, f1


def score_version_2(
    gold: Gold,
    predictions: Mapping[str, str],
    null_odds: Mapping[str, float] | None = None,
    best_texts: Mapping[str, str] | None = None,
    split_cjk: bool = False,
) -> dict[str, float]:
    """Scores answers where some questions have none.

    Args:
      gold: question id to its right answers, empty if there is none; None
        (not known) leaves the question out.
      predictions: question id to answer, "" for none.
      null_odds: question id to the score of no answer less that of the best.
      best_texts: question id to the best answer if there had to be one. With
        `null_odds` it gives the best thresholds.
      split_cjk: see `answer_tokens`.

    Returns:
      `exact` and `f1` in percent and `total`; the same over questions with
      (`HasAns_`) and without (`NoAns_`) an answer; `best_exact`,
      `best_exact_thresh`, `best_f1`, `best_f1_thresh`.

    Raises:
      ValueError: there is nothing to score.
    """
    exact, f1 = _question_scores(gold, predictions, split_cjk)
    unknown = sum(answers is None for answers in gold.values())
    _warn(unknown, "say nothing of answers and are not scored")
    _warn(len(gold) - unknown - len(exact), "have no prediction: left out")
    if not exact:
        raise ValueError("no question has a right answer to score against")
    with_answer = [qas_id for qas_id in exact if gold[qas_id]]
    without = [qas_id for qas_id in exact if not gold[qas_id]]
    scores = {}
    for prefix, ids in (
        ("", list(exact)),
        ("HasAns_", with_answer),
        ("NoAns_", without),
    ):
        if ids:
            scores[f"{prefix}exact"] = _mean(exact, ids)
            scores[f"{prefix}f1"] = _mean(f1, ids)
            scores[f"{prefix}total"] = len(ids)
    if null_odds is not None and best_texts is not None:
        best = _question_scores(gold, best_texts, split_cjk)
        for name, by_question in zip(("exact", "f1"), best, strict=True):
            threshold = best_threshold(by_question, null_odds, set(without))
            scores[f"best_{name}"] = threshold.score
            scores[f"best_{name}_thresh"] = threshold.value
    return scores


def best_threshold(
    scores: Mapping[str, float],
    null_odds: Mapping[str, float],
    without_answer: set[str],
) -> Threshold:
    """Finds the null threshold with the highest mean score.

    Unlike the official script's, the threshold reproduces the score: equal
    odds are never parted, and where no answer at all is best, it lies below
    all odds.

    Args:
      scores: question id to the score of its best answer if one is given.
      null_odds: question id to its null odds.
      without_answer: ids of the questions that have none.

    Returns:
      The lowest threshold that gives the best score.
    """
    by_odds = sorted(scores, key=lambda qas_id: null_odds[qas_id])
    # Everything unanswered to begin with.
    current = best = float(sum(qas_id in without_answer for qas_id in scores))
    value = null_odds[by_odds[0]] - 1.0
    for index, qas_id in enumerate(by_odds):
        current += scores[qas_id] - (qas_id in without_answer)
        odds = null_odds[qas_id]
        is_last_of_equals = (
            index + 1 == len(by_odds) or null_odds[by_odds[index + 1]] != odds
        )
        if current > best and is_last_of_equals:
            best, value = current, odds
    return Threshold(100.0 * best / len(scores), value)
