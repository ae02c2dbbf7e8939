"""Device settings -> `tf.distribute` strategy; the only place for TPUs."""

import logging

import tensorflow as tf

from bert_tf.settings import DeviceSettings

_logger = logging.getLogger("bert_tf")


def create_strategy(devices: DeviceSettings) -> tf.distribute.Strategy:
    """Connects to the devices and makes the strategy that runs on them.

    Must come before any other TensorFlow work in the process when TPUs or
    several logical CPU devices are asked for.

    Raises:
      ValueError: the strategy asked for does not fit the devices found.
    """
    kind = devices.distribution_strategy
    if devices.on_tpu:
        strategy = _tpu_strategy(devices)
    elif kind == "multi_worker":
        strategy = tf.distribute.MultiWorkerMirroredStrategy()
    else:
        names = _local_devices(devices)
        if kind == "one_device" or (kind == "auto" and len(names) == 1):
            strategy = tf.distribute.OneDeviceStrategy(names[0])
        else:
            strategy = tf.distribute.MirroredStrategy(names)
    _logger.info(
        "%s on %d replica(s)",
        type(strategy).__name__,
        strategy.num_replicas_in_sync,
    )
    return strategy


def _local_devices(devices: DeviceSettings) -> list[str]:
    gpus = tf.config.list_physical_devices("GPU")
    if gpus and devices.num_cpu_devices == 1:
        return [f"GPU:{i}" for i in range(len(gpus))]
    if devices.num_cpu_devices > 1:
        _split_cpu(devices.num_cpu_devices)
    return [f"CPU:{i}" for i in range(devices.num_cpu_devices)]


def _split_cpu(count: int) -> None:
    cpu = tf.config.list_physical_devices("CPU")[0]
    try:
        tf.config.set_logical_device_configuration(
            cpu, [tf.config.LogicalDeviceConfiguration()] * count
        )
    except RuntimeError as error:
        found = len(tf.config.list_logical_devices("CPU"))
        if found < count:
            raise ValueError(
                f"--num_cpu_devices={count}: TensorFlow has already started "
                f"with {found}: {error}"
            ) from None


def _tpu_strategy(devices: DeviceSettings) -> tf.distribute.Strategy:
    name = devices.tpu_name or devices.master or "local"
    try:
        resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
            tpu=name, zone=devices.tpu_zone, project=devices.gcp_project
        )
        if name != "local":
            tf.config.experimental_connect_to_cluster(resolver)
        tf.tpu.experimental.initialize_tpu_system(resolver)
    except (ValueError, RuntimeError, tf.errors.OpError) as error:
        raise ValueError(
            f"no TPU at {name!r} (--use_tpu, --tpu_name, --tpu_zone, "
            f"--gcp_project): {error}"
        ) from error
    return tf.distribute.TPUStrategy(resolver)


def check_batch_size(flag: str, size: int, replicas: int) -> int:
    """Divides a global batch size over the replicas.

    Returns:
      The size on each replica.

    Raises:
      ValueError: the replicas do not divide it; names the flag.
    """
    if size % replicas:
        raise ValueError(
            f"--{flag} is {size}; it is the global batch size and must be a "
            f"multiple of the {replicas} replicas"
        )
    return size // replicas
