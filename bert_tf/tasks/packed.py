"""Any task on packed rows: several examples in a row, the same results.

Shape letters: B batch of rows, S row length, M sequences in a row, P
predictions.
"""

import json
import logging
import os
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_tf.config import BertConfig
from bert_tf.files import (
    atomic_write,
    exists,
    is_remote,
    read_bytes,
    remove,
    size,
)
from bert_tf.records import RecordWriter, record_dataset
from bert_tf.run_folder import path_in
from bert_tf.sequence_packing import (
    PACKING_FEATURES,
    RowLayout,
    examples_in_order,
)
from bert_tf.tasks.base import EXAMPLE_WEIGHTS, RecordFiles, Split, Task

# Examples that are packed with one another. More would not fill the rows
# better; their features wait in memory, and their results for the rows that
# come last.
_CHUNK = 4096

_logger = logging.getLogger("bert_tf")


class PackedTask(Task):
    """Wraps a task so that its records hold several examples each.

    Modes that the task does not pack (`Task.packed_modes`) stay as they are.

    Args:
      task: the task of single examples.

    Raises:
      ValueError: the task cannot be packed.
    """

    def __init__(self, task: Task):
        if not task.packed_modes:
            raise ValueError(
                f"--pack_sequences: task {task.name} cannot be packed"
            )
        self.task = task
        self.name = task.name
        self.loss_epsilon = task.loss_epsilon
        self.score_names = task.score_names
        self.result_names = task.result_names
        self._packed: dict[tuple[str, ...], RecordFiles] = {}
        self._num_packed: dict[Split, int] = {}

    def _layout(self, mode: str) -> RowLayout:
        return RowLayout(
            self.task.feature_spec(mode),
            self.task.token_features,
            self.task.prediction_features,
            self.task.position_features,
        )

    def _packs(self, mode: str) -> bool:
        return mode in self.task.packed_modes

    def use_checkpoint(self, name: str) -> None:
        """As of the single task."""
        self.task.use_checkpoint(name)

    def create_model(self, config: BertConfig, **kwargs):
        """The model of the single task: the inputs tell it of the rows."""
        return self.task.create_model(config, **kwargs)

    def head_shapes(self, config: BertConfig):
        """As of the single task."""
        return self.task.head_shapes(config)

    def trained_variables(self, model):
        """As of the single task."""
        return self.task.trained_variables(model)

    def description(self) -> dict[str, Any]:
        """As of the single task: the model does not depend on packing."""
        return self.task.description()

    # Data ---------------------------------------------------------------

    def feature_spec(self, mode: str):
        """Features of a packed row; see `RowLayout.row_spec`."""
        if not self._packs(mode):
            return self.task.feature_spec(mode)
        return self._layout(mode).row_spec()

    def complete_features(self, mode, features, first_example):
        """Nothing to complete in packed rows."""
        if self._packs(mode):
            return features
        return self.task.complete_features(mode, features, first_example)

    def splits(self, mode: str) -> list[Split]:
        """As of the single task."""
        return self.task.splits(mode)

    def prepare(self, split: Split, output_dir: str) -> RecordFiles:
        """Prepares single examples, then packs them."""
        records = self.task.prepare(split, output_dir)
        if not self._packs(split.mode):
            return records
        key = tuple(records.paths)
        if key not in self._packed:
            self._packed[key] = self._pack(split, records, output_dir)
        self._num_packed[split] = self._packed[key].num_packed
        return self._packed[key]

    def _pack(
        self, split: Split, records: RecordFiles, output_dir: str
    ) -> RecordFiles:
        layout = self._layout(split.mode)
        missing = set(layout.predictions) - set(layout.spec.names())
        if missing:
            raise ValueError(
                f"--pack_sequences: the records of {split.name} have no "
                f"{', '.join(sorted(missing))}; make them with "
                "--masking=static"
            )
        stem = path_in(output_dir, f"{split.mode}{split.suffix}_packed")
        identity = _identity(records.paths, layout)
        found = _read_json(f"{stem}.json")
        folder_holds_all = all(
            exists(path_in(output_dir, name)) for name in found.get("files", ())
        )
        if found.get("identity") != identity or not folder_holds_all:
            found = _write_rows(records.paths, layout, stem)
            with atomic_write(f"{stem}.json") as stream:
                json.dump({**found, "identity": identity}, stream, indent=2)
        rows, examples = found["rows"], found["examples"]
        _logger.info(
            "%s: %d examples packed in %d rows, %.2f a row; %.1f%% of the "
            "pieces are real, %.1f%% before",
            split.name,
            examples,
            rows,
            examples / rows,
            100 * found["pieces"] / (rows * layout.length),
            100 * found["pieces"] / (examples * layout.length),
        )
        return RecordFiles(
            [path_in(output_dir, name) for name in found["files"]],
            rows,
            records.num_examples,
            records.shuffle_buffer,
            num_packed=examples,
        )

    # Loss ---------------------------------------------------------------

    def _of_examples(
        self, features: Mapping[str, tf.Tensor]
    ) -> dict[str, tf.Tensor]:
        """Features as the single task knows them, [B * M, ...], with their
        weights: 1 for an example, 0 where a row holds fewer than M."""
        layout = self._layout("train")
        own = {f.name for f in layout.spec}
        flat = {}
        for name, value in features.items():
            if name in own and layout.is_per_sequence(name):
                value = tf.reshape(value, [-1, *value.shape[2:]])
            flat[name] = value
        lengths = tf.reshape(features["sequence_lengths"], [-1])
        flat[EXAMPLE_WEIGHTS] = tf.cast(lengths > 0, tf.float32)
        return flat

    @property
    def loss_terms(self):
        """As of the single task."""
        return self.task.loss_terms

    def loss_weights(self, features):
        """Sums over the examples of all rows."""
        if "sequence_lengths" in features:
            features = self._of_examples(features)
        return self.task.loss_weights(features)

    def loss_sums(self, outputs, features):
        """Sums over the examples of all rows."""
        if "sequence_lengths" in features:
            features = self._of_examples(features)
        return self.task.loss_sums(outputs, features)

    def example_outputs(self, outputs, features):
        """[B, M, ...], or [B, S, ...] for `Task.token_outputs`."""
        if "sequence_lengths" not in features:
            return self.task.example_outputs(outputs, features)
        max_sequences = features["sequence_lengths"].shape[1]
        results = {
            name: value
            if name in self.task.token_outputs
            else tf.reshape(value, [-1, max_sequences, *value.shape[1:]])
            for name, value in self.task.example_outputs(
                outputs, self._of_examples(features)
            ).items()
        }
        return {
            **results,
            **{name: features[name] for name in PACKING_FEATURES},
        }

    # Use ----------------------------------------------------------------

    def _unpacked(self, split: Split, batches):
        if not self._packs(split.mode):
            return batches
        return examples_in_order(
            batches, self.task.token_outputs, self._num_packed[split]
        )

    def compute_metrics(self, results, batch_size):
        """As of the single task, of results in the order of examples."""
        return self.task.compute_metrics(results, batch_size)

    def evaluate(self, split, batches, batch_size, output_dir):
        """As of the single task."""
        return self.task.evaluate(
            split, self._unpacked(split, batches), batch_size, output_dir
        )

    def predict(self, split, batches, output_dir):
        """As of the single task."""
        return self.task.predict(
            split, self._unpacked(split, batches), output_dir
        )


def _chunks(path: str, spec):
    """Features of so many records at a time, as arrays [n, ...]."""
    batches = record_dataset([path]).batch(_CHUNK).map(spec.parse)
    return batches.as_numpy_iterator()


def _identity(paths: Sequence[str], layout: RowLayout) -> dict[str, Any]:
    """What packed rows depend on, as JSON: they are made again if it differs.

    The records that a task writes are new at every start, and cheap to pack;
    those made beforehand may be many, and keep their time.
    """
    return {
        "sources": [
            [path, size(path), 0 if is_remote(path) else os.stat(path).st_mtime]
            for path in paths
        ],
        "features": [[f.name, *f.shape] for f in layout.row_spec()],
        "chunk": _CHUNK,
    }


def _read_json(path: str) -> dict[str, Any]:
    return json.loads(read_bytes(path)) if exists(path) else {}


def _write_rows(
    sources: Sequence[str], layout: RowLayout, stem: str
) -> dict[str, Any]:
    """Packs each file into one of its own; returns names and counts."""
    row_spec = layout.row_spec()
    paths, rows, examples, pieces = [], 0, 0, 0
    for i, source in enumerate(sources):
        part = f"-{i:05d}-of-{len(sources):05d}" if len(sources) > 1 else ""
        path = f"{stem}.tf_record{part}"
        with RecordWriter(path) as writer:
            for chunk in _chunks(source, layout.spec):
                pieces += int(chunk["input_mask"].sum())
                try:
                    for row in layout.rows(chunk, examples):
                        writer.write(row_spec.serialize(row))
                except ValueError as error:
                    raise ValueError(f"{source}: {error}") from None
                examples += len(chunk["input_mask"])
        if writer.count:
            paths.append(path)
            rows += writer.count
        else:
            remove(path)
    if not rows:
        raise ValueError(f"no record to pack in {', '.join(sources)}")
    return {
        "files": [os.path.basename(path) for path in paths],
        "rows": rows,
        "examples": examples,
        "pieces": pieces,
    }
