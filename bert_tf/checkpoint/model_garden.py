"""Object-based checkpoints of the TensorFlow Model Garden: names, reading.

Kernels of the attention have an axis for the heads there, and kernels of
heads are [hidden, classes]. Variables are recognized by the names that they
had, not by the attributes that lead to them: those differ between the
encoders (`BertEncoder`, `BertEncoderV2`), tasks and SavedModels. Source:
tf-models-official, `official/nlp/modeling` (networks and models) and
`official/nlp/tools/tf1_bert_checkpoint_converter_lib.py`.
"""

import re
from collections.abc import Mapping, Sequence

import numpy as np

from bert_tf.checkpoint.architecture import (
    MASKED_LM,
    NEXT_SENTENCE,
    POOLER,
    ROOT,
    SPAN,
    WORD_EMBEDDINGS,
    all_names,
)
from bert_tf.checkpoint.object_graph import GraphVariable, parse_graph
from bert_tf.checkpoint.report import CheckpointError, shorten
from bert_tf.checkpoint.sources import Source, StoredTensor

_SCOPES = (
    ("bert/embeddings/word_embeddings", "word_embeddings/embeddings"),
    ("bert/embeddings/token_type_embeddings", "type_embeddings/embeddings"),
    ("bert/embeddings/position_embeddings", "position_embedding/embeddings"),
    ("bert/embeddings/LayerNorm", "embeddings/layer_norm"),
    ("bert/encoder", "transformer"),
    ("/attention/self/", "/self_attention/"),
    ("/attention/output/dense", "/self_attention/attention_output"),
    ("/attention/output/LayerNorm", "/self_attention_layer_norm"),
    ("/intermediate/dense", "/intermediate"),
    ("/output/dense", "/output"),
    ("/output/LayerNorm", "/output_layer_norm"),
    ("bert/pooler/dense", "pooler_transform"),
    ("cls/predictions/output_bias", "cls/predictions/output_bias/bias"),
)
LOGITS = "predictions/transform/logits"


def garden_name(name: str) -> str:
    """The full name there of a weight of the encoder or the masked LM."""
    for ours, theirs in _SCOPES:
        name = name.replace(ours, theirs)
    return name


def _squeezed(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape without the axis of heads."""
    if "self_attention/" not in name or len(shape) < 2:
        return shape
    if name.endswith("/bias"):
        return (shape[0] * shape[1],)
    if len(shape) != 3:
        return shape
    if "attention_output" in name:
        return (shape[0] * shape[1], shape[2])
    return (shape[0], shape[1] * shape[2])


def add_object_based(
    source: Source, stored: Mapping[str, StoredTensor], graph: bytes
) -> None:
    """Fills a source from an object-based checkpoint.

    Args:
      source: its `tensors`, `ignored`, `unexpected`, `head` are set.
      stored: the tensors by key.
      graph: the graph of objects.

    Raises:
      CheckpointError: (a ValueError) no BERT, or two variables of one name.
    """
    variables, attributes = parse_graph(graph, source.path)
    rest: dict[str, StoredTensor] = {}
    full_names: dict[str, str] = {}
    for variable in variables:
        key = variable.key
        if key not in stored or key in full_names:
            continue
        if variable.is_optimizer_state:
            source.ignored[key] = "optimizer state"
            continue
        full_names[key] = _normal(variable)
        rest[key] = stored[key]
    numbers = [
        re.search(r"(?:transformer|bert/encoder)/layer_(\d{1,4})/", x)
        for x in full_names.values()
    ]
    count = 1 + max((int(x[1]) for x in numbers if x), default=-1)
    known = {garden_name(x): x for x in all_names(count)}
    # Our own SavedModels keep the official names.
    known |= {x: x for x in all_names(count)}
    for key, full_name in full_names.items():
        ours = _match(full_name, known)
        if ours is None:
            continue
        if ours in source.tensors:
            raise CheckpointError(
                f"{source.path}: {key} and {source.tensors[ours].source_name} "
                f"are both {ours}"
            )
        tensor = rest.pop(key)
        shape = _squeezed(full_name, tensor.shape)
        source.tensors[ours] = tensor.reshaped(shape)
        if len(tensor.shape) == 3:
            heads = tensor.shape[0 if "attention_output" in full_name else 1]
            source.num_attention_heads = heads
    if WORD_EMBEDDINGS not in source.tensors:
        raise CheckpointError(
            f"{source.path}: an object-based TensorFlow 2 checkpoint, but no "
            f"BERT of the Model Garden: no variable "
            f"{garden_name(WORD_EMBEDDINGS)}; it has "
            f"{shorten(sorted(full_names.values()))}"
        )
    _add_heads(source, rest, full_names, attributes)
    unknown = stored.keys() - full_names.keys() - source.ignored.keys()
    for key in sorted(unknown):
        source.ignored[key] = "no variable of a model"
    for key in [x for x in rest if not rest[x].shape]:
        source.ignored[key] = "a counter or setting, no weight"
        del rest[key]
    source.unexpected = tuple(sorted(rest))


def _normal(variable: GraphVariable) -> str:
    """The full name, or what the attributes say if they are official."""
    if len(variable.path) == 1 and "/" in variable.path[0]:
        return variable.path[0]
    name = variable.full_name.removesuffix(":0")
    # Names of 2020 and before.
    name = name.replace(
        "/self_attention_output/", "/self_attention/attention_output/"
    )
    return name.replace(
        "position_embedding/position_embeddings",
        "position_embedding/embeddings",
    )


def _match(full_name: str, known: Mapping[str, str]) -> str | None:
    """The official name of a full name, whatever its first scopes."""
    parts = full_name.split("/")
    for start in range(len(parts)):
        if (tail := "/".join(parts[start:])) in known:
            return known[tail]
    return None


def _take(
    source: Source,
    rest: dict[str, StoredTensor],
    keys: Mapping[str, str],
    scope: str,
    ours: Sequence[str],
    transpose: bool = True,
) -> None:
    """Moves kernel and bias of a dense layer into the source."""
    for part, name in zip(("kernel", "bias"), ours, strict=True):
        key = keys.get(f"{scope}/{part}")
        if key is None:
            raise CheckpointError(f"{source.path}: no {scope}/{part}")
        tensor = rest.pop(key)
        transposes = transpose and part == "kernel"
        source.tensors[name] = tensor.transposed() if transposes else tensor


def _add_heads(
    source: Source,
    rest: dict[str, StoredTensor],
    full_names: Mapping[str, str],
    attributes: set[str],
) -> None:
    keys = {full_names[key]: key for key in rest}
    scopes = [x.removesuffix("/kernel") for x in keys if x.endswith("/kernel")]
    logits = [x for x in scopes if x.endswith("/logits")]
    if len(logits) > 1:
        raise CheckpointError(
            f"{source.path}: several heads, expected one: {shorten(logits)}"
        )
    has_masked_lm = MASKED_LM[0] in source.tensors
    for scope in logits:
        if scope.endswith("next_sentence/logits") or has_masked_lm:
            target, head = NEXT_SENTENCE, None
        elif not scope.endswith(LOGITS):
            target, head = ROOT, "sequence_classification"
        elif "span_labeling" in attributes or _is_nested(keys, scope):
            target, head = SPAN, "question_answering"
        else:
            target, head = ROOT, "token_classification"
        _take(source, rest, keys, scope, target)
        source.head = head
        pooler = f"{scope.removesuffix('/logits')}/pooler_dense"
        if f"{pooler}/kernel" in keys:
            encoders = [source.tensors.pop(x, None) for x in POOLER]
            _take(source, rest, keys, pooler, POOLER, transpose=False)
            for name, other in zip(POOLER, encoders, strict=True):
                if other is not None:
                    source.ignored[other.source_name] = _why_not(
                        other, source.tensors[name]
                    )


def _why_not(encoders: StoredTensor, heads: StoredTensor) -> str:
    """Why the encoder's pooler is not the one to take."""
    if np.array_equal(encoders.read(), heads.read()):
        return f"the same values as {heads.source_name}"
    return "never used: the head has a pooler of its own"


def _is_nested(keys: Mapping[str, str], scope: str) -> bool:
    """Whether the layer lies in a network of its own, as for spans."""
    return keys[f"{scope}/kernel"].count("layer_with_weights-") > 1
