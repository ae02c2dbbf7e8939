"""What is refused before anything is built: lengths, batches, folders."""

import logging
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from bert_tf import files, fine_tuning, run_folder
from bert_tf.checkpoint import (
    latest_checkpoint,
    list_prefixes,
    read_shapes,
)
from bert_tf.config import BertConfig
from bert_tf.distribution import check_batch_size
from bert_tf.settings import DeviceSettings, ModelSettings, RunSettings
from bert_tf.tasks.base import Task

_logger = logging.getLogger("bert_tf")


def check_model(
    model: ModelSettings, run: RunSettings, devices: DeviceSettings
) -> BertConfig:
    """Reads the config and refuses what cannot work with it.

    Raises:
      ValueError: names the flag or file, what was found and expected.
    """
    config = BertConfig.from_json_file(model.bert_config_file)
    if model.max_seq_length > config.max_position_embeddings:
        raise ValueError(
            f"--max_seq_length is {model.max_seq_length}, but the model of "
            f"{model.bert_config_file} has {config.max_position_embeddings} "
            "positions"
        )
    fine_tuning.check(run, config.num_hidden_layers)
    devices.check_paths(
        {
            "output_dir": run.output_dir,
            "init_checkpoint": model.init_checkpoint,
        }
    )
    return config


def check_batches(run: RunSettings, strategy: tf.distribute.Strategy) -> None:
    """Refuses batch sizes and options that the devices cannot take.

    Raises:
      ValueError: names the flag.
    """
    replicas = strategy.num_replicas_in_sync
    for mode in ("train", "eval", "predict"):
        if not getattr(run, f"do_{mode}"):
            continue
        flag = f"{mode}_batch_size"
        size = getattr(run, flag)
        if mode == "train" and run.pack_sequences:
            # Its rows are made to fit, once it is known how many they are.
            continue
        each = check_batch_size(flag, size, replicas)
        _logger.info(
            "--%s=%d: %d on each of %d replica(s)", flag, size, each, replicas
        )
        parts = run.gradient_accumulation_steps
        if mode == "train" and each % parts:
            raise ValueError(
                f"--train_batch_size is {size}, {each} on each replica; that "
                "must be a multiple of --gradient_accumulation_steps "
                f"{parts}"
            )
    if run.eval_every and not run.do_eval:
        raise ValueError("--eval_every needs --do_eval")
    one_device = isinstance(strategy, tf.distribute.OneDeviceStrategy)
    if run.jit_compile and not one_device:
        raise ValueError(
            "--jit_compile works on one device; on a TPU everything is "
            "compiled without it"
        )


def check_folder(
    task: Task,
    config: BertConfig,
    model: ModelSettings,
    run: RunSettings,
    record: Mapping[str, Any],
) -> None:
    """Refuses a folder with another model, or with none where one is needed.

    Args:
      task: tells its model from others.
      config: the architecture.
      model: says what to start from.
      run: says what to do, and where.
      record: what the folder would keep of this run.

    Raises:
      ValueError: names the folder or flag, what is there and what is needed.
    """
    folder, start = run.output_dir, model.init_checkpoint
    run_folder.check_identity(folder, record)
    latest = latest_checkpoint(folder)
    if latest is not None:
        _check_shapes(task, config, folder, latest)
        if start:
            _logger.warning(
                "--output_dir=%s already holds %s: it is used, and "
                "--init_checkpoint=%s is ignored",
                folder,
                os.path.basename(latest),
                start,
            )
        return
    found = list_prefixes(folder) if files.is_dir(folder) else []
    if not found and start:
        read_shapes(start)
    elif not run.do_train:
        raise ValueError(
            f"nothing to evaluate or predict with: --output_dir={folder} "
            "holds no checkpoint and no --init_checkpoint is given"
        )


def _check_shapes(
    task: Task, config: BertConfig, folder: str, checkpoint: str
) -> None:
    found = read_shapes(checkpoint)
    expected = {
        "bert/embeddings/word_embeddings": (
            config.vocab_size,
            config.hidden_size,
        ),
        **task.head_shapes(config),
    }
    for name, shape in expected.items():
        if found.get(name) == shape:
            continue
        what = f"{name} of shape {list(shape)}"
        there = (
            f"there it has {list(found[name])}"
            if name in found
            else "which is not there"
        )
        raise ValueError(
            f"--output_dir={folder} holds {checkpoint}, a checkpoint of "
            f"another model: this run needs {what}, {there}; choose another "
            "folder"
        )
