"""Checkpoints in the original's layout, read and written by variable name.

A checkpoint is `PREFIX.index` with `PREFIX.data-00000-of-00001`; it holds the
variables under the names that the TensorFlow 1 code gave them, and in training
also `<variable>/adam_m`, `<variable>/adam_v` and `global_step`.

Names are loaded when first used, so that the package can be imported without
TensorFlow.
"""

import importlib

_HOME = {
    "CheckpointError": "report",
    "CheckpointManager": "manager",
    "LoadReport": "report",
    "checkpoint_names": "names",
    "is_encoder": "names",
    "is_head": "names",
    "is_optimizer_state": "names",
    "latest_checkpoint": "locating",
    "list_prefixes": "locating",
    "load_checkpoint": "reading",
    "open_checkpoint": "opening",
    "read_shapes": "reading",
    "read_sidecar": "writing",
    "read_variables": "reading",
    "resolve_checkpoint": "locating",
    "restore_variables": "reading",
    "save_checkpoint": "writing",
    "sweep_temporaries": "writing",
    "write_checkpoint": "writing",
}

__all__ = sorted(_HOME)


def __getattr__(name: str):
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"{__name__}.{_HOME[name]}")
    value = getattr(module, name)
    globals()[name] = value
    return value


def __dir__():
    return __all__
