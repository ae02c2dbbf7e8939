"""Several runs that differ in the seed alone, and what they have in common.

The score of one fine-tuning run on little data says little (Devlin et al.
2018, arXiv 1810.04805, section 4.1, took the best of several; Dodge et al.
2020, arXiv 2002.06305, show how far they lie apart).
"""

import dataclasses
import gc
import json
import logging
import math
import statistics
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from bert_tf import files
from bert_tf.settings import RunSettings

SEEDS_FILE = "seeds.json"

_logger = logging.getLogger("bert_tf")


def run_seeds(
    run_one: Callable[[RunSettings], Mapping[str, Mapping[str, Any]]],
    settings: RunSettings,
) -> dict[str, dict[str, float]]:
    """Makes one run for each seed, and sums the scores up.

    The runs have the seeds `random_seed`, `random_seed + 1`, ... and the
    sub-folders `seed-<seed>`. A run that is complete is only evaluated again,
    so a series that was interrupted goes on where it stood.

    Args:
      run_one: makes a run and returns the scores of each part.
      settings: of the whole; `num_seeds` says how many.

    Returns:
      The mean of each score of each part.
    """
    seeds = range(
        settings.random_seed, settings.random_seed + settings.num_seeds
    )
    folders = [f"seed-{seed}" for seed in seeds]
    found = []
    for i, (seed, folder) in enumerate(zip(seeds, folders, strict=True)):
        _logger.info("seed %d (%d of %d)", seed, i + 1, len(seeds))
        one = dataclasses.replace(
            settings,
            num_seeds=1,
            random_seed=seed,
            output_dir=f"{settings.output_dir.rstrip('/')}/{folder}",
        )
        # The model of the run before hangs in cycles.
        gc.collect()
        found.append(run_one(one))
    scores = summarise(found)
    summary = {"seeds": list(seeds), "folders": folders, "scores": scores}
    path = f"{settings.output_dir.rstrip('/')}/{SEEDS_FILE}"
    with files.atomic_write(path) as stream:
        json.dump(summary, stream, indent=2, allow_nan=False)
        stream.write("\n")
    for part, values in scores.items():
        _logger.info("%s, %d seeds (%s)", part, len(seeds), path)
        for name, score in values.items():
            _logger.info("  %s", _describe(name, score))
    return {
        part: {name: score["mean"] for name, score in values.items()}
        for part, values in scores.items()
    }


def summarise(
    found: Iterable[Mapping[str, Mapping[str, Any]]],
) -> dict[str, dict[str, Any]]:
    """Sums up the scores of several runs.

    Args:
      found: the scores of each run: part -> name -> value.

    Returns:
      Part -> name -> `values`, `mean` and `standard_deviation` (with n - 1 in
      the divisor). What is no number in every run is left out, and so is
      `global_step`; a value that is not finite is None, and makes the mean
      and the deviation None.
    """
    found = list(found)
    summary: dict[str, dict[str, Any]] = {}
    for part in found[0]:
        summary[part] = {}
        for name in sorted(found[0][part]):
            values = [one[part].get(name) for one in found]
            if name == "global_step" or not all(map(_is_number, values)):
                continue
            summary[part][name] = _statistics([float(x) for x in values])
    return summary


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.number)) and not isinstance(
        value, bool
    )


def _statistics(values: list[float]) -> dict[str, Any]:
    if not all(map(math.isfinite, values)):
        kept = [x if math.isfinite(x) else None for x in values]
        return {"values": kept, "mean": None, "standard_deviation": None}
    return {
        "values": values,
        "mean": statistics.fmean(values),
        "standard_deviation": (
            statistics.stdev(values) if len(values) > 1 else None
        ),
    }


def _describe(name: str, score: Mapping[str, Any]) -> str:
    """One line for the log."""

    def text(value):
        return "none" if value is None else f"{value:.4f}"

    values = " ".join(map(text, score["values"]))
    mean, deviation = score["mean"], score["standard_deviation"]
    return f"{name} = {text(mean)} +- {text(deviation)} ({values})"
