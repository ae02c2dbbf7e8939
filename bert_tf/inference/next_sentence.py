"""`NextSentence`: does the second text follow the first?"""

import dataclasses
from typing import Any

from bert_tf.inference.predictor import Predictor, split_pair
from bert_tf.inference.results import Result


@dataclasses.dataclass(frozen=True)
class NextSentencePrediction(Result):
    """How a pair is judged.

    Attributes:
      text_a: the first text.
      text_b: the second text.
      probability: that the second follows the first; else it is random.
    """

    text_a: str
    text_b: str
    probability: float

    @property
    def is_next(self) -> bool:
        """Whether that is more likely than not."""
        return self.probability > 0.5

    def to_dict(self) -> dict[str, Any]:
        return {**dataclasses.asdict(self), "is_next": self.is_next}

    def to_line(self) -> str:
        return f"{'next' if self.is_next else 'random'} {self.probability:.4f}"


class NextSentence(Predictor):
    """Judges pairs of texts, with the head of pre-training.

    Args:
      model_dir: a released model, or a run of `run_pretraining.py`.
      **kwargs: see `Predictor`.
    """

    tasks = ("pretraining",)

    def _create_model(self):
        from bert_tf.heads import BertForNextSentencePrediction

        return BertForNextSentencePrediction(self.folder.config)

    def _select(self, outputs, features):
        import tensorflow as tf

        logits = outputs["next_sentence_logits"]
        return {"probability": tf.nn.softmax(logits, axis=-1)[:, 0]}

    def _encode(self, item, where):
        if split_pair(item, where)[1] is None:
            raise ValueError(f"{where}: expected a tuple of two texts")
        return self._encode_texts(item, where)

    def _result(self, item, encoded, outputs):
        return NextSentencePrediction(*item, float(outputs[0]["probability"]))
