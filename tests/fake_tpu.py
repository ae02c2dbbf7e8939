"""A TPUStrategy over stand-in devices: it traces, it cannot run.

Functions are traced exactly as on TPU cores (replicated variables, replica
contexts, CrossReplicaSum), with the TensorFlow that everyone has. Where the
strategy keeps devices for data and variables, logical CPU devices take the
place of the cores.
"""

import collections

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import kernels
from tensorflow.python.tpu import tpu_system_metadata

_BASE = "/job:localhost/replica:0/task:0/device:"
_Device = collections.namedtuple("_Device", "name device_type")

# What the TPU rewrite takes away or expands before compilation.
STRUCTURE = {
    "NoOp",
    "PartitionedCall",
    "StatefulPartitionedCall",
    "StatelessWhile",
    "TPUCompilationResult",
    "TPUReplicateMetadata",
    "TPUReplicatedInput",
    "TPUReplicatedOutput",
    "While",
}

# Exchange between cores: only TPUs have kernels for them.
COLLECTIVES = {"AllToAll", "CrossReplicaSum"}


class _Resolver(tf.distribute.cluster_resolver.ClusterResolver):
    """Tells of TPU cores that are not there."""

    def __init__(self, cores):
        self._cores = cores

    def get_tpu_system_metadata(self):
        return tpu_system_metadata.TPUSystemMetadata(
            num_cores=self._cores,
            num_hosts=1,
            num_of_cores_per_host=self._cores,
            topology=None,
            devices=[
                _Device(f"{_BASE}TPU:{i}", "TPU") for i in range(self._cores)
            ],
        )

    def cluster_spec(self):
        return tf.train.ClusterSpec({})

    def master(self, *unused, **also_unused):
        return ""

    def num_accelerators(self, *unused, **also_unused):
        return {"TPU": self._cores}


def fake_tpu_strategy(cores: int) -> tf.distribute.TPUStrategy:
    """Makes the strategy; TensorFlow must not have started."""
    tf.config.set_logical_device_configuration(
        tf.config.list_physical_devices("CPU")[0],
        [tf.config.LogicalDeviceConfiguration()] * cores,
    )
    strategy = tf.distribute.TPUStrategy(_Resolver(cores))
    names = [f"{_BASE}CPU:{i}" for i in range(cores)]
    inside = strategy.extended
    inside._tpu_devices = np.array([[name] for name in names], dtype=object)
    inside._host_device = names[0]
    inside._device_input_worker_devices = collections.OrderedDict(
        {names[0]: names}
    )
    inside._host_input_worker_devices = collections.OrderedDict(
        {names[0]: [names[0]] * cores}
    )
    return strategy


def compiled_ops(function) -> tuple[collections.Counter, list[str]]:
    """Counts the ops that a TPU would compile.

    Args:
      function: a concrete function traced under the strategy.

    Returns:
      The ops marked for the TPU, those of the functions they call included,
      and the names of ops that were taken out of the compilation.
    """
    graph = function.graph.as_graph_def()
    library = {f.signature.name: f for f in graph.library.function}
    ops: collections.Counter = collections.Counter()
    outside: list[str] = []
    seen = set()

    def called_by(node):
        for value in node.attr.values():
            if value.HasField("func"):
                yield value.func.name
            yield from (f.name for f in value.list.func)
        yield node.op

    def walk(nodes, marked):
        for node in nodes:
            on_tpu = marked or "_tpu_replicate" in node.attr
            if "_xla_outside_compilation" in node.attr:
                outside.append(node.name)
                continue
            if on_tpu and node.op not in library:
                ops[node.op] += 1
            for name in called_by(node):
                if name in library and (name, on_tpu) not in seen:
                    seen.add((name, on_tpu))
                    walk(library[name].node_def, on_tpu)

    walk(graph.node, False)
    return ops, outside


def legal_ops() -> set[str]:
    """Ops that XLA can compile.

    Every op with a kernel for the CPU's XLA has one for the TPU's too; the
    list is read from the TensorFlow that runs.
    """
    compiled = tf.function(lambda x: x + 1.0, jit_compile=True)
    compiled(tf.constant(1.0))  # Registers the kernels.
    found = kernels.get_all_registered_kernels().kernel
    compiled_ops = {k.op for k in found if k.device_type == "XLA_CPU_JIT"}
    return compiled_ops | STRUCTURE | COLLECTIVES
