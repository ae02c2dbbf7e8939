"""Which variables a BERT of a given config has, by official name.

Source: google-research/bert, `modeling.py` and the scripts that add heads.
"""

from collections.abc import Collection, Mapping

from bert_tf.checkpoint.names import is_encoder, is_head
from bert_tf.checkpoint.report import CheckpointError, shorten
from bert_tf.config import BertConfig

WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"
POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
MASKED_LM = (
    "cls/predictions/transform/dense/kernel",
    "cls/predictions/transform/dense/bias",
    "cls/predictions/transform/LayerNorm/beta",
    "cls/predictions/transform/LayerNorm/gamma",
    "cls/predictions/output_bias",
)
NEXT_SENTENCE = (
    "cls/seq_relationship/output_weights",
    "cls/seq_relationship/output_bias",
)
SPAN = ("cls/squad/output_weights", "cls/squad/output_bias")
ROOT = ("output_weights", "output_bias")

# Kind of head -> its variables. The last three share theirs, so that names
# alone do not tell which one it is.
HEADS: dict[str, tuple[str, ...]] = {
    "pre_training": MASKED_LM + NEXT_SENTENCE,
    "masked_lm": MASKED_LM,
    "next_sentence": NEXT_SENTENCE,
    "question_answering": SPAN,
    "sequence_classification": ROOT,
    "token_classification": ROOT,
    "multiple_choice": ROOT,
}
ROOT_HEADS = tuple(head for head, names in HEADS.items() if names == ROOT)
# Heads that read the first token through the pooler.
USE_POOLER = (
    *("pre_training", "next_sentence"),
    *("sequence_classification", "multiple_choice"),
)


def layer_names(index: int) -> list[str]:
    """Official names of one encoder layer's variables."""
    scope = f"bert/encoder/layer_{index}"
    dense = [f"attention/self/{x}" for x in ("query", "key", "value")]
    dense += ["attention/output/dense", "intermediate/dense", "output/dense"]
    norms = ["attention/output/LayerNorm", "output/LayerNorm"]
    return [f"{scope}/{x}/{y}" for x in dense for y in ("kernel", "bias")] + [
        f"{scope}/{x}/{y}" for x in norms for y in ("beta", "gamma")
    ]


def all_names(num_layers: int) -> list[str]:
    """Official names of an encoder with pooler, and of every head."""
    names = [
        WORD_EMBEDDINGS,
        "bert/embeddings/token_type_embeddings",
        "bert/embeddings/position_embeddings",
        "bert/embeddings/LayerNorm/beta",
        "bert/embeddings/LayerNorm/gamma",
    ]
    for index in range(num_layers):
        names += layer_names(index)
    return [*names, *POOLER, *HEADS["pre_training"], *SPAN, *ROOT]


def expected_shapes(
    config: BertConfig, num_labels: int = 1
) -> dict[str, tuple[int, ...]]:
    """Shapes of all variables that a checkpoint of this config may have.

    Args:
      config: the architecture.
      num_labels: rows of the root head.
    """
    return {
        name: _shape(name, config, num_labels)
        for name in all_names(config.num_hidden_layers)
    }


def _shape(name: str, config: BertConfig, labels: int) -> tuple[int, ...]:
    hidden, inner = config.hidden_size, config.intermediate_size
    special = {
        WORD_EMBEDDINGS: (config.vocab_size, hidden),
        "bert/embeddings/token_type_embeddings": (
            config.type_vocab_size,
            hidden,
        ),
        "bert/embeddings/position_embeddings": (
            config.max_position_embeddings,
            hidden,
        ),
        "cls/predictions/output_bias": (config.vocab_size,),
        "output_weights": (labels, hidden),
        "output_bias": (labels,),
        "cls/seq_relationship/output_weights": (2, hidden),
        "cls/seq_relationship/output_bias": (2,),
        "cls/squad/output_weights": (2, hidden),
        "cls/squad/output_bias": (2,),
    }
    if name in special:
        return special[name]
    if "/intermediate/" in name:
        return (hidden, inner) if name.endswith("kernel") else (inner,)
    if name.endswith("/kernel"):
        wide = "/output/dense" in name and "/attention/" not in name
        return (inner if wide else hidden, hidden)
    return (hidden,)


def find_head(names: Collection[str], hint: str | None = None) -> str | None:
    """Tells which head a set of variables has.

    Args:
      names: official names.
      hint: the kind, where names leave it open or as a check.

    Returns:
      A key of `HEADS`, or None without a head. A root head of unknown kind
      counts as `sequence_classification`.

    Raises:
      CheckpointError: (a ValueError) part of a head, more than one, or
        another than the hint.
    """
    found = sorted(x for x in names if is_head(x))
    if not found:
        if hint is not None:
            raise CheckpointError(f"there is no head, expected {hint}")
        return None
    fitting = [head for head in HEADS if set(HEADS[head]) == set(found)]
    if not fitting:
        raise CheckpointError(
            f"no known head has these variables: {shorten(found)}; expected "
            "those of one of " + ", ".join(HEADS)
        )
    if hint is not None and hint not in fitting:
        raise CheckpointError(
            f"the head is {' or '.join(fitting)}, expected {hint}"
        )
    return hint or fitting[0]


def check_shapes(
    shapes: Mapping[str, tuple[int, ...]], config: BertConfig, path: str
) -> list[str]:
    """Compares what a checkpoint has with what its config asks for.

    Args:
      shapes: by official name, weights only.
      config: the architecture.
      path: the checkpoint, for errors.

    Returns:
      The pooler's names if they are absent, as they are from models that do
      not use them; else an empty list.

    Raises:
      CheckpointError: (a ValueError) shapes differ, or anything else of the
        encoder is missing or too much; all names are listed.
    """
    labels = shapes.get("output_bias", (1,))
    expected = expected_shapes(config, labels[0] if labels else 1)
    wrong = [
        f"  {name}: {list(shapes[name])}, the config asks for "
        + (
            str(list(expected[name]))
            if name in expected
            else "no such variable"
        )
        for name in sorted(shapes)
        if shapes[name] != expected.get(name)
    ]
    missing = [x for x in expected if is_encoder(x) and x not in shapes]
    without_pooler = [x for x in missing if x not in POOLER]
    wrong += [f"  {name}: missing" for name in without_pooler]
    if wrong:
        raise CheckpointError(
            f"{path} does not fit its config"
            + (f" {config.source}" if config.source else "")
            + ":\n"
            + "\n".join(wrong)
        )
    if len(missing) == 1:
        raise CheckpointError(f"{path}: {missing[0]} is missing")
    return missing
