"""What of a model is trained, how fast, and from which values.

Frozen parts serve as features; lower layers may learn more slowly (Howard and
Ruder 2018, arXiv 1801.06146, section 3.2; Clark et al. 2020, arXiv
2003.10555, appendix B); the top layers may start afresh (Zhang et al. 2020,
arXiv 2006.05987, section 4).

All is decided by the names that variables have in a checkpoint.
"""

import contextlib
import dataclasses
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from bert_tf.settings import RunSettings

_EXPECTED = (
    "expected encoder (all but the head), embeddings, pooler, layers:5 or "
    "layers:0-5, several joined by commas"
)
_ENCODER = "bert/"
_EMBEDDINGS = "bert/embeddings/"
_POOLER = "bert/pooler/"
_LAYER = re.compile(r"bert/encoder/layer_(\d+)/")
_SLOTS = ("adam_m", "adam_v")

_logger = logging.getLogger("bert_tf")


# Freezing -----------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a model, told by names of variables.

    Attributes:
      prefixes: holds a variable whose name begins with one of them.
      layers: holds the variables of these encoder layers.
    """

    prefixes: tuple[str, ...] = ()
    layers: frozenset[int] = frozenset()

    def __contains__(self, name: str) -> bool:
        layer = layer_of(name)
        return name.startswith(self.prefixes) or (
            layer is not None and layer in self.layers
        )


def layer_of(name: str) -> int | None:
    """The encoder layer that a variable belongs to, from 0, if any."""
    found = _LAYER.match(name)
    return int(found[1]) if found else None


def parse_freeze(freeze: str, num_layers: int) -> Part:
    """Reads the value of `--freeze`.

    Args:
      freeze: parts joined by commas: `encoder` (embeddings, all layers and
        pooler), `embeddings`, `pooler`, `layers:N` or `layers:FIRST-LAST`;
        empty for nothing.
      num_layers: encoder layers of the model.

    Raises:
      ValueError: no such part, or no such layer.
    """
    prefixes: list[str] = []
    layers: set[int] = set()
    whole = {
        "encoder": _ENCODER,
        "embeddings": _EMBEDDINGS,
        "pooler": _POOLER,
    }
    for part in filter(None, (x.strip() for x in freeze.split(","))):
        found = re.fullmatch(r"layers:(\d+)(?:-(\d+))?", part)
        if part in whole:
            prefixes.append(whole[part])
        elif found:
            first = int(found[1])
            last = first if found[2] is None else int(found[2])
            if not first <= last < num_layers:
                raise ValueError(
                    f"--freeze={freeze}: {part}, but the model's layers are "
                    f"0 to {num_layers - 1}, the lower number first"
                )
            layers.update(range(first, last + 1))
        else:
            raise ValueError(f"--freeze={freeze}: {part!r}, {_EXPECTED}")
    return Part(tuple(prefixes), frozenset(layers))


def check(settings: RunSettings, num_layers: int) -> None:
    """Refuses parts and layers that the model does not have.

    Raises:
      ValueError: names the flag, what was found and expected.
    """
    parse_freeze(settings.freeze, num_layers)
    if settings.reinit_top_layers > num_layers:
        raise ValueError(
            f"--reinit_top_layers is {settings.reinit_top_layers}, but the "
            f"model has {num_layers} layers"
        )


# Learning rates -------------------------------------------------------------


def depth_factor(name: str, num_layers: int, decay: float) -> float:
    """How fast a variable learns beside the head.

    The head and the pooler have factor 1, the top layer `decay`, each layer
    below `decay` times that of the one above it, the embeddings
    `decay ** (num_layers + 1)`.
    """
    layer = layer_of(name)
    if layer is not None:
        return decay ** (num_layers - layer)
    return decay ** (num_layers + 1) if name.startswith(_EMBEDDINGS) else 1.0


def learning_rate_factors(
    names: Iterable[str], num_layers: int, settings: RunSettings
) -> dict[str, float]:
    """The factor of each variable's learning rate; 0 freezes.

    Args:
      names: all variables of the model.
      num_layers: its encoder layers.
      settings: give `freeze` and `layerwise_lr_decay`.

    Returns:
      Name -> factor, only where it is not 1.

    Raises:
      ValueError: see `parse_freeze`.
    """
    frozen = parse_freeze(settings.freeze, num_layers)
    factors = {}
    for name in names:
        factor = depth_factor(name, num_layers, settings.layerwise_lr_decay)
        if name in frozen:
            factor = 0.0
        if factor != 1.0:
            factors[name] = factor
    count = sum(factor == 0.0 for factor in factors.values())
    if count:
        _logger.info("--freeze=%s: %d variables", settings.freeze, count)
    return factors


def check_slots(
    checkpoint: str,
    in_file: Collection[str],
    trained: Collection[str],
    factors: Mapping[str, float],
) -> None:
    """Refuses to go on with other variables frozen than before.

    Args:
      checkpoint: its prefix, for the message.
      in_file: names in the checkpoint.
      trained: variables with an optimizer's moments now.
      factors: of `learning_rate_factors`.

    Raises:
      ValueError: a variable is frozen now and was trained, or the other way.
    """
    before = {
        name.rpartition("/")[0] for name in in_file if name.endswith(_SLOTS)
    }
    if not before:
        return
    newly_frozen = [x for x in before if factors.get(x) == 0.0]
    newly_trained = [x for x in trained if x in in_file and x not in before]
    for names, was, now in (
        (newly_frozen, "trained", "frozen"),
        (newly_trained, "frozen", "trained"),
    ):
        if names:
            raise ValueError(
                f"{checkpoint}: {len(names)} variables, such as "
                f"{min(names)}, were {was} in this run and would be {now} "
                "with this --freeze; go on with the --freeze that the run "
                "began with, or start a new --output_dir with this "
                "checkpoint as --init_checkpoint"
            )


# Fresh values ----------------------------------------------------------------


@contextlib.contextmanager
def kept_fresh(
    variables: Mapping[str, Any], num_layers: int, top_layers: int
) -> Iterator[None]:
    """Gives the top layers and the pooler their values back at the end.

    Args:
      variables: the model's variables by name, with their first values.
      num_layers: encoder layers of the model.
      top_layers: how many of them stay as they are; with 0 so do neither
        layers nor pooler.
    """
    first = num_layers - top_layers
    fresh = Part((_POOLER,), frozenset(range(first, num_layers)))
    names = [name for name in variables if top_layers and name in fresh]
    values = {name: np.array(variables[name].read_value()) for name in names}
    yield
    for name, value in values.items():
        variables[name].assign(value)
    if names:
        _logger.info(
            "--reinit_top_layers=%d: fresh values for layers %d to %d and the "
            "pooler, %d variables",
            top_layers,
            first,
            num_layers - 1,
            len(names),
        )
