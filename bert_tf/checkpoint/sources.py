"""A checkpoint of any format, seen as variables under official names."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_tf.config import BertConfig


@dataclasses.dataclass(frozen=True)
class StoredTensor:
    """A tensor that has not been read yet.

    Attributes:
      source_name: what its file calls it.
      dtype: of the values that `read` gives.
      shape: likewise.
      read: reads the values; nothing is kept.
      change: what `read` does to them, such as `transposed`; empty if
        nothing.
    """

    source_name: str
    dtype: np.dtype
    shape: tuple[int, ...]
    read: Callable[[], np.ndarray]
    change: str = ""

    def changed(
        self,
        change: str,
        function: Callable[[np.ndarray], np.ndarray],
        *,
        shape: Sequence[int] | None = None,
        dtype: Any = None,
    ) -> "StoredTensor":
        """The same tensor with a further change to its values."""
        read = self.read
        return dataclasses.replace(
            self,
            shape=self.shape if shape is None else tuple(shape),
            dtype=self.dtype if dtype is None else np.dtype(dtype),
            read=lambda: function(read()),
            change=f"{self.change}, {change}" if self.change else change,
        )

    def transposed(self) -> "StoredTensor":
        """Rows become columns."""
        return self.changed("transposed", np.transpose, shape=self.shape[::-1])

    def reshaped(self, shape: Sequence[int]) -> "StoredTensor":
        """The same values in the same order under another shape."""
        shape = tuple(shape)
        if shape == self.shape:
            return self
        text = f"reshaped from {list(self.shape)}"
        return self.changed(text, lambda x: x.reshape(shape), shape=shape)

    def as_float32(self) -> "StoredTensor":
        """Floating values as float32; others stay."""
        is_integer = self.dtype.kind in "iub"
        if is_integer or self.dtype == np.float32:
            return self
        return self.changed(
            f"cast from {self.dtype.name}",
            lambda x: x.astype(np.float32),
            dtype=np.float32,
        )


@dataclasses.dataclass
class Source:
    """What a checkpoint holds, and what lies beside it.

    Attributes:
      path: folder, prefix or file.
      format: `tf1`, `huggingface`, `model_garden` or `saved_model`.
      tensors: by official name, optimizer state included.
      ignored: what is left out for a good reason: its name there, and why.
      unexpected: names that have no place in a BERT with a known head.
      config: the architecture, or None where it is not there.
      num_attention_heads: where the tensors tell it, else None.
      head: kind of the head (see `architecture.HEADS`) where it is known.
      labels: in the order of the outputs, or None.
      do_lower_case: casing of the tokenizer, or None.
      vocab: bytes of vocab.txt, or None.
      notes: what a user should know of the conversion.
    """

    path: str
    format: str
    tensors: dict[str, StoredTensor]
    ignored: dict[str, str] = dataclasses.field(default_factory=dict)
    unexpected: tuple[str, ...] = ()
    config: BertConfig | None = None
    num_attention_heads: int | None = None
    head: str | None = None
    labels: list[str] | None = None
    do_lower_case: bool | None = None
    vocab: bytes | None = None
    notes: list[str] = dataclasses.field(default_factory=list)

    @property
    def shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Shape of every tensor by official name."""
        return {name: x.shape for name, x in self.tensors.items()}
