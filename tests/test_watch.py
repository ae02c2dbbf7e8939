"""Evaluation in between, the best weights, early stopping, SIGTERM."""

import json
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import watch
from bert_tf.checkpoint import latest_checkpoint, read_variables
from bert_tf.settings import RunSettings


def make(tmp_path, scores, **settings):
    """A watch whose evaluations give the scores in turn."""
    given = iter(scores)
    weight = tf.Variable(0.0)

    def evaluate(step):
        weight.assign(float(step))
        return next(given)

    run = RunSettings(
        str(tmp_path),
        do_train=True,
        do_eval=True,
        eval_every=10,
        **settings,
    )
    return watch.Watch(run, evaluate, lambda: {"w": weight})


def accuracies(*values):
    return [{"eval_accuracy": v, "eval_loss": 1.0 - v} for v in values]


def test_less_is_better_of_losses_and_errors():
    for metric in ("eval_loss", "eval_mean_squared_error"):
        assert watch.is_better(metric, 0.1, 0.2)
        assert not watch.is_better(metric, 0.3, 0.2)
    assert watch.is_better("eval_matthews", 0.3, 0.2)


def test_a_metric_that_nobody_computes():
    run = RunSettings("x", do_train=True, eval_every=1, best_metric="matthews")
    watch.check_metric(run, ())
    watch.check_metric(run, ("matthews", "eval_loss"))
    message = "--best_metric is 'matthews', the evaluation gives eval_loss, f1"
    with pytest.raises(ValueError, match=message):
        watch.check_metric(run, ("f1", "eval_loss"))


def test_evaluates_only_when_due(tmp_path):
    looking = make(tmp_path, accuracies(0.5))
    assert [s for s in range(1, 21) if looking.is_due(s)] == [10, 20]
    assert looking.steps_left(13) == 7
    assert not looking.after(9)
    assert not looking.after(10)
    quiet = watch.Watch(RunSettings("x", do_train=True), None, dict)
    assert quiet.steps_left(3) is None and not quiet.after(10)


def test_best_weights_are_kept(tmp_path):
    looking = make(
        tmp_path,
        accuracies(0.5, 0.7, 0.6),
        best_metric="eval_accuracy",
    )
    for step in (10, 20, 30):
        looking.after(step)
    best = latest_checkpoint(str(tmp_path / "best"))
    assert best.endswith("model.ckpt-20")
    assert read_variables(best)["w"] == 20.0
    assert looking.best["value"] == 0.7 and looking.best["without_gain"] == 1
    files = sorted(p.name for p in (tmp_path / "best").glob("*.index"))
    assert files == ["model.ckpt-20.index"]


def test_of_a_loss_less_is_better():
    assert watch.is_better("eval_loss", 0.4, 0.5)
    assert not watch.is_better("eval_loss", 0.6, 0.5)
    assert watch.is_better("eval_f1", 0.6, 0.5)
    assert not watch.is_better("eval_f1", float("nan"), None)


def test_early_stopping_counts_over_restarts(tmp_path):
    options = {"best_metric": "eval_accuracy", "early_stopping": 2}
    looking = make(tmp_path, accuracies(0.7, 0.6), **options)
    assert not looking.after(10) and not looking.after(20)
    again = make(tmp_path, accuracies(0.5), **options)
    assert again.best["step"] == 10
    assert again.after(30)
    assert json.loads((tmp_path / "best.json").read_text())["step"] == 10


def test_unknown_metric_lists_what_there_is(tmp_path):
    looking = make(tmp_path, accuracies(0.5), best_metric="f1")
    with pytest.raises(ValueError, match=r"'f1'.*eval_accuracy, eval_loss"):
        looking.after(10)


def test_metrics_need_evaluations():
    with pytest.raises(ValueError, match="need --eval_every"):
        RunSettings("x", do_train=True, best_metric="eval_loss")


def test_sigterm_is_noted_and_the_old_handler_put_back():
    before = signal.getsignal(signal.SIGTERM)
    with watch.StopRequest() as stop:
        assert not stop.received
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.received
    assert signal.getsignal(signal.SIGTERM) is before
    np.testing.assert_equal(stop.received, True)
