"""What happens beside the steps: evaluation, the best weights, signals."""

import json
import logging
import signal
import threading
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bert_tf import files, run_folder
from bert_tf.checkpoint import write_checkpoint
from bert_tf.settings import RunSettings

BEST_FILE = "best.json"
_LESS_IS_BETTER = ("loss", "error")

_logger = logging.getLogger("bert_tf")


def is_better(metric: str, value: float, best: float | None) -> bool:
    """Whether a score beats the best; of a loss or error, less is better."""
    if best is None:
        return value == value
    if any(word in metric for word in _LESS_IS_BETTER):
        return value < best
    return value > best


def check_metric(settings: RunSettings, names: Collection[str]) -> None:
    """Refuses a `--best_metric` that the evaluation does not give.

    Args:
      settings: `best_metric`.
      names: the scores of the evaluation; empty if they are not known yet.

    Raises:
      ValueError: names the flag and the scores that there are.
    """
    metric = settings.best_metric
    if metric and names and metric not in names:
        raise ValueError(
            f"--best_metric is {metric!r}, the evaluation gives "
            f"{', '.join(sorted(names))}"
        )


class Watch:
    """Evaluates every so many steps, keeps the best weights, ends early.

    Args:
      settings: `eval_every`, `best_metric`, `early_stopping`.
      evaluate: step -> scores; None where there is nothing to evaluate.
      weights: gives the variables to keep, by checkpoint name.
      is_chief: whether this process writes.
    """

    def __init__(
        self,
        settings: RunSettings,
        evaluate: Callable[[int], Mapping[str, Any]] | None,
        weights: Callable[[], Mapping[str, Any]],
        is_chief: bool = True,
    ):
        self._settings = settings
        self._evaluate = evaluate
        self._weights = weights
        self._is_chief = is_chief
        self._path = run_folder.path_in(settings.output_dir, BEST_FILE)
        self.best = self._read()

    def _read(self) -> dict[str, Any]:
        if files.exists(self._path):
            return json.loads(files.read_bytes(self._path))
        return {"step": None, "value": None, "without_gain": 0}

    def is_due(self, step: int) -> bool:
        """Whether an evaluation follows this step."""
        every = self._settings.eval_every
        return bool(self._evaluate and every and step % every == 0)

    def steps_left(self, step: int) -> int | None:
        """Steps until the next evaluation; None without any."""
        every = self._settings.eval_every
        return every - step % every if self._evaluate and every else None

    def after(self, step: int) -> bool:
        """Evaluates if it is due; tells whether to end the training."""
        if not self.is_due(step):
            return False
        scores = self._evaluate(step)
        metric = self._settings.best_metric or "eval_loss"
        if metric not in scores:
            check_metric(self._settings, scores)
            if self._settings.early_stopping:
                raise ValueError(
                    "--early_stopping needs --best_metric: the evaluation "
                    f"gives no {metric}, but {', '.join(sorted(scores))}"
                )
            return False
        value = float(scores[metric])
        if is_better(metric, value, self.best["value"]):
            self._keep(metric, value, step)
        else:
            self.best["without_gain"] += 1
        self.best["metric"] = metric
        if self._is_chief:
            with files.atomic_write(self._path) as stream:
                json.dump(self.best, stream)
        patience = self._settings.early_stopping
        if patience and self.best["without_gain"] >= patience:
            _logger.info(
                "stopping early at step %d: %s has not been better than %g "
                "(step %d) for %d evaluations",
                step,
                metric,
                self.best["value"],
                self.best["step"],
                patience,
            )
            return True
        return False

    def _keep(self, metric: str, value: float, step: int) -> None:
        self.best = {"step": step, "value": value, "without_gain": 0}
        if not self._settings.best_metric:
            return
        tensors = self._weights()
        if self._is_chief:
            folder = run_folder.path_in(
                self._settings.output_dir, run_folder.BEST_FOLDER
            )
            prefix = write_checkpoint(folder, step, tensors, keep_max=1)
            _logger.info("best %s so far, %g: saved %s", metric, value, prefix)


class StopRequest:
    """Takes note of SIGTERM, which a machine about to be taken away sends.

    As a context manager; outside the main thread it does nothing.
    """

    def __init__(self):
        self.received = False
        self._before = None

    def __enter__(self) -> "StopRequest":
        if threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._note)
        return self

    def _note(self, *unused) -> None:
        self.received = True

    def __exit__(self, *unused) -> None:
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
