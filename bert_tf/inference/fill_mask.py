"""`FillMask`: which words fit where a text says `[MASK]`.

Shape letters: B batch, P masks, K candidates, V vocabulary.
"""

import dataclasses
from typing import Any

from bert_tf.inference.predictor import Predictor, split_pair
from bert_tf.inference.results import Result
from bert_tf.tokenization import MASK


@dataclasses.dataclass(frozen=True)
class Candidate:
    """A piece of the vocabulary and the probability the model gives it."""

    token: str
    probability: float


@dataclasses.dataclass(frozen=True)
class FilledText(Result):
    """What fits the masks of one text.

    Attributes:
      text: the input.
      masks: for each `[MASK]` in it the candidates, most probable first.
        Several masks are judged each on its own.
    """

    text: str
    masks: list[list[Candidate]]

    @property
    def best_text(self) -> str:
        """The text with the first candidate in each place."""
        parts = self.text.split(MASK)
        text = parts[0]
        for candidates, part in zip(self.masks, parts[1:], strict=True):
            token = candidates[0].token
            if token.startswith("##"):
                text = text.rstrip(" ")
            text += token.removeprefix("##") + part
        return text

    def to_dict(self) -> dict[str, Any]:
        masks = [list(map(dataclasses.asdict, x)) for x in self.masks]
        return {"text": self.text, "masks": masks}

    def to_line(self) -> str:
        return " | ".join(
            ", ".join(f"{x.token} {x.probability:.4f}" for x in candidates)
            for candidates in self.masks
        )

    def cells(self) -> dict[str, Any]:
        masks = {
            f"mask {i}" if len(self.masks) > 1 else "mask": {
                x.token: x.probability for x in candidates
            }
            for i, candidates in enumerate(self.masks, 1)
        }
        return {"text": self.text, **masks}


class FillMask(Predictor):
    """Fills `[MASK]` in texts, with the head of pre-training.

    Args:
      model_dir: a released model, or a run of `run_pretraining.py`.
      top_k: candidates for each mask.
      targets: judge only these pieces of the vocabulary; their
        probabilities are still those among all pieces.
      **kwargs: see `Predictor`.

    Raises:
      ValueError: a target is no piece of the vocabulary. When called: a text
        has no mask, or one beyond the longest input.
    """

    never_split = (MASK,)
    tasks = ("pretraining",)

    def __init__(
        self,
        model_dir,
        *,
        top_k: int = 5,
        targets: list[str] | None = None,
        **kwargs,
    ):
        if top_k < 1:
            raise ValueError(f"top_k is {top_k}, must be positive")
        self.top_k = top_k
        self.targets = list(targets) if targets is not None else None
        super().__init__(model_dir, **kwargs)

    def _create_model(self):
        from bert_tf.heads import BertForMaskedLM

        tokenizer = self.tokenizer
        self._target_ids = None
        if self.targets is not None:
            unknown = [x for x in self.targets if x not in tokenizer.vocab]
            if unknown or not self.targets:
                raise ValueError(
                    f"targets not in the vocabulary {tokenizer.vocab_file}: "
                    f"{', '.join(map(repr, unknown)) or 'none given'}"
                )
            self._target_ids = tokenizer.convert_tokens_to_ids(self.targets)
        return BertForMaskedLM(self.folder.config)

    def _select(self, outputs, features):
        import tensorflow as tf

        logits = outputs["masked_lm_logits"]
        probabilities = tf.nn.softmax(logits, axis=-1)
        if self._target_ids is not None:
            probabilities = tf.gather(probabilities, self._target_ids, axis=2)
        count = min(self.top_k, probabilities.shape[-1])
        values, ids = tf.math.top_k(probabilities, k=count)
        if self._target_ids is not None:
            ids = tf.gather(tf.constant(self._target_ids), ids)
        return {"probabilities": values, "ids": ids}

    def _encode(self, item, where):
        text_a, text_b = split_pair(item, where)
        encoded = self._encode_texts(item, where)
        (row,) = encoded.rows
        mask_id = self.tokenizer.mask_id
        positions = [i for i, x in enumerate(row["input_ids"]) if x == mask_id]
        expected = sum(
            self.tokenizer.tokenize_to_ids(text).count(mask_id)
            for text in (text_a, text_b or "")
        )
        if not expected:
            raise ValueError(f"{where} has no {MASK}: {text_a!r}")
        if len(positions) < expected:
            raise ValueError(
                f"{where}: {expected - len(positions)} of {expected} masks lie "
                f"beyond the {self.folder.max_seq_length} pieces of the "
                "longest input"
            )
        encoded.rows = [{**row, "masked_lm_positions": positions}]
        return encoded

    def _result(self, item, encoded, outputs):
        (row,), (found,) = encoded.rows, outputs
        count = len(row["masked_lm_positions"])
        tokens = self.tokenizer.inv_vocab
        masks = [
            [
                Candidate(tokens[i], p)
                for i, p in zip(ids, probabilities, strict=True)
            ]
            for ids, probabilities in zip(
                found["ids"][:count].tolist(),
                found["probabilities"][:count].tolist(),
                strict=True,
            )
        ]
        text = " ||| ".join(item) if isinstance(item, tuple) else item
        return FilledText(text, masks)
