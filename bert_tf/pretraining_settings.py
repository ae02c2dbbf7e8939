"""Settings of pre-training data, and the features of its records.

Shape letters: S sequence length, P masked predictions.
"""

import dataclasses
import os

from bert_tf import records

MODES = ("auto", "exact", "streaming")
MASKINGS = ("static", "dynamic")
ENCODING_ERRORS = ("", "error", "ignore")

# The shortest pair, [CLS] a [SEP] b [SEP].
_SHORTEST = 5
_LONGEST = 32_767
_LARGEST_SEED = (1 << 63) - 1


@dataclasses.dataclass(frozen=True)
class PretrainingDataSettings:
    """What `create_pretraining_data` is asked for; names are those of flags.

    The first eleven, with their defaults, are the original's.

    Attributes:
      input_file: comma-separated patterns of text files.
      output_file: comma-separated record files; `name@N` stands for N shards.
      vocab_file: one WordPiece a line.
      do_lower_case: what the model's casing is.
      do_whole_word_mask: all pieces of a word are masked together.
      max_seq_length: S, special tokens included.
      max_predictions_per_seq: P, places for masked tokens in a record.
      random_seed: same seed, same records.
      dupe_factor: passes over the text.
      masked_lm_prob: share of an instance's tokens that is predicted.
      short_seq_prob: chance of a document, in each pass, to be cut into
        instances of a random shorter length.
      mode: `"exact"`, `"streaming"`, or `"auto"`, which is exact up to
        `auto_threshold_mb` of text.
      auto_threshold_mb: in units of 2**20 bytes.
      num_workers: processes in streaming mode; 0 takes one for each core.
      masking: `"static"` masks in the records; `"dynamic"` leaves them to
        `pretraining_masking.mask_batch`.
      compression: `""` or `"GZIP"`.
      word_segmenter: empty, `"jieba"` or `"module:function"`.
      encoding_errors: `"error"`, `"ignore"`, or empty for the mode's own:
        exact ignores bytes that are no UTF-8 as the original does, and
        counts them; streaming stops.
      work_dir: where streaming keeps its temporary files; empty for a hidden
        folder beside the output.
      dry_run: count only, write nothing.
    """

    input_file: str
    output_file: str
    vocab_file: str
    do_lower_case: bool = True
    do_whole_word_mask: bool = False
    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    random_seed: int = 12345
    dupe_factor: int = 10
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    mode: str = "auto"
    auto_threshold_mb: int = 64
    num_workers: int = 0
    masking: str = "static"
    compression: str = ""
    word_segmenter: str = ""
    encoding_errors: str = ""
    work_dir: str = ""
    dry_run: bool = False

    def __post_init__(self):
        for name in ("input_file", "vocab_file"):
            if not getattr(self, name):
                self._refuse(name, "a path")
        if not self.output_file and not self.dry_run:
            self._refuse("output_file", "a path")
        for name, allowed in (
            ("mode", MODES),
            ("masking", MASKINGS),
            ("compression", ("", "GZIP")),
            ("encoding_errors", ENCODING_ERRORS),
        ):
            if getattr(self, name) not in allowed:
                self._refuse(name, "one of " + ", ".join(filter(None, allowed)))
        for name, low, high in (
            ("max_seq_length", _SHORTEST, _LONGEST),
            ("max_predictions_per_seq", 1, _LONGEST),
            ("random_seed", -_LARGEST_SEED, _LARGEST_SEED),
            ("dupe_factor", 1, 1 << 20),
            ("auto_threshold_mb", 0, 1 << 40),
            ("num_workers", 0, 1 << 10),
        ):
            if not low <= getattr(self, name) <= high:
                self._refuse(name, f"{low} to {high}")
        if not 0 < self.masked_lm_prob <= 1:
            self._refuse("masked_lm_prob", "above 0, at most 1")
        if not 0 <= self.short_seq_prob <= 1:
            self._refuse("short_seq_prob", "0 to 1")
        if self.masking == "dynamic" and self.mode == "exact":
            raise ValueError(
                "--masking=dynamic with --mode=exact: the original has masks "
                "in its records; expected --mode=streaming or auto"
            )
        if self.word_segmenter and not self.do_whole_word_mask:
            raise ValueError(
                f"--word_segmenter={self.word_segmenter} has no effect "
                "without --do_whole_word_mask"
            )

    def _refuse(self, name: str, expected: str) -> None:
        raise ValueError(
            f"--{name} is {getattr(self, name)!r}, expected {expected}"
        )

    @property
    def max_num_tokens(self) -> int:
        """Room for the pieces of both texts, special tokens taken off."""
        return self.max_seq_length - 3

    def output_paths(self) -> list[str]:
        """The record files, `name@N` expanded.

        Raises:
          ValueError: a path is named twice.
        """
        paths: list[str] = []
        for name in self.output_file.split(","):
            if name.strip():
                paths += records.shard_paths(name.strip())
        twice = {path for path in paths if paths.count(path) > 1}
        if twice:
            raise ValueError(f"--output_file names {sorted(twice)[0]} twice")
        return paths

    def manifest_path(self) -> str:
        """Where the manifest goes: `manifest-NAME.json` beside the output.

        The name comes last so that a pattern such as `NAME*` finds records
        only.
        """
        first = self.output_file.split(",")[0].strip().split("@")[0]
        folder, name = os.path.split(first)
        return os.path.join(folder, f"manifest-{name}.json")


def prediction_counts(
    max_seq_length: int, max_predictions_per_seq: int, masked_lm_prob: float
) -> list[int]:
    """Number of predictions of an instance by its length in tokens.

    At least one, `round` to even, special tokens counted
    (google-research/bert, `create_pretraining_data.py`).

    Returns:
      S + 1 numbers.
    """
    return [
        min(max_predictions_per_seq, max(1, round(length * masked_lm_prob)))
        for length in range(max_seq_length + 1)
    ]


def static_features(
    max_seq_length: int, max_predictions_per_seq: int
) -> records.FeatureSpec:
    """Features of a record with masks, in the order the original stores."""
    s, p = (max_seq_length,), (max_predictions_per_seq,)
    return records.FeatureSpec(
        [
            records.Feature("masked_lm_ids", p),
            records.Feature("input_ids", s),
            records.Feature("masked_lm_positions", p),
            records.Feature("next_sentence_labels", (1,)),
            records.Feature("input_mask", s),
            records.Feature("masked_lm_weights", p, "float32"),
            records.Feature("segment_ids", s),
        ]
    )


def dynamic_features(
    max_seq_length: int, whole_words: bool = False
) -> records.FeatureSpec:
    """Features of a record without masks, `--masking=dynamic`.

    Args:
      max_seq_length: S.
      whole_words: the records were made with `--do_whole_word_mask`.

    Returns:
      `input_ids`, `input_mask`, `segment_ids` [S], `next_sentence_labels`
      [1] as in a static record, `masking_vocabulary` [2], the id of `[MASK]`
      and the number of ids that random replacements are drawn from, and
      for whole words `word_starts` [S], 1 where a word begins, 0 on its other
      pieces, special tokens and padding.
    """
    s = (max_seq_length,)
    features = [
        records.Feature("input_ids", s),
        records.Feature("next_sentence_labels", (1,)),
        records.Feature("input_mask", s),
        records.Feature("segment_ids", s),
        records.Feature("masking_vocabulary", (2,)),
    ]
    if whole_words:
        features.append(records.Feature("word_starts", s))
    return records.FeatureSpec(features)


def features_of_record(
    record: bytes, path: str, max_seq_length: int, max_predictions_per_seq: int
) -> records.FeatureSpec:
    """Tells what kind of pre-training record this is, and checks it.

    Args:
      record: the first record of a file.
      path: that file, for the error.
      max_seq_length: S that the reader expects.
      max_predictions_per_seq: P that the reader expects.

    Returns:
      The features to parse with; a dynamic record is told by its
      `masking_vocabulary`.

    Raises:
      ValueError: no pre-training record, or made with another length or
        another number of predictions.
    """
    found = records.decode_example(record)
    if "masking_vocabulary" in found:
        spec = dynamic_features(max_seq_length, "word_starts" in found)
    else:
        spec = static_features(max_seq_length, max_predictions_per_seq)
    spec.check_record(
        record,
        path,
        "; --max_seq_length and --max_predictions_per_seq must be those that "
        "create_pretraining_data was run with",
    )
    return spec
