"""Converts checkpoints between the formats that BERT weights come in.

Everything of the input is accounted for: each tensor is converted, or ignored
for a reason that the report names, or the conversion stops. One tensor is in
memory at a time, save for a SavedModel, whose writer needs the whole model.
"""

import contextlib
import logging
import os
import tempfile
from collections.abc import Iterator

import numpy as np

from bert_tf import archives, files, run_folder
from bert_tf.checkpoint import opening
from bert_tf.checkpoint.architecture import (
    POOLER,
    ROOT_HEADS,
    USE_POOLER,
    all_names,
    check_shapes,
    find_head,
)
from bert_tf.checkpoint.locating import list_prefixes, split
from bert_tf.checkpoint.names import is_optimizer_state
from bert_tf.checkpoint.report import CheckpointError, shorten
from bert_tf.checkpoint.saved_model import infer_config
from bert_tf.checkpoint.sources import Source, StoredTensor
from bert_tf.config import BertConfig
from bert_tf.conversion_report import ConversionReport
from bert_tf.conversion_request import Conversion
from bert_tf.conversion_writing import write
from bert_tf.tokenization.vocab import load_vocab

_HEADS_OF_TASKS = {
    "classification": "sequence_classification",
    "multiple_choice": "multiple_choice",
    "tagging": "token_classification",
}
_UPPER_CASE_SHARE = 0.005  # of a vocabulary; official cased ones have 17%

_SAVED_MODEL_PARTS = {
    *("saved_model.pb", "fingerprint.pb", "keras_metadata.pb"),
    *("variables", "assets", "assets.extra", "preprocess"),
}

_logger = logging.getLogger("bert_tf")


def convert(request: Conversion) -> ConversionReport:
    """Converts a checkpoint.

    Returns:
      What became of every tensor.

    Raises:
      ValueError: the input is damaged, incomplete, no BERT, or holds what the
        output cannot; or the output's place is taken.
    """
    with _folder(request.input) as path:
        source = opening.open_checkpoint(path)
        _complete(source, request)
        config = source.config
        tensors = _weights(source, request)
        names = [x for x in tensors if not is_optimizer_state(x)]
        shapes = {name: tensors[name].shape for name in names}
        missing = check_shapes(shapes, config, source.path)
        source.head = find_head(names, _head_hint(source, request, names))
        if missing and source.head in USE_POOLER:
            raise CheckpointError(
                f"{source.path}: no pooler, which the head {source.head} needs"
            )
        if missing and request.new_pooler:
            tensors |= _new_pooler(config)
            source.notes.append("the pooler is new, with random values")
            missing = []
        _check_labels(source, shapes)
        _check_output(request, source)
        rows = write(source, tensors, request.output, request.output_format)
    report = ConversionReport(
        request.input,
        request.output,
        source.format,
        request.output_format,
        rows=rows,
        missing=tuple(missing),
        ignored=source.ignored,
        notes=tuple(source.notes),
        head=source.head,
        labels=source.labels,
        config=config,
    )
    for line in (*source.notes, *(f"missing: {x}" for x in missing)):
        _logger.warning("%s: %s", request.input, line)
    return report


@contextlib.contextmanager
def _folder(path: str) -> Iterator[str]:
    if not archives.is_archive(path):
        yield path
        return
    with archives.unpacked(path) as folder:
        try:
            yield folder
        except ValueError as error:
            raise ValueError(f"{path}, unpacked: {error}") from error


# What lies beside the weights ------------------------------------------------


def _complete(source: Source, request: Conversion) -> None:
    """Fills in config, vocabulary, labels and casing."""
    is_folder = files.is_dir(source.path)
    folder = source.path if is_folder else split(source.path)[0]
    if source.format == "saved_model":
        folder = run_folder.path_in(folder, "assets.extra")
    if request.bert_config_file:
        given = BertConfig.from_json_file(request.bert_config_file)
        _compare_heads(source, given)
        source.config = given
    if source.config is None and source.num_attention_heads:
        source.config = infer_config(source, "gelu")
    if source.config is None:
        raise ValueError(
            f"{source.path}: no bert_config.json beside it, and its variables "
            "do not tell the number of attention heads; give "
            "--bert_config_file"
        )
    _compare_heads(source, source.config)
    record = run_folder.read_run(folder)
    task_head = _HEADS_OF_TASKS.get(record.get("task", ""))
    if task_head and source.head in (None, *ROOT_HEADS):
        source.head = task_head
    if source.labels is None:
        source.labels = record.get("labels") or _read_labels(folder)
    if source.do_lower_case is None:
        source.do_lower_case = record.get("do_lower_case")
    if request.do_lower_case is not None:
        source.do_lower_case = request.do_lower_case
    path = request.vocab_file
    if path is None and source.vocab is None:
        path = run_folder.existing(folder, run_folder.VOCAB_FILE)
    if path is not None:
        source.vocab = files.read_bytes(path)
    if source.vocab is None:
        source.notes.append("no vocab.txt beside the weights, none is written")
        return
    _check_vocabulary(source)


def _compare_heads(source: Source, config: BertConfig) -> None:
    found = source.num_attention_heads
    if found is not None and found != config.num_attention_heads:
        raise ValueError(
            f"{config.source}: num_attention_heads is "
            f"{config.num_attention_heads}, but the attention of {source.path} "
            f"has {found}"
        )


def _read_labels(folder: str) -> list[str] | None:
    path = run_folder.existing(folder, run_folder.LABELS_FILE)
    if path is None:
        return None
    text = files.read_bytes(path).decode("utf-8-sig")
    return [x.removesuffix("\r") for x in text.split("\n") if x] or None


def _check_vocabulary(source: Source) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "vocab.txt")
        with open(path, "wb") as stream:
            stream.write(source.vocab)
        vocab = load_vocab(path)
    rows = source.config.vocab_size
    if vocab.line_count > rows:
        raise ValueError(
            f"the vocabulary beside {source.path} has {vocab.line_count} "
            f"lines, but vocab_size is {rows}"
        )
    if vocab.line_count < rows:
        source.notes.append(
            f"the vocabulary has {vocab.line_count} lines, the embedding table "
            f"{rows} rows"
        )
    if source.do_lower_case is None:
        letters = [x for x in vocab if x[:1] != "[" and x.lower() != x.upper()]
        upper = sum(x != x.lower() for x in letters)
        source.do_lower_case = upper <= _UPPER_CASE_SHARE * len(letters)
        source.notes.append(
            f"do_lower_case={source.do_lower_case}, as the vocabulary "
            "suggests; nothing beside the weights tells it"
        )


# The tensors -----------------------------------------------------------------


def _weights(source: Source, request: Conversion) -> dict[str, StoredTensor]:
    """The tensors to convert, float32; the others become ignored or stop."""
    known = set(all_names(source.config.num_hidden_layers))
    tensors = {}
    unexpected = list(source.unexpected)
    for name in sorted(source.tensors):
        tensor = source.tensors[name]
        if is_optimizer_state(name):
            if not request.keep_optimizer_state:
                source.ignored[name] = "optimizer state"
                continue
        elif name not in known and not name.startswith("bert/encoder/layer_"):
            unexpected.append(name)
            continue
        tensors[name] = tensor.as_float32()
    if unexpected and not request.drop_unexpected:
        raise CheckpointError(
            f"{source.path}: {len(unexpected)} tensors have no place in a "
            f"BERT with a known head: {shorten(unexpected)}. "
            "--drop_unexpected leaves them out"
        )
    for name in unexpected:
        source.ignored[name] = "unexpected, left out as asked for"
    return tensors


def _new_pooler(config: BertConfig) -> dict[str, StoredTensor]:
    """Truncated normal and zeros, as every new layer of a BERT has."""
    size, stddev = config.hidden_size, config.initializer_range
    rng = np.random.default_rng(12345)
    kernel = rng.standard_normal((size, size))
    while (beyond := np.abs(kernel) > 2).any():
        kernel[beyond] = rng.standard_normal(beyond.sum())
    values = ((kernel * stddev).astype("f4"), np.zeros(size, "f4"))
    return {
        name: StoredTensor("(new)", x.dtype, x.shape, lambda x=x: x)
        for name, x in zip(POOLER, values, strict=True)
    }


def _head_hint(
    source: Source, request: Conversion, names: list[str]
) -> str | None:
    """The kind of a head whose names leave it open."""
    if request.head is not None:
        return request.head
    if "output_weights" not in names:
        return None
    if source.head in ROOT_HEADS:
        return source.head
    source.notes.append(
        "taken for a sequence classifier; if it is not, give --head"
    )
    return None


def _check_labels(source: Source, shapes: dict[str, tuple[int, ...]]) -> None:
    if source.labels is None or source.head not in (
        "sequence_classification",
        "token_classification",
    ):
        source.labels = None
        return
    (count,) = shapes["output_bias"]
    if len(source.labels) != count:
        raise ValueError(
            f"{source.path}: {len(source.labels)} labels lie beside the "
            f"weights, but the head has {count} outputs"
        )


def _check_output(request: Conversion, source: Source) -> None:
    """Refuses to write over what is there."""
    output = request.output
    if not output:
        raise ValueError("--output is empty")
    taken = []
    if files.is_dir(output):
        taken = list_prefixes(output)
        taken += [
            x
            for x in files.list_dir(output)
            if x in ("model.safetensors", "pytorch_model.bin", "saved_model.pb")
        ]
        if request.output_format == "saved_model":
            # The whole folder is replaced.
            others = set(files.list_dir(output)) - _SAVED_MODEL_PARTS
            if others:
                raise ValueError(
                    f"--output={output} holds {shorten(sorted(others))}, which "
                    "is no part of a SavedModel; choose another place"
                )
    elif files.exists(f"{output}.index"):
        taken = [f"{output}.index"]
    elif files.exists(output):
        raise ValueError(f"--output={output} is a file, expected a folder")
    if taken and not request.overwrite:
        raise ValueError(
            f"--output={output} holds {shorten(taken)} already; choose another "
            "place, or give --overwrite"
        )
    if taken and os.path.abspath(output) in (
        os.path.abspath(source.path),
        os.path.abspath(split(source.path)[0]),
    ):
        raise ValueError(f"--output={output} is the input's own place")
