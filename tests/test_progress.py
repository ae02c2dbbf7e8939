"""Progress on a terminal and elsewhere."""

import io
import logging
import sys

from bert_tf.progress import Progress


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def test_lines_where_there_is_no_terminal(caplog, monkeypatch):
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    clock = Clock()
    with caplog.at_level(logging.INFO, "bert_tf"):
        progress = Progress("train", 10, 2, 4, every=4, clock=clock)
        for _ in range(8):
            clock.now += 2.0
            progress.update(1, loss=0.5)
        progress.note("saved x")
    lines = [record.message for record in caplog.records]
    assert [line.split()[1] for line in lines[:-1]] == [
        "3/10",
        "4/10",
        "8/10",
        "10/10",
    ]
    assert "loss 0.5" in lines[1] and "examples/s 2" in lines[1]
    assert "0:12 left" in lines[1] and "0:00 left" in lines[3]
    assert lines[-1] == "saved x"
    assert progress.rate == 0.5


def test_bar_on_a_terminal(monkeypatch):
    terminal = io.StringIO()
    terminal.isatty = lambda: True
    monkeypatch.setattr(sys, "stderr", terminal)
    with Progress("train", 5, 1, 8) as progress:
        progress.update(2, loss=0.25)
        progress.note("saved y")
        progress.update(2, loss=0.125)
    shown = terminal.getvalue()
    assert "5/5" in shown and "loss=0.125" in shown and "examples/s" in shown
    assert "saved y" in shown
