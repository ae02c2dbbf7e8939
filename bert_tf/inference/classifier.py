"""`Classifier`: a label, labels or a number for a text or a pair.

Shape letters: B batch, L labels.
"""

import dataclasses
import os
from collections.abc import Sequence
from typing import Any

from bert_tf.inference.predictor import Predictor
from bert_tf.inference.results import Result
from bert_tf.tasks.classification_thresholds import DEFAULT, read_thresholds

_KINDS = ("classification", "multi_label", "regression")


@dataclasses.dataclass(frozen=True)
class Classification(Result):
    """What a classifier says of one text or pair.

    Attributes:
      text: the input, a string or a tuple of two.
      label: the most probable label; in multi-label the list of those whose
        probability reaches the threshold; in regression None.
      probabilities: label -> probability, in the order of the label list;
        empty in regression.
      value: the number, in regression; else None.
    """

    text: str | tuple[str, str]
    label: str | list[str] | None
    probabilities: dict[str, float]
    value: float | None = None

    @property
    def probability(self) -> float | None:
        """Probability of the label, where there is one."""
        if isinstance(self.label, str):
            return self.probabilities[self.label]
        return None

    def to_dict(self) -> dict[str, Any]:
        if self.value is not None:
            return {"text": self.text, "value": self.value}
        return {
            "text": self.text,
            "label": self.label,
            "probabilities": self.probabilities,
        }

    def to_line(self) -> str:
        if self.value is not None:
            return f"{self.value:.4f}"
        labels = [self.label] if isinstance(self.label, str) else self.label
        return ", ".join(f"{x} {self.probabilities[x]:.4f}" for x in labels)

    def cells(self) -> dict[str, Any]:
        if self.value is not None:
            return self.to_dict()
        best = sorted(self.probabilities.items(), key=lambda x: -x[1])[:5]
        return {"text": self.text, "label": self.label, "best": dict(best)}


class Classifier(Predictor):
    """Classifies with a run of `run_classifier.py`.

    Args:
      model_dir: the run folder; or one with the original's files, for which
        `labels` must be given unless there is a `labels.txt`.
      labels: in the order of the model's outputs.
      kind: `"classification"`, `"multi_label"` or `"regression"`; by default
        that of the run.
      threshold: smallest probability of a label in multi-label; by default
        that of each label which the folder has stored for the checkpoint
        (`--threshold=tune`), 0.5 without them.
      **kwargs: see `Predictor`.

    Raises:
      ValueError: the labels are not known, or their number is not that of
        the model's outputs.
    """

    tasks = ("classification",)

    def __init__(
        self,
        model_dir,
        *,
        labels: Sequence[str] | None = None,
        kind: str | None = None,
        threshold: float | None = None,
        **kwargs,
    ):
        self.labels = list(map(str, labels)) if labels is not None else None
        self.kind = kind
        self.threshold = threshold
        super().__init__(model_dir, **kwargs)

    def _create_model(self):
        from bert_tf.heads import BertForSequenceClassification

        self.kind = self.kind or self.folder.run.get("kind") or _KINDS[0]
        if self.kind not in _KINDS:
            raise ValueError(
                f"kind is {self.kind!r}, expected one of {', '.join(_KINDS)}"
            )
        outputs = self._num_outputs()
        if self.kind == "regression":
            self.labels = None
            if outputs != 1:
                raise ValueError(
                    f"{self.folder.checkpoint} has {outputs} outputs, a "
                    "regression has one"
                )
        else:
            self.labels = self._checked_labels(outputs)
        if self.kind == "multi_label" and self.threshold is None:
            self.threshold = read_thresholds(
                self.folder.path,
                self.labels,
                os.path.basename(self.folder.checkpoint),
            )
        if self.threshold is None:
            self.threshold = DEFAULT
        return BertForSequenceClassification(self.folder.config, outputs)

    def _num_outputs(self) -> int:
        from bert_tf.checkpoint import read_shapes

        checkpoint = self.folder.checkpoint
        shape = read_shapes(checkpoint).get("output_weights")
        if shape is None:
            raise ValueError(
                f"{checkpoint} holds no classifier: there is no variable "
                "output_weights in it"
            )
        return shape[0]

    def _checked_labels(self, outputs: int) -> list[str]:
        stored = self.folder.labels()
        labels = self.labels if self.labels is not None else stored
        if labels is None:
            raise ValueError(
                f"{self.folder.path} does not say its labels; give labels in "
                f"the order of its {outputs} outputs"
            )
        if stored is not None and labels != stored:
            raise ValueError(
                f"labels given: {', '.join(labels)}; {self.folder.path} was "
                f"trained with {', '.join(stored)}"
            )
        if len(labels) != outputs:
            raise ValueError(
                f"{len(labels)} labels ({', '.join(labels)}), but "
                f"{self.folder.checkpoint} has {outputs} outputs"
            )
        return labels

    def _select(self, outputs, features):
        import tensorflow as tf

        logits = outputs["logits"]
        if self.kind == "regression":
            return {"values": logits}
        if self.kind == "multi_label":
            return {"values": tf.nn.sigmoid(logits)}
        return {"values": tf.nn.softmax(logits, axis=-1)}

    def _encode(self, item, where):
        return self._encode_texts(item, where)

    def _result(self, item, encoded, outputs):
        values = outputs[0]["values"].tolist()
        if self.kind == "regression":
            return Classification(item, None, {}, values[0])
        probabilities = dict(zip(self.labels, values, strict=True))
        if self.kind == "multi_label":
            limits = self.threshold
            if not isinstance(limits, list):
                limits = [limits] * len(values)
            label = [
                x
                for (x, p), limit in zip(
                    probabilities.items(), limits, strict=True
                )
                if p >= limit
            ]
        else:
            # The first of equals, as in the runner.
            label = max(probabilities, key=probabilities.get)
        return Classification(item, label, probabilities)
