"""Which name a variable has in a checkpoint, and what kind of name it is.

Source: google-research/bert, the scopes opened in `modeling.py`,
`run_pretraining.py`, `run_classifier.py`, `run_squad.py`, `optimization.py`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import keras
    import tensorflow as tf

GLOBAL_STEP = "global_step"
ENCODER_SCOPE = "bert/"
_SLOTS = ("/adam_m", "/adam_v")
# Some third-party exports keep the optimizer's own scope as well.
_OPTIMIZER_SCOPE = "AdamWeightDecayOptimizer"


def is_optimizer_state(name: str) -> bool:
    """Tells whether a checkpoint name is no weight: a slot or the step."""
    return (
        name == GLOBAL_STEP
        or name.endswith(_SLOTS)
        or any(x.startswith(_OPTIMIZER_SCOPE) for x in name.split("/"))
    )


def is_encoder(name: str) -> bool:
    """Tells whether a name is a weight of the encoder (or of its pooler)."""
    return name.startswith(ENCODER_SCOPE) and not is_optimizer_state(name)


def is_head(name: str) -> bool:
    """Tells whether a name is a weight of a task's head."""
    return not name.startswith(ENCODER_SCOPE) and not is_optimizer_state(name)


def checkpoint_names(model: "keras.Model") -> dict[str, "tf.Variable"]:
    """Maps official names to a model's variables.

    The layers carry the scopes of the original as their names, so a variable's
    Keras path is its official name once the root model's own name, which Keras
    numbers from one instance to the next, is taken away. Counters of random
    generators and of Keras metrics are left out.

    Args:
      model: a built Keras model.

    Returns:
      The variables by name, in the order in which the model made them.

    Raises:
      ValueError: the model has no variables yet, or two of one name.
    """
    if not model.weights:
        raise ValueError(
            f"the model {model.name!r} has no variables yet: build it (call "
            "it once) before loading or saving"
        )
    variables = {}
    for weight in model.weights:
        _, _, name = weight.path.partition("/")
        if not name or name in variables:
            raise ValueError(
                f"the model {model.name!r} gives no name of its own to the "
                f"variable {weight.path!r}, found {name!r}"
                + (" twice" if name else "")
            )
        variables[name] = weight.value
    return variables
