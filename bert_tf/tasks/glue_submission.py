"""Files in the form that the GLUE server takes."""

import logging
import os
from collections.abc import Sequence

import numpy as np

from bert_tf import files, metrics
from bert_tf.tasks.data_sets import DataSet

_log = logging.getLogger("bert_tf")

# Of STS-B, the only regression in GLUE.
_LOWEST, _HIGHEST = 0.0, 5.0


def write_glue_submission(
    data_set: DataSet,
    split: str,
    ids: Sequence[str],
    predictions: Sequence[float],
    folder: str | os.PathLike,
) -> str:
    """Writes the submission file of one test file.

    Args:
      data_set: one of GLUE.
      split: name of the test file's split, as `"test_mismatched"`.
      ids: index column of the test file [n].
      predictions: class ids [n], or numbers [n] in regression, which are
        cut to the range of STS-B, 0 to 5.
      folder: made if absent.

    Returns:
      The path of the file: header `index` and `prediction`, then one line
      for each row in the order given, labels spelt as in the data set.

    Raises:
      ValueError: the split is not submitted to GLUE, ids are not one each
        or not unique, or a class id is out of range.
    """
    part = data_set.split(split)
    if part.submission is None:
        raise ValueError(f"{data_set.name} {split} is not submitted to GLUE")
    if len(ids) != len(predictions):
        raise ValueError(f"{len(ids)} ids but {len(predictions)} predictions")
    if len(set(ids)) != len(ids):
        raise ValueError(f"{part.file}: some values of the index column recur")
    if data_set.kind == "regression":
        if not np.isfinite(predictions).all():
            raise ValueError("predictions: some are not finite")
        cells = [
            f"{min(max(float(value), _LOWEST), _HIGHEST):.4f}"
            for value in predictions
        ]
    else:
        metrics.check_class_ids(
            predictions, len(data_set.labels), "predictions"
        )
        cells = [data_set.labels[int(k)] for k in predictions]
    if len(ids) != part.submission_rows:
        _log.warning(
            "%s: %d rows, but the GLUE server expects %d",
            part.submission,
            len(ids),
            part.submission_rows,
        )
    folder = os.fspath(folder)
    files.make_dirs(folder)
    path = f"{folder.rstrip('/')}/{part.submission}"
    with files.atomic_write(path) as stream:
        stream.write("index\tprediction\n")
        for row_id, cell in zip(ids, cells, strict=True):
            stream.write(f"{row_id}\t{cell}\n")
    return path
