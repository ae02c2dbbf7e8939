"""`BertConfig`: the `bert_config.json` of the original, in and out."""

import dataclasses
import json
import logging
import os
from collections.abc import Mapping
from typing import Any

from bert_tf import files
from bert_tf.huggingface_config import from_huggingface, is_huggingface

# `gelu` is the tanh form, as in the original; `gelu_erf` the exact one.
ACTIVATIONS = ("gelu", "gelu_erf", "relu", "tanh", "linear", "")
LAYER_NORM_EPS = 1e-12


@dataclasses.dataclass(frozen=True)
class BertConfig:
    """Architecture of one BERT model; names and defaults of the original.

    Keys of a file that are not fields (the multilingual and Chinese releases
    carry `pooler_*` and `directionality`) are kept in `extra`, written back,
    and named in one warning.

    Raises:
      ValueError: a value that no model can be built from, with the key, what
        was found, what was expected and the file it came from.
    """

    vocab_size: int
    hidden_size: int = 768
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    intermediate_size: int = 3072
    hidden_act: str = "gelu"
    hidden_dropout_prob: float = 0.1
    attention_probs_dropout_prob: float = 0.1
    max_position_embeddings: int = 512
    type_vocab_size: int = 16
    initializer_range: float = 0.02
    # Not a key of the original: written only where it differs from its value.
    layer_norm_eps: float = LAYER_NORM_EPS
    extra: Mapping[str, Any] = dataclasses.field(
        default_factory=dict, hash=False
    )
    source: str = dataclasses.field(
        default="", compare=False, repr=False, kw_only=True
    )

    def __post_init__(self):
        where = f"{self.source}: " if self.source else ""
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.type in (int, "int"):
                if isinstance(value, bool) or not isinstance(value, int):
                    raise ValueError(
                        f"{where}{field.name} is {value!r}, not an integer"
                    )
                if value < 1:
                    raise ValueError(
                        f"{where}{field.name} is {value}, must be positive"
                    )
            elif field.type in (float, "float") and (
                isinstance(value, bool) or not isinstance(value, (int, float))
            ):
                raise ValueError(
                    f"{where}{field.name} is {value!r}, not a number"
                )
        for name in ("hidden_dropout_prob", "attention_probs_dropout_prob"):
            if not 0 <= getattr(self, name) < 1:
                raise ValueError(
                    f"{where}{name} is {getattr(self, name)}, "
                    "must be at least 0 and below 1"
                )
        if not 0 < self.layer_norm_eps < 1:
            raise ValueError(
                f"{where}layer_norm_eps is {self.layer_norm_eps}, must lie "
                "between 0 and 1"
            )
        if self.hidden_size % self.num_attention_heads:
            raise ValueError(
                f"{where}hidden_size {self.hidden_size} is not a multiple of "
                f"num_attention_heads {self.num_attention_heads}"
            )
        if (self.hidden_act or "").lower() not in ACTIVATIONS:
            raise ValueError(
                f"{where}hidden_act is {self.hidden_act!r}, "
                f"expected one of {', '.join(filter(None, ACTIVATIONS))}"
            )

    @classmethod
    def from_dict(
        cls, values: Mapping[str, Any], source: str = ""
    ) -> "BertConfig":
        """Builds a config from a mapping; unknown keys go to `extra`."""
        own = {f.name for f in dataclasses.fields(cls)} - {"extra", "source"}
        where = f"{source}: " if source else ""
        if "vocab_size" not in values:
            raise ValueError(f"{where}the key vocab_size is missing")
        known = {k: v for k, v in values.items() if k in own}
        extra = {k: v for k, v in values.items() if k not in own}
        if extra:
            logging.getLogger("bert_tf").warning(
                "%skeys that this model does not use are kept: %s",
                where,
                ", ".join(sorted(extra)),
            )
        return cls(**known, extra=extra, source=source)

    @classmethod
    def from_json_file(cls, path: str | os.PathLike) -> "BertConfig":
        """Reads `bert_config.json`, or `config.json` of Hugging Face.

        The latter's `gelu` is read as what it is, `gelu_erf`.
        """
        path = os.fspath(path)
        if files.is_dir(path):
            raise ValueError(f"{path}: a folder, expected bert_config.json")
        try:
            text = files.read_bytes(path).decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise ValueError(f"{path}: not UTF-8: {error}") from None
        try:
            values = json.loads(text)
        except json.JSONDecodeError as error:
            raise ValueError(f"{path}: not JSON: {error}") from None
        if not isinstance(values, dict):
            raise ValueError(f"{path}: expected a JSON object")
        if is_huggingface(values):
            values = from_huggingface(values, path)
        return cls.from_dict(values, source=path)

    def to_dict(self) -> dict[str, Any]:
        """All keys, those of `extra` included."""
        hidden = {"extra", "source"}
        if self.layer_norm_eps == LAYER_NORM_EPS:
            hidden.add("layer_norm_eps")
        values = {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.name not in hidden
        }
        return {**self.extra, **values}

    def to_json_string(self) -> str:
        """The original's form: sorted keys, two spaces, a line feed last."""
        return json.dumps(self.to_dict(), indent=2, sort_keys=True) + "\n"

    def save(self, path: str | os.PathLike) -> None:
        """Writes `bert_config.json`."""
        with files.atomic_write(path) as stream:
            stream.write(self.to_json_string())
