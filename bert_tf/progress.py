"""What a run shows while it works: a bar on a terminal, lines elsewhere."""

import logging
import sys
import time

_logger = logging.getLogger("bert_tf")


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(int(seconds + 0.5), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}:{minutes:02d}:{seconds:02d}"
    return f"{minutes}:{seconds:02d}"


class Progress:
    """Counts steps; says how fast it goes and how long it will take.

    Args:
      what: first word of the bar or line.
      total: steps in all.
      done: steps done before this run.
      examples_per_step: to turn steps/s into examples/s.
      every: steps between two lines where there is no terminal.
      clock: seconds, monotonic; given by tests.
    """

    def __init__(
        self,
        what: str,
        total: int,
        done: int = 0,
        examples_per_step: float = 1,
        every: int = 100,
        clock=time.monotonic,
    ):
        self.what = what
        self.total = total
        self.done = done
        self.examples_per_step = examples_per_step
        self.every = every
        self.rate = 0.0
        self._clock = clock
        self._start = self._last_line_time = clock()
        self._first = self._last_line = done
        self._bar = None
        if sys.stderr.isatty():
            import tqdm

            self._bar = tqdm.tqdm(
                desc=what, total=total, initial=done, unit="step"
            )

    def update(self, steps: int, **values: float) -> None:
        """Reports `steps` more steps, with values to show beside."""
        self.done += steps
        now = self._clock()
        elapsed = max(now - self._start, 1e-9)
        self.rate = (self.done - self._first) / elapsed
        shown = {
            **values,
            "examples/s": self.rate * self.examples_per_step,
        }
        if self._bar is not None:
            self._bar.set_postfix(
                {k: f"{v:.4g}" for k, v in shown.items()}, refresh=False
            )
            self._bar.update(steps)
            return
        crossed = self.done // self.every > self._last_line // self.every
        if crossed or self.done >= self.total or self._last_line == self._first:
            self._last_line = self.done
            left = (self.total - self.done) / self.rate if self.rate else 0
            _logger.info(
                "%s %d/%d  %s  %s left",
                self.what,
                self.done,
                self.total,
                "  ".join(f"{k} {v:.4g}" for k, v in shown.items()),
                _duration(left),
            )

    def note(self, message: str) -> None:
        """Prints a line without tearing the bar."""
        if self._bar is not None:
            self._bar.write(message, file=sys.stderr)
        else:
            _logger.info("%s", message)

    def close(self) -> None:
        """Ends the bar."""
        if self._bar is not None:
            self._bar.close()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *unused) -> None:
        self.close()
