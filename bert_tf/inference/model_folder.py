"""What a folder with a model holds, found without TensorFlow."""

import dataclasses
import json
import logging
import os
import re
from typing import Any

from bert_tf import files, run_folder
from bert_tf.config import BertConfig
from bert_tf.tokenization import FullTokenizer, check_casing
from bert_tf.tokenization.characters import fold
from bert_tf.tokenization.vocab import check_vocab_size

_logger = logging.getLogger("bert_tf")

_HUGGING_FACE_CONFIG = "config.json"
_HUGGING_FACE_TOKENIZER = "tokenizer_config.json"
# Released folders that say in another way that their text is lower-cased.
_LOWER_CASED_RELEASES = ("chinese_L-12_H-768_A-12", "multilingual_L-12_H-768")
# Vocabularies of lower-cased models hold at most 0.01% of entries that
# lower-casing would change, those of cased ones at least 17%.
_CASED_SHARE = 0.01
_GUESSES = ("folder name", "vocabulary")


@dataclasses.dataclass(frozen=True)
class ModelFolder:
    """A run folder or the folder of a released model.

    Attributes:
      path: the folder.
      config: the architecture.
      tokenizer: its vocabulary and casing.
      checkpoint: prefix of the checkpoint to load.
      casing_source: where `tokenizer.do_lower_case` comes from, in words.
      max_seq_length: S, the longest input.
      run: the contents of `run.json`; empty for a released model.
    """

    path: str
    config: BertConfig
    tokenizer: FullTokenizer
    checkpoint: str
    casing_source: str
    max_seq_length: int
    run: dict[str, Any]

    def labels(self) -> list[str] | None:
        """The label list that was stored with the model, if any."""
        if self.run.get("labels"):
            return list(self.run["labels"])
        path = run_folder.existing(self.path, run_folder.LABELS_FILE)
        if path is None:
            return None
        text = files.read_bytes(path).decode("utf-8-sig")
        return [line.removesuffix("\r") for line in text.split("\n") if line]

    def check_task(self, *expected: str) -> None:
        """Refuses a run folder of another task.

        Raises:
          ValueError: names the folder, its task and what was expected.
        """
        task = self.run.get("task")
        if task is not None and task not in expected:
            raise ValueError(
                f"{self.path} holds a model for the task {task!r}, expected "
                f"{' or '.join(map(repr, expected))}"
            )


def open_model_folder(
    path: str | os.PathLike,
    *,
    do_lower_case: bool | None = None,
    max_seq_length: int | None = None,
    checkpoint: str | None = None,
    never_split: tuple[str, ...] = (),
) -> ModelFolder:
    """Finds config, vocabulary, checkpoint, casing and length of a model.

    Args:
      path: a run folder (with `run.json`), or a folder with
        `bert_config.json`, `vocab.txt` and a checkpoint, as released; a
        Hugging Face folder with `config.json` and `vocab.txt` will do.
      do_lower_case: None takes what the run has stored; a folder without
        that is judged by its config, its name and its vocabulary, and a
        warning says how.
      max_seq_length: None takes the run's, else all positions of the model.
      checkpoint: another checkpoint than the folder's best (of a training
        with `--best_metric`), else its latest or only one.
      never_split: see `FullTokenizer`.

    Raises:
      ValueError: no such folder, a file missing or damaged, or values that
        do not fit together.
    """
    from bert_tf.checkpoint import resolve_checkpoint

    path = os.fspath(path)
    if not files.is_dir(path):
        raise ValueError(f"{path}: no such folder, expected one with a model")
    config_file = run_folder.existing(path, _HUGGING_FACE_CONFIG)
    if config_file is None or run_folder.existing(path, run_folder.CONFIG_FILE):
        config_file = _needed(path, run_folder.CONFIG_FILE)
    config = BertConfig.from_json_file(config_file)
    vocab_file = _needed(path, run_folder.VOCAB_FILE)
    run = run_folder.read_run(path)
    best = run_folder.best_checkpoint(path)
    prefix = resolve_checkpoint(checkpoint or best or path)
    casing, source = do_lower_case, "given"
    if casing is None:
        casing, source = _find_casing(path, config, vocab_file, run)
    check_casing(casing, _released_name(path))
    tokenizer = FullTokenizer(vocab_file, casing, never_split)
    check_casing(casing, None, tokenizer)
    check_vocab_size(tokenizer.vocab, config)
    if source in _GUESSES:
        _logger.warning(
            "%s does not say its casing; do_lower_case=%s, by its %s. Give "
            "do_lower_case if that is wrong",
            path,
            casing,
            source,
        )
    positions = config.max_position_embeddings
    length = max_seq_length or run.get("max_seq_length") or positions
    if not 3 <= length <= positions:
        raise ValueError(
            f"max_seq_length is {length}, expected 3 to {positions}, the "
            f"positions of {config.source}"
        )
    return ModelFolder(path, config, tokenizer, prefix, source, length, run)


def _needed(folder: str, name: str) -> str:
    path = run_folder.existing(folder, name)
    if path is None:
        raise ValueError(
            f"{folder} has no {name}; expected a run folder or the folder of "
            f"a released model, found {', '.join(files.list_dir(folder)[:20])}"
        )
    return path


def _released_name(folder: str) -> str:
    """The path by which `check_casing` knows a released model."""
    return f"{folder.rstrip('/')}/bert_model.ckpt"


def _find_casing(
    folder: str, config: BertConfig, vocab_file: str, run: dict[str, Any]
) -> tuple[bool, str]:
    """Casing, and where it was found."""
    tokenizer_config = {}
    if path := run_folder.existing(folder, _HUGGING_FACE_TOKENIZER):
        try:
            tokenizer_config = json.loads(files.read_bytes(path))
        except ValueError as error:
            raise ValueError(f"{path}: not JSON: {error}") from None
    for values, source in (
        (run, run_folder.RUN_FILE),
        (config.extra, "config"),
        (tokenizer_config, _HUGGING_FACE_TOKENIZER),
    ):
        if isinstance(values.get("do_lower_case"), bool):
            return values["do_lower_case"], source
    name = os.path.basename(os.path.abspath(folder)).lower()
    words = re.split(r"[^a-z0-9]+", name)
    if "uncased" in words or name.startswith(_LOWER_CASED_RELEASES):
        return True, "folder name"
    if "cased" in words:
        return False, "folder name"
    return not _has_capitals(vocab_file), "vocabulary"


def _has_capitals(vocab_file: str) -> bool:
    from bert_tf.tokenization import load_vocab

    entries = [x for x in load_vocab(vocab_file) if not x.startswith("[")]
    changed = sum(fold(x, True, True) != x for x in entries)
    return changed > _CASED_SHARE * len(entries)
