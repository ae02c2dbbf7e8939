"""Record files of pre-training: what they hold, how many records."""

import concurrent.futures
import contextlib
import itertools
import logging
from collections.abc import Sequence

from bert_tf.pretraining_settings import features_of_record
from bert_tf.records import FeatureSpec, read_records

# Opening a remote file is mostly waiting.
_FILES_AT_ONCE = 16

_logger = logging.getLogger("bert_tf")


def _first_record(path: str) -> bytes | None:
    with contextlib.closing(read_records(path)) as records:
        return next(records, None)


def check_files(
    paths: Sequence[str],
    max_seq_length: int,
    max_predictions_per_seq: int,
) -> tuple[list[str], FeatureSpec]:
    """Reads the first record of each file and compares it with the flags.

    Args:
      paths: TFRecord files.
      max_seq_length: S of the run.
      max_predictions_per_seq: P of the run.

    Returns:
      The files that hold records, and the features of their records.

    Raises:
      ValueError: a file is damaged or has no pre-training records, or ones
        of another length or number of predictions; files are of two kinds;
        no file holds a record.
    """
    with concurrent.futures.ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        firsts = dict(zip(paths, pool.map(_first_record, paths), strict=True))
    filled = [path for path in paths if firsts[path] is not None]
    if not filled:
        raise ValueError(
            f"--input_file: no record in {len(paths)} file(s): "
            + ", ".join(paths[:5])
        )
    if len(filled) < len(paths):
        empty = [path for path in paths if firsts[path] is None]
        _logger.warning(
            "%d of %d record files hold no record: %s",
            len(empty),
            len(paths),
            ", ".join(empty[:5]),
        )
    specs = [
        features_of_record(
            firsts[path], path, max_seq_length, max_predictions_per_seq
        )
        for path in filled
    ]
    for path, spec in zip(filled, specs, strict=True):
        if set(spec.names()) != set(specs[0].names()):
            raise ValueError(
                "--input_file: records of two kinds: those of "
                f"{filled[0]} have {_listed(specs[0])}, those of {path} have "
                f"{_listed(spec)}; train on one kind at a time"
            )
    return filled, specs[0]


def _listed(spec: FeatureSpec) -> str:
    return ", ".join(sorted(spec.names()))


def count_records(paths: Sequence[str], limit: int) -> int:
    """Counts the records of all files, up to `limit`."""
    every = itertools.chain.from_iterable(map(read_records, paths))
    return sum(1 for _ in itertools.islice(every, limit))
