"""`Tagger`: a label for each word of a text."""

import dataclasses
from typing import Any

from bert_tf.inference.predictor import Encoded, Predictor
from bert_tf.inference.results import Result
from bert_tf.tasks.tagging_entities import (
    OUTSIDE,
    find_entities,
    marks_entities,
)
from bert_tf.tasks.tagging_features import TaggingFeaturizer
from bert_tf.tokenization.characters import convert_to_unicode


@dataclasses.dataclass(frozen=True)
class TaggedText(Result):
    """The labels of one text.

    Attributes:
      words: the words.
      labels: one for each word; `O` for a word that the model has not seen.
      probabilities: of the labels; 0 for a word that was not seen.
      marks: for each word None, or why it was not seen: `"cut"` or
        `"no_pieces"`.
      entities: (type, text, first word, after the last word) of each one,
        where labels mark entities.
    """

    words: list[str]
    labels: list[str]
    probabilities: list[float]
    marks: list[str | None]
    entities: list[tuple[str, str, int, int]]

    def to_dict(self) -> dict[str, Any]:
        values = dataclasses.asdict(self)
        values["entities"] = [
            {"type": kind, "text": text, "start": start, "end": end}
            for kind, text, start, end in self.entities
        ]
        return values

    def to_line(self) -> str:
        pairs = zip(self.words, self.labels, strict=True)
        return " ".join(f"{word}/{label}" for word, label in pairs)

    def cells(self) -> dict[str, Any]:
        return {
            "text": " ".join(self.words),
            "labels": self.to_line(),
            "entities": [f"{x[1]} ({x[0]})" for x in self.entities],
        }


class Tagger(Predictor):
    """Labels words with a run of `run_tagging.py`.

    An input is a string, which is cut into words at blanks and around
    punctuation, or a tuple of words that is taken as it is.

    Args:
      model_dir: the run folder.
      **kwargs: see `Predictor`.
    """

    tasks = ("tagging",)

    def _create_model(self):
        from bert_tf.heads import BertForTokenClassification

        self.labels = self.folder.labels()
        if self.labels is None:
            raise ValueError(f"{self.folder.path} does not say its labels")
        self._marks_entities = marks_entities(self.labels)
        run = self.folder.run
        self._featurizer = TaggingFeaturizer(
            self.tokenizer,
            self.folder.max_seq_length,
            run.get("long_sentences", "window"),
            run.get("window_stride"),
        )
        return BertForTokenClassification(self.folder.config, len(self.labels))

    def _select(self, outputs, features):
        import tensorflow as tf

        probabilities = tf.nn.softmax(outputs["logits"], axis=-1)
        return {
            "labels": tf.argmax(probabilities, axis=-1, output_type=tf.int32),
            "probabilities": tf.reduce_max(probabilities, axis=-1),
        }

    def words(self, text: str) -> list[str]:
        """Cuts a text into words, punctuation apart, as they stand in it."""
        text = convert_to_unicode(text)
        found = self.tokenizer.tokenize_with_offsets(text)
        spans: dict[int, tuple[int, int]] = {}
        for word, (start, end) in zip(
            found.word_ids, found.offsets, strict=True
        ):
            first, last = spans.get(word, (start, end))
            spans[word] = min(first, start), max(last, end)
        return [text[start:end] for start, end in spans.values()]

    def _encode(self, item, where):
        words = list(item) if isinstance(item, tuple) else self.words(item)
        if not all(isinstance(word, str) for word in words):
            raise ValueError(
                f"{where}: expected a string or a tuple of words, found "
                f"{item!r}"
            )
        found = self._featurizer.featurize(words)
        rows = [
            {
                "input_ids": window.input_ids,
                "segment_ids": [0] * len(window.input_ids),
            }
            for window in found.windows
        ]
        return Encoded(rows, "cut" in found.marks, (words, found))

    def _result(self, item, encoded, outputs):
        words, found = encoded.extra
        labels = [OUTSIDE] * len(words)
        probabilities = [0.0] * len(words)
        for window, values in zip(found.windows, outputs, strict=True):
            for position, word in zip(
                window.positions, window.words, strict=True
            ):
                labels[word] = self.labels[values["labels"][position]]
                probabilities[word] = float(values["probabilities"][position])
        entities = []
        if self._marks_entities:
            entities = [
                (kind, " ".join(words[start:end]), start, end)
                for kind, start, end in find_entities(labels)
            ]
        return TaggedText(words, labels, probabilities, found.marks, entities)
