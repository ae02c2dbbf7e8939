"""Record files -> `tf.data` batches of static shape, in a known order.

Shape letters: B global batch.
"""

from collections.abc import Sequence

import tensorflow as tf

from bert_tf.records import FeatureSpec, record_dataset


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
    num_records: int,
    seed: int,
    batches_done: int = 0,
    shuffle_buffer: int | None = None,
) -> tf.data.Dataset:
    """Endless shuffled batches; each pass holds every record once.

    The order is a function of the seed, so that a run which resumes after
    `batches_done` batches sees what an uninterrupted one would have seen.

    Args:
      paths: TFRecord files.
      spec: features of the records.
      batch_size: global batch size B.
      num_records: number of records in all files; the shuffle covers them
        all, unless `shuffle_buffer` is given.
      seed: of the order.
      batches_done: batches to pass over at the start.
      shuffle_buffer: records held for shuffling.

    Returns:
      Dataset of dicts of tensors [B, ...].
    """
    serialized = record_dataset(paths)
    serialized = serialized.shuffle(
        shuffle_buffer or num_records,
        seed=seed,
        reshuffle_each_iteration=True,
    )
    batches = serialized.repeat().batch(batch_size, drop_remainder=True)
    # The records passed over are read and shuffled, but not parsed.
    batches = batches.skip(batches_done)
    return _parsed(batches, spec)


def eval_batches(
    paths: Sequence[str], spec: FeatureSpec, batch_size: int, num_records: int
) -> tf.data.Dataset:
    """Batches in file order; padding rows fill the last one.

    Args:
      paths: TFRecord files.
      spec: features of the records; says what a padding row holds.
      batch_size: global batch size B.
      num_records: number of records in all files.

    Returns:
      Dataset of ceil(num_records / B) dicts of tensors [B, ...].
    """
    missing = -num_records % batch_size
    serialized = record_dataset(paths)
    if missing:
        padding = tf.data.Dataset.from_tensors(spec.padding_record())
        serialized = serialized.concatenate(padding.repeat(missing))
    return _parsed(serialized.batch(batch_size, drop_remainder=True), spec)


def _parsed(batches: tf.data.Dataset, spec: FeatureSpec) -> tf.data.Dataset:
    parsed = batches.map(spec.parse, num_parallel_calls=tf.data.AUTOTUNE)
    return parsed.prefetch(tf.data.AUTOTUNE).with_options(_options())
