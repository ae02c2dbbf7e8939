"""Record files -> `tf.data` batches of static shape, in a known order.

Shape letters: B batch.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import tensorflow as tf

from bert_tf.records import FeatureSpec, compression_of, record_dataset

# Files read side by side, and records taken from one before the next: the
# order that a file was written in does not reach the shuffle buffer.
_FILES_AT_ONCE = 16
_RECORDS_IN_A_ROW = 16

# (parsed features, number of the first example of the batch) -> features.
Completion = Callable[
    [Mapping[str, tf.Tensor], tf.Tensor], Mapping[str, tf.Tensor]
]


@dataclasses.dataclass(frozen=True)
class Share:
    """Which of the replicas' batches one worker reads.

    All workers go through the same records in the same order; of `total`
    consecutive batches each takes its own `count`, from number `first` on. So
    every record is seen once, whatever the number of workers and of files.
    """

    total: int = 1
    first: int = 0
    count: int = 1


def distribute(
    strategy: tf.distribute.Strategy,
    global_batch_size: int,
    make: Callable[[int, Share], tf.data.Dataset],
):
    """Makes the input of all replicas.

    Args:
      strategy: the devices.
      global_batch_size: examples over all replicas.
      make: (batch size of one replica, share of this worker) -> dataset.

    Returns:
      The strategy's distributed dataset.
    """

    def for_worker(context):
        total = context.num_replicas_in_sync
        count = total // context.num_input_pipelines
        share = Share(total, context.input_pipeline_id * count, count)
        return make(
            context.get_per_replica_batch_size(global_batch_size), share
        )

    return strategy.distribute_datasets_from_function(for_worker)


def _options() -> tf.data.Options:
    options = tf.data.Options()
    options.deterministic = True
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    return options


def train_batches(
    paths: Sequence[str],
    spec: FeatureSpec,
    batch_size: int,
    num_records: int | None,
    seed: int,
    examples_done: int = 0,
    shuffle_buffer: int | None = None,
    complete: Completion | None = None,
    share: Share = Share(),
) -> tf.data.Dataset:
    """Endless shuffled batches; each pass holds every record once.

    The order is a function of the seed, so that a run which resumes after
    `examples_done` examples sees what an uninterrupted one would have seen.

    Args:
      paths: TFRecord files.
      spec: features of the records.
      batch_size: batch size B of one replica.
      num_records: number of records in all files; the shuffle covers them
        all, unless `shuffle_buffer` is given. None if nobody has counted
        them, which `shuffle_buffer` must go with.
      seed: of the order.
      examples_done: records to pass over at the start.
      shuffle_buffer: records held for shuffling. Before it the files are
        shuffled too, and read several at a time.
      complete: makes the model's features of the parsed ones; the number
        that it gets counts all examples, those passed over included.
      share: the batches of this worker.

    Returns:
      Dataset of dicts of tensors [B, ...].
    """
    if shuffle_buffer is None:
        assert num_records is not None, "neither records nor buffer are known"
        serialized = record_dataset(paths)
        shuffle_buffer = num_records
    else:
        serialized = _interleaved(paths, seed)
    serialized = serialized.shuffle(
        shuffle_buffer, seed=seed, reshuffle_each_iteration=True
    )
    # The records passed over are read and shuffled, but not parsed.
    serialized = serialized.repeat().skip(examples_done)
    batches = serialized.batch(batch_size, drop_remainder=True)
    return _parsed(batches, spec, batch_size, examples_done, complete, share)


def _interleaved(paths: Sequence[str], seed: int) -> tf.data.Dataset:
    """Serialized records of files in another order on each pass."""
    kinds = [compression_of(path) for path in paths]
    files = tf.data.Dataset.from_tensor_slices((list(paths), kinds))
    return files.shuffle(
        len(paths), seed=seed, reshuffle_each_iteration=True
    ).interleave(
        lambda path, kind: tf.data.TFRecordDataset(
            path, compression_type=kind, buffer_size=1 << 20
        ),
        cycle_length=min(len(paths), _FILES_AT_ONCE),
        block_length=_RECORDS_IN_A_ROW,
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )


def eval_batches(
    paths: Sequence[str],
    spec: FeatureSpec,
    batch_size: int,
    num_records: int,
    repeats: bool = False,
    complete: Completion | None = None,
    share: Share = Share(),
) -> tf.data.Dataset:
    """Batches in file order; padding rows fill the last ones.

    Args:
      paths: TFRecord files.
      spec: features of the records; says what a padding row holds.
      batch_size: batch size B of one replica.
      num_records: number of records to read, from the first on.
      repeats: start again at the first record after the last one, until
        `num_records` have been read.
      complete: makes the model's features of the parsed ones.
      share: the batches of this worker.

    Returns:
      Dataset of dicts of tensors [B, ...], as many on every replica.
    """
    missing = -num_records % (batch_size * share.total)
    serialized = record_dataset(paths)
    if repeats:
        serialized = serialized.repeat()
    serialized = serialized.take(num_records)
    if missing:
        padding = tf.data.Dataset.from_tensors(spec.padding_record())
        serialized = serialized.concatenate(padding.repeat(missing))
    batches = serialized.batch(batch_size, drop_remainder=True)
    return _parsed(batches, spec, batch_size, 0, complete, share)


def _parsed(
    batches: tf.data.Dataset,
    spec: FeatureSpec,
    batch_size: int,
    examples_done: int,
    complete: Completion | None,
    share: Share,
) -> tf.data.Dataset:
    def is_mine(number, _):
        place = number % share.total - share.first
        return (place >= 0) & (place < share.count)

    def parse(number, serialized):
        features = spec.parse(serialized)
        if complete is None:
            return features
        return complete(features, number * batch_size + examples_done)

    numbered = batches.enumerate()
    if share.count < share.total:
        numbered = numbered.filter(is_mine)
    parsed = numbered.map(parse, num_parallel_calls=tf.data.AUTOTUNE)
    return parsed.prefetch(tf.data.AUTOTUNE).with_options(_options())
