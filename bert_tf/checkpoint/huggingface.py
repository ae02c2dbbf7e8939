"""Reads Hugging Face folders: weights, config, labels, tokenizer settings."""

import json
import os
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.checkpoint.architecture import WORD_EMBEDDINGS, all_names
from bert_tf.checkpoint.huggingface_names import (
    ARCHITECTURES,
    huggingface_name,
)
from bert_tf.checkpoint.locating import join, split
from bert_tf.checkpoint.report import CheckpointError, shorten
from bert_tf.checkpoint.safetensors import SafetensorsFile
from bert_tf.checkpoint.sources import Source, StoredTensor
from bert_tf.checkpoint.torch_files import TorchFile
from bert_tf.config import BertConfig
from bert_tf.huggingface_config import from_huggingface

# In order of preference; the index files list the parts of large models.
WEIGHT_FILES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
)
_INDEX_LIMIT = 64 << 20  # bytes
_BUFFERS = ("bert.embeddings.position_ids", "bert.embeddings.token_type_ids")
_TABLE = "embeddings.word_embeddings.weight"
_OLD_NORM = {"LayerNorm.gamma": "LayerNorm.weight"} | {
    "LayerNorm.beta": "LayerNorm.bias"
}
_DECODER_WEIGHT = "cls.predictions.decoder.weight"
_DECODER_BIAS = "cls.predictions.decoder.bias"


def find_weights(path: str | os.PathLike) -> str | None:
    """The weights' file of a folder, or the path itself if it is one."""
    path = os.fspath(path)
    if path.endswith((".safetensors", ".bin", ".index.json", ".pt", ".pth")):
        return path if files.exists(path) and not files.is_dir(path) else None
    if not files.is_dir(path):
        return None
    names = set(files.list_dir(path))
    return next((join(path, x) for x in WEIGHT_FILES if x in names), None)


def open_huggingface(path: str | os.PathLike) -> Source:
    """Opens a folder with weights, or the weights' file.

    Raises:
      CheckpointError: (a ValueError) no or damaged weights, another
        architecture, or tensors that only look like a BERT's.
    """
    weights = find_weights(path)
    if weights is None:
        raise CheckpointError(
            f"{os.fspath(path)}: no {WEIGHT_FILES[0]} nor {WEIGHT_FILES[2]}"
        )
    folder = split(weights)[0]
    values = _read_json(folder, "config.json")
    if values is None:
        values = _read_json(folder, "bert_config.json")
    source = Source(weights, "huggingface", {})
    if values is not None:
        where = join(folder, "config.json")
        config = from_huggingface(values, where)
        source.config = BertConfig.from_dict(config, source=where)
        source.head = _declared_head(values)
        source.labels = _labels(values, where)
    _add_tensors(source, _open_weights(weights))
    if source.head is None and "output_weights" in source.tensors:
        source.notes.append(
            "the config does not say what the classifier is for"
        )
    _add_tokenizer(source, folder)
    return source


def _open_weights(path: str) -> dict[str, StoredTensor]:
    if not path.endswith(".index.json"):
        return _open_file(path)
    folder = split(path)[0]
    index = _read_json(*split(path)) or {}
    parts = index.get("weight_map")
    if not isinstance(parts, dict):
        raise CheckpointError(f"{path}: expected a weight_map")
    tensors = {}
    for name in sorted({str(x) for x in parts.values()}):
        if name != os.path.basename(name) or name in ("", ".", ".."):
            raise CheckpointError(
                f"{path}: names the file {name!r}, expected one of its folder"
            )
        if not files.exists(join(folder, name)):
            raise CheckpointError(f"{path}: {name} is not there")
        tensors.update(_open_file(join(folder, name)))
    if lost := sorted(parts.keys() - tensors.keys()):
        raise CheckpointError(f"{path}: no file has {shorten(lost)}")
    return tensors


def _open_file(path: str) -> dict[str, StoredTensor]:
    is_safe = path.endswith(".safetensors")
    weights = SafetensorsFile(path) if is_safe else TorchFile(path)
    return {
        name: StoredTensor(
            name, entry.dtype, entry.shape, lambda x=name: weights.read(x)
        )
        for name, entry in weights.entries.items()
    }


def _prefix(names: Mapping[str, Any], path: str) -> str:
    """What stands before `embeddings.` in the file."""
    tables = [x for x in names if x == _TABLE or x.endswith(f".{_TABLE}")]
    if len(tables) != 1:
        raise CheckpointError(
            f"{path}: not a BERT checkpoint, it has {len(tables)} tensors "
            f"...{_TABLE}, expected one; it has {shorten(sorted(names))}"
        )
    return tables[0].removesuffix(_TABLE)


def _add_tensors(source: Source, stored: Mapping[str, StoredTensor]) -> None:
    """Sorts the file's tensors into those of a BERT, and the rest."""
    prefix = _prefix(stored, source.path)
    outer = prefix.removesuffix("bert.")
    layers = [re.search(r"encoder\.layer\.(\d{1,4})\.", x) for x in stored]
    count = 1 + max((int(x[1]) for x in layers if x), default=-1)
    known = {huggingface_name(x): x for x in all_names(count)}
    normal: dict[str, StoredTensor] = {}
    unexpected = []
    for name, tensor in stored.items():
        plain = name
        for old, new in _OLD_NORM.items():
            plain = plain.replace(old, new)
        inside = f"bert.{plain.removeprefix(prefix)}"
        if plain.startswith(prefix) and (inside in known or inside in _BUFFERS):
            plain = inside
        elif plain.startswith(outer):
            plain = plain.removeprefix(outer)
        if plain in normal:
            raise CheckpointError(
                f"{source.path}: {name} and {normal[plain].source_name} are "
                "the same tensor"
            )
        normal[plain] = tensor
    _drop_duplicates(source, normal)
    for plain, tensor in normal.items():
        if plain in _BUFFERS:
            source.ignored[tensor.source_name] = "numbers, not weights"
        elif plain in known:
            ours = known[plain]
            transpose = ours.endswith("/kernel") and len(tensor.shape) == 2
            source.tensors[ours] = tensor.transposed() if transpose else tensor
        else:
            unexpected.append(tensor.source_name)
    source.unexpected = tuple(sorted(unexpected))


def _drop_duplicates(source: Source, normal: dict[str, StoredTensor]) -> None:
    """The output layer's own copies of the embeddings and of its bias."""
    for copy, original in (
        (_DECODER_WEIGHT, huggingface_name(WORD_EMBEDDINGS)),
        (_DECODER_BIAS, "cls.predictions.bias"),
    ):
        if copy not in normal:
            continue
        if copy == _DECODER_BIAS and original not in normal:
            normal[original] = normal.pop(copy)
            continue
        second = normal.pop(copy)
        first = normal[original]
        if first.shape != second.shape or not np.array_equal(
            first.read(), second.read()
        ):
            raise CheckpointError(
                f"{source.path}: {second.source_name} differs from "
                f"{first.source_name}; a BERT's output layer has no values of "
                "its own"
            )
        source.ignored[second.source_name] = (
            f"the same values as {first.source_name}"
        )


def _read_json(folder: str, name: str) -> dict[str, Any] | None:
    path = join(folder, name)
    if not files.exists(path):
        return None
    if files.size(path) > _INDEX_LIMIT:
        raise CheckpointError(f"{path}: larger than {_INDEX_LIMIT} bytes")
    try:
        values = json.loads(files.read_bytes(path))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: damaged, not JSON: {error}") from None
    if not isinstance(values, dict):
        raise CheckpointError(f"{path}: expected a JSON object")
    return values


def _declared_head(values: Mapping[str, Any]) -> str | None:
    heads = {name: head for head, name in ARCHITECTURES.items()}
    architectures = values.get("architectures") or [None]
    return heads.get(architectures[0])


def _labels(values: Mapping[str, Any], where: str) -> list[str] | None:
    """The label map as a list; None if it holds but made-up names."""
    names = values.get("id2label")
    if not names:
        return None
    try:
        labels = [str(names[str(i)]) for i in range(len(names))]
    except (KeyError, TypeError):
        raise CheckpointError(
            f"{where}: the keys of id2label are not the numbers from 0 to "
            f"{len(names) - 1}"
        ) from None
    made_up = [f"LABEL_{i}" for i in range(len(labels))]
    return None if labels == made_up else labels


def _add_tokenizer(source: Source, folder: str) -> None:
    settings = _read_json(folder, "tokenizer_config.json") or {}
    whole = _read_json(folder, "tokenizer.json") or {}
    normalizer = whole.get("normalizer") or {}
    lower = settings.get("do_lower_case", normalizer.get("lowercase"))
    if lower is None and settings:
        lower = True  # the default of their BERT tokenizer
    source.do_lower_case = lower
    accents = settings.get("strip_accents", normalizer.get("strip_accents"))
    if accents is not None and accents != lower:
        source.notes.append(
            f"the tokenizer there has strip_accents={accents} with "
            f"do_lower_case={lower}, which the original's has not: texts with "
            "accents get other pieces"
        )
    chinese = settings.get("tokenize_chinese_chars", True)
    if chinese is False:
        source.notes.append(
            "the tokenizer there does not split Chinese characters, the "
            "original's does"
        )
    path = join(folder, "vocab.txt")
    if files.exists(path):
        source.vocab = files.read_bytes(path)
    elif whole:
        source.vocab = _vocabulary(whole, join(folder, "tokenizer.json"))


def _vocabulary(tokenizer: Mapping[str, Any], path: str) -> bytes:
    """vocab.txt out of tokenizer.json."""
    model = tokenizer.get("model") or {}
    pieces = model.get("vocab")
    if model.get("type") != "WordPiece" or not isinstance(pieces, dict):
        raise CheckpointError(f"{path}: expected a WordPiece vocabulary")
    by_id = {number: piece for piece, number in pieces.items()}
    try:
        lines = [by_id[i] for i in range(len(pieces))]
    except KeyError as error:
        raise CheckpointError(f"{path}: no piece has the id {error}") from None
    return "".join(f"{piece}\n" for piece in lines).encode()
