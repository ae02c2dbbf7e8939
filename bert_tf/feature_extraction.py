"""Lines of text -> the vectors of a model's layers, as a stream.

Shape letters: S sequence, D hidden, K layers.
"""

import dataclasses
import itertools
import logging
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert_tf import files
from bert_tf.batch_runner import BatchRunner
from bert_tf.checkpoint import load_checkpoint, resolve_checkpoint
from bert_tf.config import BertConfig
from bert_tf.distribution import check_batch_size, create_strategy
from bert_tf.feature_files import WRITERS, ExtractionSettings, Line
from bert_tf.length_batches import pack_unpadded
from bert_tf.modeling import BertModel
from bert_tf.pooling import (
    check_layers,
    cosine_similarities,
    pool,
    select_layers,
)
from bert_tf.progress import Progress
from bert_tf.settings import DeviceSettings, ModelSettings
from bert_tf.tokenization import FullTokenizer

# Lines read ahead, in batches: enough to sort by length, few enough that the
# vectors of long lines stay in memory.
_WINDOW_BATCHES = 8
_SHOWN_SIMILARITIES = 20
_PAIR = re.compile(r"(.*) \|\|\| (.*)")

_logger = logging.getLogger("bert_tf")


def split_line(line: str) -> tuple[str, str | None]:
    """Splits at the last ` ||| `; the second text is None without one."""
    match = _PAIR.fullmatch(line)
    return (match[1], match[2]) if match else (line, None)


def check_input(path: str) -> None:
    """Raises ValueError where there is no such file."""
    if not files.exists(path) or files.is_dir(path):
        raise ValueError(f"--input_file={path}: no such file")


def read_lines(
    path: str, tokenizer: FullTokenizer, max_seq_length: int
) -> Iterator[Line]:
    """Reads and tokenizes lines; a blank one gives `[CLS] [SEP]`.

    Only line feeds end a line. Bytes that are no UTF-8 are dropped, as in
    the original.
    """
    with files.open_file(path, "rb") as stream:
        for index, line in enumerate(stream):
            text = line.decode("utf-8", "ignore").strip()
            text_a, text_b = split_line(text)
            ids_a = tokenizer.tokenize_to_ids(text_a)
            ids_b = [] if text_b is None else tokenizer.tokenize_to_ids(text_b)
            row = pack_unpadded(
                ids_a,
                ids_b,
                max_seq_length,
                tokenizer.cls_id,
                tokenizer.sep_id,
            )
            room = max_seq_length - (3 if ids_b else 2)
            yield Line(index, text, row, len(ids_a) + len(ids_b) > room)


def create_runner(
    model, settings: ExtractionSettings, strategy=None, fixed_length=False
) -> BatchRunner:
    """A runner that gives `values` of each line.

    Args:
      model: a `BertModel`, all variables loaded.
      settings: which layers, and how they are pooled.
      strategy: devices that share each batch.
      fixed_length: for devices whose programs have fixed shapes.

    Returns:
      Its results hold `values`: float32 [S, K, D], or [K * D] when pooled.
    """

    def select(outputs, features):
        if settings.pools:
            values = pool(
                outputs,
                features["input_mask"],
                settings.layers,
                settings.pooling,
                settings.normalize,
            )
        else:
            values = tf.stack(select_layers(outputs, settings.layers), axis=2)
        return {"values": values}

    return BatchRunner(
        model,
        select,
        settings.max_seq_length,
        xla=False,
        strategy=strategy,
        fixed_length=fixed_length,
        max_rows=settings.batch_size,
    )


def extract(
    lines: Iterable[Line], runner: BatchRunner, window: int
) -> Iterator[tuple[Line, np.ndarray]]:
    """Computes lines, in order, holding the values of `window` of them.

    Yields:
      The line and its float32 values: [K * D], or [tokens, K, D].
    """
    lines = iter(lines)
    while chunk := list(itertools.islice(lines, window)):
        found = runner.map([line.row for line in chunk])
        for place, line in enumerate(chunk):
            values = found[place].pop("values")
            if values.ndim > 1:
                values = values[: len(line.row["input_ids"])]
            yield line, values


def extract_file(
    settings: ExtractionSettings, runner: BatchRunner, tokenizer: FullTokenizer
) -> int:
    """Extracts all lines of a file; returns their number.

    Raises:
      ValueError: the input file has no line.
    """
    path = settings.input_file
    num_lines = num_tokens = num_cut = num_blank = 0
    for line in read_lines(path, tokenizer, settings.max_seq_length):
        num_lines += 1
        num_tokens += len(line.row["input_ids"])
        num_cut += line.is_cut
        num_blank += not line.text
    if not num_lines:
        raise ValueError(f"--input_file={path} has no line")
    _logger.info(
        "%s: %d lines, %d pieces, %d lines cut to %d pieces, %d blank",
        path,
        num_lines,
        num_tokens,
        num_cut,
        settings.max_seq_length,
        num_blank,
    )
    hidden_size = runner.model.config.hidden_size
    writer = WRITERS[settings.output_format](
        settings, tokenizer, hidden_size, num_lines, num_tokens
    )
    lines = read_lines(path, tokenizer, settings.max_seq_length)
    window = settings.batch_size * _WINDOW_BATCHES
    shown: list[tuple[Line, np.ndarray]] = []
    with writer, Progress("lines", num_lines, every=window) as progress:
        for line, values in extract(lines, runner, window):
            writer.write(line, values)
            if settings.print_similarity and len(shown) < _SHOWN_SIMILARITIES:
                shown.append((line, values))
            progress.update(1)
    _logger.info("wrote %s", os.fspath(settings.output_file))
    if shown:
        print(similarity_table(*zip(*shown, strict=True)))
    return num_lines


def similarity_table(
    lines: Sequence[Line], vectors: Sequence[np.ndarray]
) -> str:
    """Cosine similarities of lines in text, one line each."""
    similarities = cosine_similarities(np.stack(vectors), np.stack(vectors))
    rows = ["cosine similarities of the first lines"]
    rows.append(" " * 6 + "".join(f"{line.index:7d}" for line in lines))
    for line, values in zip(lines, similarities, strict=True):
        shown = "".join(f"{value:7.3f}" for value in values)
        rows.append(f"{line.index:6d}{shown}  {line.text}")
    return "\n".join(rows)


def run(
    make_tokenizer: Callable[[BertConfig], FullTokenizer],
    model: ModelSettings,
    settings: ExtractionSettings,
    devices: DeviceSettings,
    use_one_hot_embeddings: bool = False,
) -> int:
    """Checks, loads the model and extracts a whole file.

    Args:
      make_tokenizer: config -> tokenizer; called once the config is read.
      model: files, casing and S.
      settings: what to extract, and where to.
      devices: where to compute.
      use_one_hot_embeddings: look words up by a matrix product.

    Returns:
      The number of lines.

    Raises:
      ValueError: names the flag or file, what was found and expected.
    """
    config = BertConfig.from_json_file(model.bert_config_file)
    if not 3 <= model.max_seq_length <= config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length is {model.max_seq_length}, expected 3 to "
            f"{config.max_position_embeddings}, the positions of the model "
            f"of {model.bert_config_file}"
        )
    if devices.distribution_strategy == "multi_worker":
        raise ValueError(
            "--distribution_strategy=multi_worker: features are extracted by "
            "one process"
        )
    devices.check_paths({"init_checkpoint": model.init_checkpoint})
    layers = check_layers(settings.layers, config, "--layers")
    settings = dataclasses.replace(settings, layers=layers)
    prefix = resolve_checkpoint(model.init_checkpoint)
    tokenizer = make_tokenizer(config)
    check_input(settings.input_file)
    strategy = create_strategy(devices)
    check_batch_size(
        "batch_size", settings.batch_size, strategy.num_replicas_in_sync
    )
    with strategy.scope():
        bert = BertModel(config, use_one_hot_embeddings=use_one_hot_embeddings)
    load_checkpoint(bert, prefix, strict=True)
    # A TPU compiles a program for each shape: it gets one.
    runner = create_runner(bert, settings, strategy, devices.on_tpu)
    return extract_file(settings, runner, tokenizer)
