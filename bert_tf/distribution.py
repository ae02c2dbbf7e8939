"""Device settings -> `tf.distribute` strategy; the only place for TPUs."""

import logging
import os

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
        strategy = tf.distribute.MultiWorkerMirroredStrategy(
            cluster_resolver=_cluster_resolver()
        )
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


def _cluster_resolver():
    """The cluster of `TF_CONFIG`, or of a Slurm job."""
    resolvers = tf.distribute.cluster_resolver
    if "TF_CONFIG" in os.environ:
        return resolvers.TFConfigClusterResolver()
    if "SLURM_JOB_ID" in os.environ:
        return resolvers.SlurmClusterResolver()
    raise ValueError(
        "--distribution_strategy=multi_worker: neither TF_CONFIG nor a Slurm "
        "job says who the workers are"
    )


def is_multi_worker(strategy: tf.distribute.Strategy) -> bool:
    """Whether several processes train together."""
    return isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy)


def is_chief(strategy: tf.distribute.Strategy) -> bool:
    """Whether this process writes files; one of all workers does."""
    resolver = getattr(strategy, "cluster_resolver", None)
    if resolver is None or not resolver.task_type:
        return True
    if resolver.task_type == "worker":
        has_chief = "chief" in resolver.cluster_spec().as_dict()
        return resolver.task_id == 0 and not has_chief
    return resolver.task_type == "chief"


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
