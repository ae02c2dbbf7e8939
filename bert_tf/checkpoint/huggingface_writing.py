"""Writes folders that transformers loads."""

import json
from collections.abc import Mapping
from typing import Any

from bert_tf import files
from bert_tf.checkpoint import safetensors
from bert_tf.checkpoint.huggingface_names import (
    ARCHITECTURES,
    huggingface_name,
)
from bert_tf.checkpoint.locating import join
from bert_tf.checkpoint.sources import StoredTensor
from bert_tf.config import BertConfig
from bert_tf.huggingface_config import to_huggingface

WEIGHTS_FILE = "model.safetensors"


def write_huggingface(
    folder: str,
    tensors: Mapping[str, StoredTensor],
    config: BertConfig,
    *,
    head: str | None = None,
    labels: list[str] | None = None,
    do_lower_case: bool | None = None,
    vocab: bytes | None = None,
) -> dict[str, tuple[str, StoredTensor]]:
    """Writes a folder that transformers loads.

    Args:
      folder: made if absent.
      tensors: by official name, float32, no optimizer state.
      config: the architecture.
      head: key of `architecture.HEADS`, or None.
      labels: in the order of the outputs.
      do_lower_case: casing of the tokenizer.
      vocab: bytes of vocab.txt.

    Returns:
      Name there and tensor, by the official name.
    """
    # Models without a head have no prefix there.
    prefix = "bert." if head is None else ""
    written = {
        name: (
            huggingface_name(name).removeprefix(prefix),
            x.transposed() if name.endswith("/kernel") else x,
        )
        for name, x in tensors.items()
    }
    files.make_dirs(folder)
    values = {
        "architectures": [ARCHITECTURES[head]],
        **to_huggingface(config.to_dict()),
        "torch_dtype": "float32",
    }
    if head in ("sequence_classification", "token_classification"):
        count = tensors["output_bias"].shape[0]
        names = labels or [f"LABEL_{i}" for i in range(count)]
        values["id2label"] = {str(i): x for i, x in enumerate(names)}
        values["label2id"] = {x: i for i, x in enumerate(names)}
    _write_json(folder, "config.json", values)
    if vocab is not None:
        with files.atomic_write(join(folder, "vocab.txt"), "wb") as stream:
            stream.write(vocab)
    if do_lower_case is not None:
        _write_json(
            folder,
            "tokenizer_config.json",
            {
                "do_lower_case": do_lower_case,
                "model_max_length": config.max_position_embeddings,
                "strip_accents": None,
                "tokenize_chinese_chars": True,
                "tokenizer_class": "BertTokenizer",
            },
        )
    # Last: without weights the folder is no checkpoint.
    path = join(folder, WEIGHTS_FILE)
    safetensors.write(path, dict(written.values()), {"format": "pt"})
    return written


def _write_json(folder: str, name: str, values: Mapping[str, Any]) -> None:
    with files.atomic_write(join(folder, name)) as stream:
        text = json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True)
        stream.write(text + "\n")
