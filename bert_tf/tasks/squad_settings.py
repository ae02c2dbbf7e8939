"""Settings of SQuAD: files, windows, choice of answers. No TensorFlow."""

import dataclasses
from typing import Any

from bert_tf import files
from bert_tf.tasks.squad_answers import AnswerSettings
from bert_tf.tasks.squad_data import (
    ReadReport,
    SquadExample,
    read_squad_examples,
)
from bert_tf.tasks.squad_windows import SquadFeaturizer, check_lengths

COUNTS = ("questions", "windows")


@dataclasses.dataclass(frozen=True)
class SquadSettings:
    """What is read, how it is cut, how answers are chosen and scored.

    Attributes:
      train_file: SQuAD file to train on.
      eval_file: SQuAD file to score answers on.
      predict_file: SQuAD file to answer.
      max_seq_length: S.
      doc_stride: distance between the starts of windows, in pieces.
      max_query_length: longest question, in pieces; the rest is cut off.
      version_2_with_negative: questions may have no answer.
      null_score_diff_threshold: null odds above which there is no answer;
        None for the one that the last evaluation found best, 0 without one.
      n_best_size: start and end candidates a window, and entries a list.
      max_answer_length: longest answer, in pieces.
      split_cjk_words: each CJK character of a context is a word, in scoring
        too.
      split_unicode_blanks: contexts are split at every Unicode blank.
      count_steps_by: `"questions"`, as in the original, or `"windows"`.
      verbose_logging: log every span that cannot be mapped back exactly.
      pack_sequences: the model is trained on packed rows, where the padding
        of a window takes no part; so it takes none in the choice of answers.
    """

    train_file: str | None = None
    eval_file: str | None = None
    predict_file: str | None = None
    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64
    version_2_with_negative: bool = False
    null_score_diff_threshold: float | None = None
    n_best_size: int = 20
    max_answer_length: int = 30
    split_cjk_words: bool = False
    split_unicode_blanks: bool = False
    count_steps_by: str = "questions"
    verbose_logging: bool = False
    pack_sequences: bool = False

    def __post_init__(self):
        check_lengths(
            self.max_seq_length, self.doc_stride, self.max_query_length
        )
        self.answer_settings(0.0)
        if self.count_steps_by not in COUNTS:
            raise ValueError(
                f"--count_steps_by is {self.count_steps_by!r}, expected one "
                f"of {', '.join(COUNTS)}"
            )
        for flag in ("train_file", "predict_file", "eval_file"):
            path = getattr(self, flag)
            if path and not files.exists(path):
                raise ValueError(f"--{flag}={path}: no such file")

    def file_of(self, mode: str) -> str:
        """The file that a mode reads.

        Raises:
          ValueError: it is not given.
        """
        path = getattr(self, f"{mode}_file")
        if not path:
            hint = " or --predict_file" if mode == "eval" else ""
            raise ValueError(f"--do_{mode} needs --{mode}_file{hint}")
        return path

    def read(self, mode: str) -> tuple[list[SquadExample], ReadReport]:
        """Reads the questions of a mode's file."""
        return read_squad_examples(
            self.file_of(mode),
            mode == "train",
            self.version_2_with_negative,
            self.split_cjk_words,
            self.split_unicode_blanks,
        )

    def featurizer(self, tokenizer, is_training: bool) -> SquadFeaturizer:
        """What cuts questions into windows."""
        return SquadFeaturizer(
            tokenizer,
            self.max_seq_length,
            self.doc_stride,
            self.max_query_length,
            is_training,
        )

    def answer_settings(self, threshold: float) -> AnswerSettings:
        """How answers are chosen, given the null threshold in force."""
        return AnswerSettings(
            self.n_best_size,
            self.max_answer_length,
            self.version_2_with_negative,
            threshold,
            self.verbose_logging,
        )

    def description(self) -> dict[str, Any]:
        """What later use of the model needs to know; JSON values."""
        return {name: getattr(self, name) for name in STORED}


# Settings that a run folder remembers.
STORED = (
    "version_2_with_negative",
    "doc_stride",
    "max_query_length",
    "split_cjk_words",
    "split_unicode_blanks",
    "pack_sequences",
)
