"""`Predictor`: what all classes of `bert_tf.inference` share."""

import abc
import dataclasses
import itertools
import logging
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from bert_tf.environment import prepare_environment
from bert_tf.inference.model_folder import ModelFolder, open_model_folder
from bert_tf.inference.results import Results, html_table
from bert_tf.length_batches import BATCH_TOKENS, Row, pack_unpadded

_WINDOW = 1024

_logger = logging.getLogger("bert_tf")


@dataclasses.dataclass
class Encoded:
    """One input, ready for the model.

    Attributes:
      rows: features; most inputs make one row.
      is_cut: whether the input was too long and lost its end.
      extra: what a subclass needs again for the result.
    """

    rows: list[Row]
    is_cut: bool = False
    extra: Any = None


class Predictor(abc.ABC):
    """A model that takes strings.

    Args:
      model_dir: a run folder or the folder of a released model; see
        `open_model_folder`.
      do_lower_case: casing of the model, where the folder does not say it.
      max_seq_length: longest input in pieces; by default that of the run.
      checkpoint: another checkpoint than the folder's own.
      xla: compile the program for single inputs: True at once, False never,
        None if that is found quicker, once inputs of one length have come
        many times.
      batch_tokens: most pieces in a batch, padding included.

    Attributes:
      folder: what was found in the folder.
      model: the Keras model, all variables loaded from the checkpoint.

    Raises:
      ValueError: the folder or the checkpoint does not hold such a model.
    """

    # Strings that the tokenizer keeps whole.
    never_split: tuple[str, ...] = ()
    # Tasks whose run folders hold such a model; empty for any.
    tasks: tuple[str, ...] = ()

    def __init__(
        self,
        model_dir: str | os.PathLike,
        *,
        do_lower_case: bool | None = None,
        max_seq_length: int | None = None,
        checkpoint: str | None = None,
        xla: bool | None = None,
        batch_tokens: int = BATCH_TOKENS,
    ):
        if "tensorflow" not in sys.modules:
            prepare_environment()
        self.folder: ModelFolder = open_model_folder(
            model_dir,
            do_lower_case=do_lower_case,
            max_seq_length=max_seq_length,
            checkpoint=checkpoint,
            never_split=self.never_split,
        )
        if self.tasks:
            self.folder.check_task(*self.tasks)
        from bert_tf.batch_runner import BatchRunner
        from bert_tf.checkpoint import load_checkpoint

        self.model = self._create_model()
        load_checkpoint(self.model, self.folder.checkpoint, strict=True)
        self._runner = BatchRunner(
            self.model,
            self._select,
            self.folder.max_seq_length,
            xla=xla,
            batch_tokens=batch_tokens,
        )

    @property
    def tokenizer(self):
        """The `FullTokenizer` of the model."""
        return self.folder.tokenizer

    @abc.abstractmethod
    def _create_model(self):
        """The model, without its weights."""

    @abc.abstractmethod
    def _select(self, outputs, features) -> dict:
        """What is needed of the model's outputs: tensors [B, ...]."""

    @abc.abstractmethod
    def _encode(self, item: Any, where: str) -> Encoded:
        """Features of one input; `where` names it in errors."""

    @abc.abstractmethod
    def _result(
        self, item: Any, encoded: Encoded, outputs: list[Mapping[str, Any]]
    ) -> Any:
        """The result of one input from the outputs of its rows."""

    def _encode_texts(self, item: Any, where: str) -> Encoded:
        """Encodes a text, or a tuple of two, as the runners do."""
        text_a, text_b = split_pair(item, where)
        tokenizer = self.tokenizer
        ids_a = tokenizer.tokenize_to_ids(text_a)
        ids_b = None if text_b is None else tokenizer.tokenize_to_ids(text_b)
        limit = self.folder.max_seq_length
        row = pack_unpadded(
            ids_a, ids_b, limit, tokenizer.cls_id, tokenizer.sep_id
        )
        length = len(ids_a) + len(ids_b or ()) + (3 if ids_b else 2)
        return Encoded([row], length > limit)

    def _collect(self, results: Iterable) -> Any:
        return Results(results)

    def __call__(self, inputs: Any) -> Any:
        """Predicts one input, or a list of them in order.

        Args:
          inputs: a string or a tuple of strings is one input, anything else
            that can be iterated over holds many.
        """
        if isinstance(inputs, (str, bytes, tuple)):  # bytes: for the error
            return next(self.stream([inputs]))
        return self._collect(self.stream(inputs))

    def stream(self, inputs: Iterable, window: int = _WINDOW) -> Iterator[Any]:
        """Predicts inputs as they come, in order.

        Args:
          inputs: any number of inputs.
          window: how many are read ahead and sorted by length.
        """
        numbered = enumerate(inputs)
        num_cut = 0
        while chunk := list(itertools.islice(numbered, window)):
            encoded = [self._encode(x, f"input {i}") for i, x in chunk]
            outputs = iter(
                self._runner.map([row for x in encoded for row in x.rows])
            )
            for (_, item), own in zip(chunk, encoded, strict=True):
                num_cut += own.is_cut
                found = list(itertools.islice(outputs, len(own.rows)))
                yield self._result(item, own, found)
        if num_cut:
            _logger.warning(
                "%d inputs were too long for the model's %d pieces and have "
                "been cut",
                num_cut,
                self.folder.max_seq_length,
            )

    def __repr__(self) -> str:
        folder = self.folder
        return (
            f"{type(self).__name__}({folder.path!r}, "
            f"do_lower_case={folder.tokenizer.do_lower_case}, "
            f"max_seq_length={folder.max_seq_length})"
        )

    def _description(self) -> dict[str, Any]:
        folder, config = self.folder, self.folder.config
        casing = folder.tokenizer.do_lower_case
        return {
            "model": type(self).__name__,
            "folder": folder.path,
            "checkpoint": os.path.basename(folder.checkpoint),
            "layers x hidden": (
                f"{config.num_hidden_layers} x {config.hidden_size}"
            ),
            "vocabulary": f"{config.vocab_size:,}",
            "do_lower_case": f"{casing} ({folder.casing_source})",
            "max_seq_length": folder.max_seq_length,
        }

    def _repr_html_(self) -> str:
        return html_table([self._description()])


def split_pair(item: Any, where: str) -> tuple[str, str | None]:
    """Takes a string or a tuple of one or two strings.

    Raises:
      ValueError: anything else; says which input and what it is.
    """
    texts = item if isinstance(item, tuple) else (item,)
    if not 1 <= len(texts) <= 2 or not all(
        isinstance(text, str) for text in texts
    ):
        found = ", ".join(type(text).__name__ for text in texts)
        raise ValueError(
            f"{where}: expected a string or a tuple of two, found ({found})"
        )
    return texts[0], texts[1] if len(texts) == 2 else None
