"""Files of predicted labels: the input's format, and one that explains."""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_tf import files
from bert_tf.tasks.tagging_data import (
    MARKS,
    ColumnLayout,
    Sentence,
    read_lines,
)
from bert_tf.tasks.tagging_entities import OUTSIDE, find_entities

LABELLED_FILE = "predictions.conll"
EXPLAINED_FILE = "predictions.jsonl"


class TaggedSentence(NamedTuple):
    """A sentence with what the model says of it.

    Attributes:
      sentence: the words.
      marks: for each word None, or why the model has not seen it.
      labels: for each word its likeliest label, O if it was not seen.
      probabilities: float32 [L] for each word, None if it was not seen.
    """

    sentence: Sentence
    marks: Sequence[str | None]
    labels: list[str]
    probabilities: list[np.ndarray | None]


def tag_sentence(
    sentence: Sentence,
    marks: Sequence[str | None],
    rows: Iterator[np.ndarray],
    labels: Sequence[str],
) -> TaggedSentence:
    """Puts probabilities and words together.

    Args:
      sentence: the words.
      marks: for each word None, or why no row belongs to it.
      rows: probabilities [L] of the words that were seen, in order; as many
        as needed are taken.
      labels: L labels.
    """
    found, probabilities = [], []
    for mark in marks:
        row = None if mark else next(rows)
        found.append(OUTSIDE if row is None else labels[int(row.argmax())])
        probabilities.append(row)
    return TaggedSentence(sentence, marks, found, probabilities)


def _number(value: np.floating) -> float:
    # The shortest digits that give the float32 back.
    return float(str(np.float32(value)))


def describe_sentence(
    tagged: TaggedSentence, labels: Sequence[str], with_entities: bool = True
) -> dict[str, Any]:
    """What `predictions.jsonl` says of one sentence; JSON values.

    Args:
      tagged: the sentence.
      labels: L labels.
      with_entities: add `entities`.

    Returns:
      `id` (number from 0), `line` (of the first word), `text` (the words, a
      blank between two), `words`: each with `word`, `start` and `end` in the
      text in code points, `label`, and `probabilities` (label -> number), or
      `mark` where the model has not seen it; `entities`: each with `type`,
      `start` and `end` in the text, `first_word`, `last_word`, `text` and
      `probability`, the least among those of its words' labels.
    """
    sentence = tagged.sentence
    text, offsets = sentence.text, sentence.offsets()
    words = []
    for i, word in enumerate(sentence.words):
        start, end = offsets[i]
        entry = {
            "word": word,
            "start": start,
            "end": end,
            "label": tagged.labels[i],
        }
        row = tagged.probabilities[i]
        if row is None:
            entry["mark"] = tagged.marks[i]
        else:
            pairs = zip(labels, row, strict=True)
            entry["probabilities"] = {k: _number(p) for k, p in pairs}
        words.append(entry)
    line = {
        "id": sentence.number,
        "line": sentence.lines[0],
        "text": text,
        "words": words,
    }
    if with_entities:
        line["entities"] = [
            {
                "type": kind,
                "start": offsets[first][0],
                "end": offsets[after - 1][1],
                "first_word": first,
                "last_word": after - 1,
                "text": text[offsets[first][0] : offsets[after - 1][1]],
                "probability": _number(
                    min(row.max() for row in tagged.probabilities[first:after])
                ),
            }
            for kind, first, after in find_entities(tagged.labels)
        ]
    return line


def write_explained(
    path: str,
    sentences: Iterable[TaggedSentence],
    labels: Sequence[str],
    with_entities: bool = True,
) -> Iterator[TaggedSentence]:
    """Writes a JSON object for each sentence and passes the sentence on."""
    with files.atomic_write(path) as stream:
        for tagged in sentences:
            line = describe_sentence(tagged, labels, with_entities)
            stream.write(json.dumps(line, ensure_ascii=False) + "\n")
            yield tagged


def has_label_column(
    path: str, layout: ColumnLayout, labels: Sequence[str]
) -> tuple[bool, str]:
    """Tells whether the label column of a file holds labels throughout.

    Returns:
      The answer, and for the log what speaks against it.
    """
    allowed = set(labels)
    for line in read_lines(path, layout):
        if line.cells is None:
            continue
        width = len(line.cells)
        column = layout.label_column
        if width == 1 or not -width <= column < width:
            return False, f"it has {width} column(s)"
        cell = line.cells[column].strip(" ")
        if cell not in allowed:
            return False, f"line {line.number} has {cell!r} there"
    return True, ""


def write_labelled(
    path: str,
    source: str,
    layout: ColumnLayout,
    words: Iterable[tuple[str, str | None]],
    replaces_label: bool,
) -> int:
    """Writes the input again, line by line, with predicted labels.

    Args:
      path: file to write.
      source: the input.
      layout: where words and labels stand in it.
      words: label and mark of each word.
      replaces_label: whether the label takes the place of the one in the
        input; it becomes another, last column if not. A mark, such as
        `[CUT]`, follows as a last column where the model has not seen the
        word. Lines without a word stay as they are.

    Returns:
      The number of words.
    """
    count = 0
    words = iter(words)
    with files.atomic_write(path) as stream:
        for line in read_lines(source, layout):
            if line.cells is None:
                stream.write(f"{line.text}\n")
                continue
            label, mark = next(words)
            count += 1
            cells = list(line.cells)
            if replaces_label:
                cells[layout.label_column] = label
            else:
                cells.append(label)
            if mark:
                cells.append(MARKS[mark])
            separator = line.separator
            if len(line.cells) == 1 and layout.separator is None:
                separator = "\t"
            stream.write(separator.join(cells) + "\n")
    return count
