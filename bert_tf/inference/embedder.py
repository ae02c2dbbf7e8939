"""`Embedder`: one vector for a text or a pair.

Shape letters: D hidden, K layers.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import numpy as np

from bert_tf.inference.predictor import Predictor
from bert_tf.inference.results import html_table


@dataclasses.dataclass(frozen=True)
class Similarities:
    """Cosine similarities of two lists of texts.

    Attributes:
      rows: the first list.
      columns: the second list.
      values: float32 [rows, columns].
    """

    rows: list
    columns: list
    values: np.ndarray

    def __array__(self, dtype=None, copy=None):
        return np.asarray(self.values, dtype)

    def __str__(self) -> str:
        head = "".join(f"{j:7d}" for j in range(len(self.columns)))
        lines = [f"{'':4}{head}"]
        for i, (text, values) in enumerate(
            zip(self.rows, self.values, strict=True)
        ):
            shown = "".join(f"{value:7.3f}" for value in values)
            lines.append(f"{i:4d}{shown}  {text}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return html_table(
            [
                {
                    "": text,
                    **{
                        f"{j}: {column}": float(value)
                        for j, (column, value) in enumerate(
                            zip(self.columns, values, strict=True)
                        )
                    },
                }
                for text, values in zip(self.rows, self.values, strict=True)
            ]
        )


class Embedder(Predictor):
    """Turns texts into vectors, float32 arrays.

    One text gives an array [K * D], a list of n gives [n, K * D].

    Args:
      model_dir: any model: released, pre-trained or fine-tuned.
      pooling: `cls`, `mean`, `max` or `pooled`; see `pooling.pool`.
      layers: whose vectors are pooled and joined, -1 the last; the word
        `embeddings` for the layer below the first.
      normalize: scale vectors to length 1.
      **kwargs: see `Predictor`.
    """

    def __init__(
        self,
        model_dir,
        *,
        pooling: str = "mean",
        layers: Sequence[int | str] = (-1,),
        normalize: bool = False,
        **kwargs,
    ):
        self.pooling = pooling
        self.layers = layers
        self.normalize = normalize
        super().__init__(model_dir, **kwargs)

    def _create_model(self):
        from bert_tf.modeling import BertModel
        from bert_tf.pooling import check_layers, check_strategy

        check_strategy(self.pooling)
        self.layers = check_layers(self.layers, self.folder.config)
        return BertModel(self.folder.config)

    @property
    def size(self) -> int:
        """Length of a vector."""
        hidden = self.folder.config.hidden_size
        return hidden * (1 if self.pooling == "pooled" else len(self.layers))

    def _select(self, outputs, features):
        from bert_tf.pooling import pool

        vectors = pool(
            outputs,
            features["input_mask"],
            self.layers,
            self.pooling,
            self.normalize,
        )
        return {"vectors": vectors}

    def _encode(self, item, where):
        return self._encode_texts(item, where)

    def _result(self, item, encoded, outputs):
        return outputs[0]["vectors"]

    def _collect(self, results: Iterable) -> np.ndarray:
        vectors = list(results)
        if not vectors:
            return np.zeros((0, self.size), np.float32)
        return np.stack(vectors)

    def similarity(
        self, texts: Iterable, others: Iterable | None = None
    ) -> Similarities:
        """Cosine similarity of every text with every other one.

        Args:
          texts: the rows.
          others: the columns; the same texts by default.
        """
        from bert_tf.pooling import cosine_similarities

        rows = list(texts)
        vectors = self(rows)
        columns = rows if others is None else list(others)
        other_vectors = vectors if others is None else self(columns)
        return Similarities(
            rows, columns, cosine_similarities(vectors, other_vectors)
        )
