"""SQuAD files -> paragraphs, questions and located answers.

The reader follows google-research/bert `run_squad.py`; where the original
stops or drops an example in silence, a `ReadReport` says which and why.
Character offsets count code points of the untouched context.
"""

import bisect
import dataclasses
import json
import logging
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from bert_tf import files
from bert_tf.tokenization.characters import CJK_CLASS

_LOGGER = logging.getLogger("bert_tf")

# What the original takes for a blank in a context; answers are split by
# Python's wider rule.
_BLANKS = " \t\r\n\u202f"


class Paragraph:
    """A context and its words; all its questions share it.

    Attributes:
      context: the untouched text.
      word_offsets: (start, end) of each word in the context.
      words: the words' texts.
    """

    def __init__(self, context: str, word_pattern: re.Pattern):
        self.context = context
        self.word_offsets = [m.span() for m in word_pattern.finditer(context)]
        self.words = [context[start:end] for start, end in self.word_offsets]
        self._starts = [start for start, _ in self.word_offsets]

    def word_at(self, character: int) -> int:
        """Index of the word that holds a character.

        A blank counts with the word before it; -1 before the first word.
        """
        return bisect.bisect_right(self._starts, character) - 1

    def text(self, start_word: int, end_word: int) -> str:
        """Words start to end, inclusive; any blanks between become one."""
        if start_word < 0:  # before the first word: counts from the end
            start_word = max(0, start_word + len(self.words))
        parts = []
        previous_end = None
        for index in range(start_word, min(end_word + 1, len(self.words))):
            start, end = self.word_offsets[index]
            if previous_end is not None and start > previous_end:
                parts.append(" ")
            parts.append(self.words[index])
            previous_end = end
        return "".join(parts)

    def context_offset(self, start_word: int, position: int) -> int:
        """Where character `position` of `text(start_word, ...)` stands.

        Args:
          start_word: first word of the text.
          position: index into that text, on a character of a word.

        Returns:
          The index of that character in the context.
        """
        for index in range(start_word, len(self.words)):
            start, end = self.word_offsets[index]
            if position < end - start:
                return start + position
            position -= end - start
            if self._starts[index + 1] > end:
                position -= 1
        raise AssertionError("position beyond the words")


@dataclasses.dataclass
class SquadExample:
    """One question.

    Attributes:
      qas_id: the question's id.
      question_text: the question.
      paragraph: its context.
      answers: texts of all answers given; None where the file has no
        `answers` field.
      orig_answer_text: in training the answer trained on, "" if impossible;
        None in prediction.
      start_position: its first word; -1 if impossible, None in prediction.
      end_position: its last word, inclusive.
      is_impossible: the context does not answer it (training, version 2).
    """

    qas_id: str
    question_text: str
    paragraph: Paragraph
    answers: tuple[str, ...] | None = None
    orig_answer_text: str | None = None
    start_position: int | None = None
    end_position: int | None = None
    is_impossible: bool = False


@dataclasses.dataclass(frozen=True)
class SkippedExample:
    """A question left out of training, and why."""

    qas_id: str
    reason: str
    detail: str = ""


@dataclasses.dataclass
class ReadReport:
    """What the reader found.

    Attributes:
      path: the file.
      num_questions: questions in the file.
      num_examples: questions kept.
      num_answers: answers in the file.
      dropped: questions left out of training, each with its reason.
      misplaced_answers: (id, start, text there, answer) of every answer that
        does not stand exactly at its offset, used or not.
      several_answers: ids of training questions with more than one answer.
      duplicate_ids: ids that occur more than once.
      empty_answers: ids of training questions whose answer is blank.
      missing_is_impossible: ids of version 2 questions without that field.
    """

    path: str
    num_questions: int = 0
    num_examples: int = 0
    num_answers: int = 0
    dropped: list[SkippedExample] = dataclasses.field(default_factory=list)
    misplaced_answers: list[tuple[str, Any, str, str]] = dataclasses.field(
        default_factory=list
    )
    several_answers: list[str] = dataclasses.field(default_factory=list)
    duplicate_ids: list[str] = dataclasses.field(default_factory=list)
    empty_answers: list[str] = dataclasses.field(default_factory=list)
    missing_is_impossible: list[str] = dataclasses.field(default_factory=list)

    def summary(self) -> str:
        """All counts in a line, those of zero left out."""
        parts = [f"{self.num_examples} of {self.num_questions} questions kept"]
        reasons = Counter(skipped.reason for skipped in self.dropped)
        parts += [f"{n} dropped: {reason}" for reason, n in reasons.items()]
        for ids, what in (
            (
                self.misplaced_answers,
                f"of {self.num_answers} answers not exactly at their offset",
            ),
            (
                self.several_answers,
                "questions with several answers (trained on the first usable)",
            ),
            (self.duplicate_ids, "ids used more than once"),
            (self.empty_answers, "blank answer texts"),
            (
                self.missing_is_impossible,
                "questions without is_impossible (taken as impossible "
                "where they have no answer)",
            ),
        ):
            if ids:
                first = ids[0] if isinstance(ids[0], str) else ids[0][0]
                parts.append(f"{len(ids)} {what}, the first in {first}")
        return f"{self.path}: " + "; ".join(parts)


def word_pattern(split_cjk_words: bool, split_unicode_blanks: bool):
    """What a word of a context is; see `read_squad_examples`."""
    blanks = r"\s" if split_unicode_blanks else _BLANKS
    if split_cjk_words:
        return re.compile(f"[{CJK_CLASS}]|[^{blanks}{CJK_CLASS}]+")
    return re.compile(f"[^{blanks}]+")


def _field(owner: Any, name: str, kind: type, where: str):
    if not isinstance(owner, dict) or not isinstance(owner.get(name), kind):
        found = ", ".join(map(str, owner)) if isinstance(owner, dict) else owner
        raise ValueError(
            f"{where}: expected {name!r} ({kind.__name__}), found "
            f"{str(found)[:80]!r}"
        )
    return owner[name]


def read_json(path: str) -> list[dict]:
    """Reads the `data` list of a SQuAD file.

    Raises:
      ValueError: no UTF-8, no JSON, or no `data` list; names the file.
    """
    try:
        content = json.loads(files.read_bytes(path).decode("utf-8-sig"))
    except ValueError as error:
        raise ValueError(f"{path}: no JSON in UTF-8: {error}") from None
    return _field(content, "data", list, path)


def _questions(
    path: str, pattern: re.Pattern
) -> Iterator[tuple[Paragraph, dict]]:
    """Yields every question of a file with its paragraph, both checked."""
    for i, article in enumerate(read_json(path)):
        where = f"{path}: data[{i}]"
        paragraphs = _field(article, "paragraphs", list, where)
        for j, entry in enumerate(paragraphs):
            where = f"{path}: data[{i}].paragraphs[{j}]"
            paragraph = Paragraph(_field(entry, "context", str, where), pattern)
            for k, qa in enumerate(_field(entry, "qas", list, where)):
                _field(qa, "question", str, f"{where}.qas[{k}]")
                if isinstance(qa.get("id"), int):
                    qa["id"] = str(qa["id"])  # as a JSON key would be
                _field(qa, "id", str, f"{where}.qas[{k}]")
                yield paragraph, qa


def read_squad_examples(
    path: str,
    is_training: bool,
    version_2_with_negative: bool = False,
    split_cjk_words: bool = False,
    split_unicode_blanks: bool = False,
) -> tuple[list[SquadExample], ReadReport]:
    """Reads a SQuAD file (v1.1 or v2.0 layout).

    Args:
      path: the JSON file.
      is_training: locate an answer for each question, drop what has none;
        otherwise every question is kept.
      version_2_with_negative: questions may be unanswerable.
      split_cjk_words: make each CJK character a word, so that an answer in a
        text without blanks resolves to its characters. Off in the original.
      split_unicode_blanks: split contexts at all blanks Python knows, as
        answers are; otherwise an answer with, say, a no-break space is never
        found. Off in the original.

    Returns:
      The examples in file order, and the account of what was found.

    Raises:
      ValueError: the file has another layout; a training question has no
        answer although `version_2_with_negative` is off; in prediction, two
        questions have one id.
    """
    pattern = word_pattern(split_cjk_words, split_unicode_blanks)
    report = ReadReport(path)
    examples = []
    seen = set()
    for paragraph, qa in _questions(path, pattern):
        report.num_questions += 1
        answers = qa.get("answers")
        example = SquadExample(
            qa["id"],
            qa["question"],
            paragraph,
            None
            if answers is None
            else tuple(
                _field(a, "text", str, _where(path, qa)) for a in answers
            ),
        )
        if example.qas_id in seen:
            if not is_training:
                raise ValueError(
                    f"{path}: id {example.qas_id!r} is used by two questions; "
                    "predictions are stored by id, so ids must differ"
                )
            report.duplicate_ids.append(example.qas_id)
        seen.add(example.qas_id)
        _count_misplaced(example, answers or (), report)
        if not is_training or _set_target(
            example, qa, version_2_with_negative, report
        ):
            examples.append(example)
    report.num_examples = len(examples)
    for skipped in report.dropped:
        _LOGGER.warning(
            "%s: question %s dropped: %s%s",
            path,
            skipped.qas_id,
            skipped.reason,
            f" ({skipped.detail})" if skipped.detail else "",
        )
    _LOGGER.info(report.summary())
    return examples, report


def _where(path: str, qa: dict) -> str:
    return f"{path}: question {qa['id']!r}"


def _count_misplaced(
    example: SquadExample, answers: list[dict], report: ReadReport
) -> None:
    context = example.paragraph.context
    for answer in answers:
        report.num_answers += 1
        start, text = answer.get("answer_start"), answer["text"]
        found = ""
        if isinstance(start, int) and start >= 0:
            found = context[start : start + len(text)]
        if found != text:
            report.misplaced_answers.append(
                (example.qas_id, start, found, text)
            )


def _set_target(
    example: SquadExample,
    qa: dict,
    version_2_with_negative: bool,
    report: ReadReport,
) -> bool:
    """Fills in the training target; False if the example is dropped."""
    answers = qa.get("answers") or []
    if version_2_with_negative:
        if "is_impossible" in qa:
            example.is_impossible = bool(qa["is_impossible"])
        else:
            report.missing_is_impossible.append(example.qas_id)
            example.is_impossible = not answers
    if example.is_impossible:
        example.start_position = example.end_position = -1
        example.orig_answer_text = ""
        return True
    if not answers and not version_2_with_negative:
        raise ValueError(
            f"{_where(report.path, qa)} has no answer; to train on questions "
            "without an answer give --version_2_with_negative"
        )
    if len(answers) > 1:
        report.several_answers.append(example.qas_id)
    problems = []
    for answer in answers:
        found = _locate_answer(example, answer)
        if isinstance(found, SkippedExample):
            problems.append(found)
            continue
        example.start_position, example.end_position = found
        example.orig_answer_text = answer["text"]
        if not answer["text"].strip():
            report.empty_answers.append(example.qas_id)
        return True
    report.dropped.append(
        problems[0]
        if problems
        else SkippedExample(example.qas_id, "no answer, yet not impossible")
    )
    return False


def _locate_answer(
    example: SquadExample, answer: dict
) -> tuple[int, int] | SkippedExample:
    """First and last word of an answer, or why it cannot be used.

    The words need only contain the answer with its blanks normalised, as in
    the original: an offset a little off does not matter.
    """
    paragraph = example.paragraph
    start, text = answer.get("answer_start"), answer["text"]
    if not paragraph.words:
        return SkippedExample(example.qas_id, "blank context")
    if not isinstance(start, int) or start < 0:
        return SkippedExample(
            example.qas_id, "no valid answer_start", f"found {start!r}"
        )
    last = start + len(text) - 1
    length = len(paragraph.context)
    if start >= length or last >= length:
        return SkippedExample(
            example.qas_id,
            "answer beyond the end of the context",
            f"characters {start} to {last}, the context has {length}",
        )
    start_word = paragraph.word_at(start)
    # An empty answer ends before it starts: at offset 0 that is, as Python
    # counts, the last word.
    end_word = (
        paragraph.word_at(last) if last >= 0 else len(paragraph.words) - 1
    )
    found = paragraph.text(start_word, end_word)
    expected = " ".join(text.split())
    if expected not in found:
        return SkippedExample(
            example.qas_id,
            "answer not found at its offset",
            f"expected {expected!r}, found {found[:200]!r}",
        )
    return start_word, end_word
