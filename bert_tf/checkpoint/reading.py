"""Reads a checkpoint of any format by variable name into a built model.

Values are restored in groups, and each group is freed before the next one is
read: so a load adds little more than one group to the memory of the process,
where one restore of everything would add the whole file.
"""

import logging
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import tensorflow as tf

from bert_tf.checkpoint.architecture import POOLER
from bert_tf.checkpoint.locating import resolve_checkpoint
from bert_tf.checkpoint.names import checkpoint_names, is_encoder, is_head
from bert_tf.checkpoint.report import (
    CheckpointError,
    LoadReport,
    describe_mismatch,
    shorten,
)
from bert_tf.config import BertConfig

if TYPE_CHECKING:
    import keras

    from bert_tf.checkpoint.sources import Source

_GROUP_BYTES = 64 << 20

# What TensorFlow's reader raises on damaged files, by the kind of damage.
READ_ERRORS = (tf.errors.OpError, RuntimeError, LookupError, ValueError)

_logger = logging.getLogger("bert_tf")


def nothing(name: str) -> bool:
    """The strictest `may_be_fresh`: every variable must be in the file."""
    return False


def load_checkpoint(
    model: "keras.Model",
    path: str | os.PathLike,
    *,
    strict: bool = False,
) -> LoadReport:
    """Loads the weights of a checkpoint into a model, by name.

    Optimizer slots and the step of the file are left alone: this starts a new
    run from old weights, it does not continue an old run.

    Args:
      model: a built model.
      path: what `resolve_checkpoint` takes: a prefix, one of the checkpoint's
        files, or a folder; also of the other formats that `opening` knows.
      strict: an error if anything of the model is not in the file. Without
        it, a head may keep its random values, as it must when a task starts
        from a pre-trained encoder; the encoder must always be in the file,
        save a pooler that the model does not use.

    Returns:
      Which variables were loaded, which are fresh, and what was not used.

    Raises:
      CheckpointError: (a ValueError) the file is damaged, is no BERT
        checkpoint, lacks variables, or has other shapes.
      ValueError: there is no such checkpoint, or the model is not built.
    """
    unused = () if getattr(model, "uses_pooler", True) else POOLER
    return restore_variables(
        checkpoint_names(model),
        path,
        may_be_fresh=lambda name: (
            name in unused or (is_head(name) and not strict)
        ),
        config=getattr(model, "config", None),
    )


def restore_variables(
    variables: Mapping[str, tf.Variable],
    path: str | os.PathLike,
    *,
    may_be_fresh: Callable[[str], bool] = nothing,
    config: BertConfig | None = None,
) -> LoadReport:
    """Assigns a checkpoint's values to variables, by name.

    Nothing is assigned unless all names and shapes fit.

    Args:
      variables: variables of any distribution strategy by checkpoint name.
      path: what `resolve_checkpoint` takes.
      may_be_fresh: tells of a name that the file lacks whether its variable
        may keep its value. By default none may.
      config: of the model; it must have as many heads as the checkpoint's
        own, which no shape tells, and names its file in errors.

    Returns:
      The report; its `missing` is empty.

    Raises:
      CheckpointError: (a ValueError) see `load_checkpoint`.
      ValueError: there is no such checkpoint.
    """
    prefix, foreign, in_file = _open(path)
    if foreign and foreign.config and config:
        _compare(foreign.config, config, prefix)
    present = sorted(variables.keys() & in_file.keys())
    absent = sorted(variables.keys() - in_file.keys())
    wrong_shapes = {
        name: (in_file[name][0], tuple(variables[name].shape))
        for name in present
        if in_file[name][0] != tuple(variables[name].shape)
    }
    report = LoadReport(
        path=prefix,
        loaded=tuple(x for x in present if x not in wrong_shapes),
        fresh=tuple(x for x in absent if may_be_fresh(x)),
        missing=tuple(x for x in absent if not may_be_fresh(x)),
        unused=tuple(
            sorted({*in_file, *_unexpected(foreign)} - variables.keys())
        ),
    )
    if report.missing or wrong_shapes:
        raise CheckpointError(
            describe_mismatch(
                report, wrong_shapes, config.source if config else ""
            ),
            report,
        )
    for names, tensors in _values(prefix, foreign, present, in_file):
        while names:
            # The list must not keep a value alive once it is assigned.
            name, value = names.pop(), tensors.pop()
            variable = variables[name]
            if value.dtype != variable.dtype:
                value = _cast(value, variable.dtype, name, prefix)
            variable.assign(value)
    _log(report)
    return report


def read_variables(
    path: str | os.PathLike, names: Collection[str] | None = None
) -> dict[str, np.ndarray]:
    """Reads values of a checkpoint without a model.

    Args:
      path: what `resolve_checkpoint` takes.
      names: the variables to read; all by default.

    Returns:
      Arrays by name, in the file's dtypes.

    Raises:
      CheckpointError: (a ValueError) damaged file, or no such variable.
    """
    prefix, foreign, in_file = _open(path)
    wanted = sorted(in_file if names is None else names)
    if unknown := [name for name in wanted if name not in in_file]:
        raise CheckpointError(
            f"the checkpoint {prefix} has no variable {shorten(unknown)}"
        )
    return {
        name: tensor.numpy()
        for group, tensors in _values(prefix, foreign, wanted, in_file)
        for name, tensor in zip(group, tensors, strict=True)
    }


def read_shapes(path: str | os.PathLike) -> dict[str, tuple[int, ...]]:
    """Shape of every variable in a checkpoint, by name.

    Raises:
      CheckpointError: (a ValueError) no such checkpoint, or a damaged file.
    """
    _, _, index = _open(path)
    return {name: shape for name, (shape, _) in index.items()}


Index = dict[str, tuple[tuple[int, ...], tf.DType]]


def _open(path: str | os.PathLike) -> tuple[str, "Source | None", Index]:
    """Prefix, the source if names are not the official ones, and index."""
    from bert_tf.checkpoint.opening import open_foreign  # which needs this one

    prefix = resolve_checkpoint(path)
    foreign = open_foreign(prefix)
    if foreign is None:
        return prefix, None, read_index(prefix)
    index = {
        name: (tensor.shape, tf.as_dtype(tensor.dtype))
        for name, tensor in foreign.tensors.items()
    }
    return prefix, foreign, index


def _unexpected(foreign: "Source | None") -> tuple[str, ...]:
    return foreign.unexpected if foreign else ()


def _compare(own: BertConfig, config: BertConfig, path: str) -> None:
    """Tells where a checkpoint's own config is another model's."""
    for name in ("num_attention_heads", "hidden_act", "layer_norm_eps"):
        found, expected = getattr(own, name), getattr(config, name)
        if found == expected:
            continue
        text = (
            f"{path}: its config has {name} {found!r}, the model "
            f"{config.source or 'at hand'} has {expected!r}"
        )
        if name == "num_attention_heads":
            raise CheckpointError(text)
        _logger.warning("%s: outputs will differ", text)


def read_index(prefix: str) -> Index:
    """Shape and dtype of every entry of TensorFlow's checkpoint files.

    Raises:
      CheckpointError: (a ValueError) the index is damaged.
    """
    try:
        # The newer tf.train.load_checkpoint globs, which not every file
        # system can do, and it takes a broken index for an absent one.
        reader = tf.compat.v1.train.NewCheckpointReader(prefix)
        dtypes = reader.get_variable_to_dtype_map()
        shapes = reader.get_variable_to_shape_map()
    except READ_ERRORS as error:
        raise CheckpointError(
            f"{prefix}.index: damaged or cut short, cannot be read: {error}"
        ) from error
    return {name: (tuple(shapes[name]), dtypes[name]) for name in shapes}


def _groups(names: Sequence[str], in_file: Index) -> Iterator[list[str]]:
    group: list[str] = []
    size = 0
    for name in names:
        shape, dtype = in_file[name]
        added = int(np.prod(shape, dtype=np.int64)) * dtype.size
        if group and size + added > _GROUP_BYTES:
            yield group
            group, size = [], 0
        group.append(name)
        size += added
    if group:
        yield group


def _values(
    prefix: str, foreign: "Source | None", names: Sequence[str], in_file: Index
) -> Iterator[tuple[list[str], list[tf.Tensor]]]:
    """Yields lists of names and of tensors that the caller may empty."""
    if foreign is None:
        yield from _restore(prefix, names, in_file)
        return
    for name in names:
        yield [name], [tf.convert_to_tensor(foreign.tensors[name].read())]


def _restore(
    prefix: str, names: Sequence[str], in_file: Index
) -> Iterator[tuple[list[str], list[tf.Tensor]]]:
    """Yields lists of names and of tensors that the caller may empty."""
    for group in _groups(names, in_file):
        try:
            with tf.device("CPU:0"):
                tensors = tf.raw_ops.RestoreV2(
                    prefix=prefix,
                    tensor_names=group,
                    shape_and_slices=[""] * len(group),
                    dtypes=[in_file[name][1] for name in group],
                )
        except tf.errors.OpError as error:
            raise CheckpointError(
                f"{prefix}.data-*: damaged or cut short, the values of "
                f"{shorten(group)} cannot be read: {error.message}"
            ) from error
        yield group, tensors
        del tensors


def _cast(
    value: tf.Tensor, dtype: tf.DType, name: str, prefix: str
) -> tf.Tensor:
    both_floating = value.dtype.is_floating and dtype.is_floating
    both_integer = value.dtype.is_integer and dtype.is_integer
    if not (both_floating or both_integer):
        raise CheckpointError(
            f"{prefix}: {name} is {value.dtype.name} in the checkpoint, "
            f"{dtype.name} in the model"
        )
    return tf.cast(value, dtype)


def _log(report: LoadReport) -> None:
    _logger.info("%s", report.summary())
    if report.fresh:
        _logger.warning(
            "%s lacks %d variables, which keep their fresh values: %s",
            report.path,
            len(report.fresh),
            shorten(report.fresh),
        )
    if left := [x for x in report.unused if is_encoder(x)]:
        _logger.warning(
            "%s has %d encoder weights that the model has no place for; is "
            "the config this checkpoint's own? %s",
            report.path,
            len(left),
            shorten(left),
        )
