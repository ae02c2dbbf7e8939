"""`config.json` of a Hugging Face BERT, and what it means here.

The same word stands for two functions: their `gelu` is the exact one (erf),
the original's, and so ours, is the tanh form, which they call `gelu_new` or
`gelu_pytorch_tanh`. Source: transformers, `configuration_bert.py` (keys and
defaults) and `activations.py`.
"""

from collections.abc import Mapping
from typing import Any

_ACTIVATIONS = {
    "gelu": "gelu_erf",
    "gelu_python": "gelu_erf",
    "gelu_new": "gelu",
    "gelu_pytorch_tanh": "gelu",
    "gelu_accurate": "gelu",
    "gelu_fast": "gelu",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
}
_BACK = {
    "gelu_erf": "gelu",
    "gelu": "gelu_new",
    "relu": "relu",
    "tanh": "tanh",
    "linear": "linear",
    "": "linear",
}
_DEFAULTS = {
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "hidden_act": "gelu",
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
    "initializer_range": 0.02,
    "layer_norm_eps": 1e-12,
}
# Written by every release of transformers, never by the original.
_MARKS = ("model_type", "architectures", "transformers_version", "torch_dtype")


def is_huggingface(values: Mapping[str, Any]) -> bool:
    """Tells a Hugging Face config from the original's by its keys."""
    return any(key in values for key in _MARKS)


def from_huggingface(
    values: Mapping[str, Any], source: str = ""
) -> dict[str, Any]:
    """Translates a config to the keys and words of `BertConfig`.

    Args:
      values: the JSON object of `config.json`.
      source: its path, for errors.

    Returns:
      Values of all fields of the architecture; other keys are left out.

    Raises:
      ValueError: another architecture than BERT, or an activation that has
        no counterpart.
    """
    where = f"{source}: " if source else ""
    expected = {
        "model_type": ("bert",),
        "position_embedding_type": ("absolute", None),
        "is_decoder": (False, None),
        "add_cross_attention": (False, None),
    }
    for key, allowed in expected.items():
        if key in values and values[key] not in allowed:
            raise ValueError(
                f"{where}{key} is {values[key]!r}, a model that BERT cannot "
                f"stand for; expected {allowed[0]!r}"
            )
    found = {key: values.get(key, value) for key, value in _DEFAULTS.items()}
    activation = found["hidden_act"]
    if activation not in _ACTIVATIONS:
        raise ValueError(
            f"{where}hidden_act is {activation!r}, expected one of "
            f"{', '.join(_ACTIVATIONS)}"
        )
    return {**found, "hidden_act": _ACTIVATIONS[activation]}


def to_huggingface(values: Mapping[str, Any]) -> dict[str, Any]:
    """The reverse: what `config.json` says of an architecture.

    Args:
      values: what `BertConfig.to_dict` gives; the epsilon may be absent.

    Returns:
      The keys of the architecture and those that name it as a BERT.
    """
    known = {key: values.get(key, value) for key, value in _DEFAULTS.items()}
    return {
        **known,
        "hidden_act": _BACK[known["hidden_act"].lower()],
        "model_type": "bert",
        "position_embedding_type": "absolute",
        "pad_token_id": 0,
    }
