"""The graph of objects inside a TensorFlow 2 checkpoint.

Such a checkpoint names a variable by the attributes that lead to it, and
keeps, beside the values, a graph of the objects and their attributes. Source:
tensorflow/core/protobuf/trackable_object_graph.proto and
tensorflow/python/checkpoint/trackable_view.py.
"""

import collections
import dataclasses
from collections.abc import Iterator
from typing import Union

from bert_tf.checkpoint.report import CheckpointError

GRAPH_KEY = "_CHECKPOINTABLE_OBJECT_GRAPH"
_SUFFIX = "/.ATTRIBUTES/VARIABLE_VALUE"
_SLOT = "/.OPTIMIZER_SLOT/"


@dataclasses.dataclass(frozen=True)
class GraphVariable:
    """A variable as the graph describes it.

    Attributes:
      key: its name in the checkpoint's index.
      path: names of the attributes on the way to it.
      full_name: the name that it had as a `tf.Variable`.
    """

    key: str
    path: tuple[str, ...]
    full_name: str

    @property
    def is_optimizer_state(self) -> bool:
        """Whether it belongs to an optimizer."""
        return _SLOT in self.key or any(
            part in ("optimizer", "_optimizer") for part in self.path[:2]
        )


def parse_graph(
    serialized: bytes, source: str
) -> tuple[list[GraphVariable], set[str]]:
    """Reads a graph.

    Args:
      serialized: the value under `GRAPH_KEY`.
      source: the checkpoint, for errors.

    Returns:
      The variables, and the names of all attributes of all objects.

    Raises:
      CheckpointError: (a ValueError) damaged.
    """
    from google.protobuf.message import DecodeError
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    try:
        graph.ParseFromString(serialized)
    except DecodeError as error:
        raise CheckpointError(
            f"{source}: damaged, its graph of objects cannot be read: {error}"
        ) from None
    variables = [
        GraphVariable(x.checkpoint_key, _path(x.checkpoint_key), x.full_name)
        for node in graph.nodes
        for x in node.attributes
    ]
    names = {x.local_name for node in graph.nodes for x in node.children}
    return variables, names


def _path(key: str) -> tuple[str, ...]:
    parts = key.partition("/.ATTRIBUTES/")[0].split("/")
    return tuple(x.replace(".S", "/").replace("..", ".") for x in parts)


@dataclasses.dataclass(frozen=True)
class Leaf:
    """A variable to write: the name of its tensor and its full name."""

    tensor: str
    full_name: str


# Attribute -> object. One object may be reached by several attributes.
Tree = dict[str, Union["Tree", Leaf]]


def build_graph(root: Tree) -> tuple[bytes, dict[str, str]]:
    """Describes objects the way TensorFlow does.

    Args:
      root: the objects; equal ones are told apart by identity.

    Returns:
      The value for `GRAPH_KEY`, and the key of every tensor: the shortest
      way to its variable.
    """
    from tensorflow.core.protobuf import trackable_object_graph_pb2

    graph = trackable_object_graph_pb2.TrackableObjectGraph()
    keys: dict[str, str] = {}
    order: list[Tree | Leaf] = []
    number: dict[int, int] = {}
    for node, path in _breadth_first(root):
        number[id(node)] = len(order)
        order.append(node)
        if isinstance(node, Leaf):
            keys[node.tensor] = f"{path}{_SUFFIX}"
    for node in order:
        described = graph.nodes.add()
        if isinstance(node, Leaf):
            described.attributes.add(
                name="VARIABLE_VALUE",
                full_name=node.full_name,
                checkpoint_key=keys[node.tensor],
            )
        else:
            for name, child in node.items():
                described.children.add(
                    node_id=number[id(child)], local_name=name
                )
        described.has_checkpoint_values.value = True
    return graph.SerializeToString(), keys


def _breadth_first(root: Tree) -> Iterator[tuple[Tree | Leaf, str]]:
    queue = collections.deque([(root, "")])
    seen = {id(root)}
    while queue:
        node, path = queue.popleft()
        yield node, path
        if isinstance(node, Leaf):
            continue
        for name, child in node.items():
            if id(child) not in seen:
                seen.add(id(child))
                escaped = name.replace(".", "..").replace("/", ".S")
                queue.append((child, f"{path}/{escaped}" if path else escaped))
