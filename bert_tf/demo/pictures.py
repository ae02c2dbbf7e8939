"""The demo's picture: the loss of a run, read from its event file."""

import pathlib

import tensorflow as tf


def read_scalar(folder: pathlib.Path, tag: str) -> list[tuple[int, float]]:
    """(step, value) pairs of one TensorBoard scalar, in order."""
    found = []
    for path in sorted(folder.glob("events.out.tfevents.*")):
        for record in tf.data.TFRecordDataset(str(path)):
            event = tf.compat.v1.Event.FromString(record.numpy())
            for value in event.summary.value:
                if value.tag == tag:
                    number = tf.make_ndarray(value.tensor)
                    found.append((event.step, float(number)))
    return sorted(found)


def draw_loss(folder: pathlib.Path, target: pathlib.Path) -> None:
    """Draws the masked-LM loss of a run over its steps as a PNG."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4))
    axes.plot(*zip(*read_scalar(folder, "loss"), strict=True))
    axes.set_xlabel("step")
    axes.set_ylabel("masked-LM loss (nats)")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(target, dpi=120)
    pyplot.close(figure)
