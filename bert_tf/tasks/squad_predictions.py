"""The prediction files of SQuAD, written a question at a time."""

import contextlib
import json
import os
import pickle
import tempfile
from collections.abc import Iterator

from bert_tf import files
from bert_tf.tasks.squad_answers import QuestionAnswer


class AnswerWriter:
    """Writes the prediction files, all or none.

    `predictions.json`, `nbest_predictions.json` and, in version 2,
    `null_odds.json` are the original's; `predictions_with_offsets.jsonl` has
    one object a question: id, text, start and end (code points in the
    context, null for no answer), probability, in version 2 also null_odds.
    The files appear together when the context manager is left without error.

    Args:
      output_dir: folder for the files.
      version_2_with_negative: whether there are null odds.

    Attributes:
      count: questions written.
      paths: the files.
    """

    def __init__(self, output_dir: str, version_2_with_negative: bool):
        self._output_dir = output_dir
        self._is_version_2 = version_2_with_negative
        self._stack = contextlib.ExitStack()
        self.count = 0
        self.paths: list[str] = []

    def __enter__(self) -> "AnswerWriter":
        names = ["predictions.json", "nbest_predictions.json"]
        if self._is_version_2:
            names.append("null_odds.json")
        self._json = [self._open(name) for name in names]
        self._lines = self._open("predictions_with_offsets.jsonl")
        return self

    def _open(self, name: str):
        path = os.path.join(self._output_dir, name)
        self.paths.append(path)
        return self._stack.enter_context(files.atomic_write(path))

    def write(self, answer: QuestionAnswer) -> None:
        """Appends one question."""
        nbest = [
            {
                "text": entry.text,
                "probability": entry.probability,
                "start_logit": entry.start_logit,
                "end_logit": entry.end_logit,
            }
            for entry in answer.nbest
        ]
        values = (answer.best.text, nbest, answer.null_odds)
        for stream, value in zip(self._json, values, strict=False):
            stream.write(",\n" if self.count else "{\n")
            # One entry of an object, without the object's braces.
            stream.write(json.dumps({answer.qas_id: value}, indent=4)[2:-2])
        best = answer.best
        line = {
            "id": answer.qas_id,
            "text": best.text,
            "start": best.start,
            "end": best.end,
            "probability": best.probability,
        }
        if self._is_version_2:
            line["null_odds"] = answer.null_odds
        self._lines.write(json.dumps(line) + "\n")
        self.count += 1

    def __exit__(self, kind, value, traceback) -> bool | None:
        if kind is None:
            for stream in self._json:
                stream.write("\n}\n" if self.count else "{}\n")
        return self._stack.__exit__(kind, value, traceback)


class AnswerStore:
    """Answers kept in a temporary file, to be read again in order."""

    def __init__(self):
        # Lives as long as this object.
        self._stream = tempfile.TemporaryFile()  # noqa: SIM115
        self._count = 0

    def add(self, answer: QuestionAnswer) -> None:
        """Appends one answer."""
        pickle.dump(answer, self._stream, pickle.HIGHEST_PROTOCOL)
        self._count += 1

    def __iter__(self) -> Iterator[QuestionAnswer]:
        self._stream.seek(0)
        for _ in range(self._count):
            yield pickle.load(self._stream)
