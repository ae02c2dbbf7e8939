"""What a training step needs: parameters, memory, arithmetic.

Plain arithmetic from the architecture, without TensorFlow:

    python -m bert_tf.plan --bert_config_file=bert_config.json
"""

from bert_tf.plan.flops import step_flops
from bert_tf.plan.memory import Memory, changes_that_fit, step_memory
from bert_tf.plan.parameters import count_parameters, count_trained
from bert_tf.plan.step import Step

__all__ = [
    "Memory",
    "Step",
    "changes_that_fit",
    "count_parameters",
    "count_trained",
    "step_flops",
    "step_memory",
]
