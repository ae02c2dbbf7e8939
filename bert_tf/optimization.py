"""Learning-rate schedule, gradient clipping, AdamWeightDecay and LAMB.

The defaults are those of google-research/bert, `optimization.py`; what goes
beyond it (bias correction, LAMB) is opt-in.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

CLIP_NORM = 1.0
# Matched anywhere in the checkpoint name, as the original does.
NO_DECAY = ("LayerNorm", "layer_norm", "bias")


def learning_rate_at(
    step: tf.Tensor,
    peak: float,
    num_train_steps: int,
    num_warmup_steps: int = 0,
) -> tf.Tensor:
    """The rate for the update made at `step`.

    Linear decay `peak * (1 - step / N)` over all N steps, warm-up included;
    below W warm-up steps `peak * step / W` instead. So the first update has
    rate 0 when there is a warm-up, and at step W the rate jumps down from
    nearly `peak` to the line of the decay.

    Args:
      step: int scalar, number of updates made before.
      peak: the flag `--learning_rate`.
      num_train_steps: N.
      num_warmup_steps: W; 0 for none.

    Returns:
      float32 scalar.
    """
    step = tf.cast(step, tf.float32)
    total = tf.constant(float(num_train_steps), tf.float32)
    peak = tf.constant(peak, tf.float32)
    rate = peak * (1.0 - tf.minimum(step, total) / total)
    if num_warmup_steps:
        warmup = tf.constant(float(num_warmup_steps), tf.float32)
        rate = tf.where(step < warmup, peak * (step / warmup), rate)
    return rate


def clip_factor(norm: tf.Tensor, clip_norm: float = CLIP_NORM) -> tf.Tensor:
    """What brings gradients of a joint norm to at most `clip_norm`.

    0 for a norm that is not finite.
    """
    factor = clip_norm / tf.maximum(norm, clip_norm)
    return tf.where(tf.math.is_finite(norm), factor, 0.0)


def clip_by_global_norm(
    gradients: Sequence[tf.Tensor], clip_norm: float = CLIP_NORM
) -> tuple[list[tf.Tensor], tf.Tensor]:
    """Scales all gradients so that their joint norm is at most `clip_norm`.

    Sparse gradients count as dense: equal ids are summed first.

    Returns:
      The gradients, and the norm before clipping.
    """
    norm = tf.linalg.global_norm(gradients)
    factor = clip_factor(norm, clip_norm)
    return [tf.math.multiply_no_nan(g, factor) for g in gradients], norm


class StepTerms(NamedTuple):
    """Scalars of one step that all variables share, float32.

    Attributes:
      learning_rate: 0 where the update is left out.
      kernel_rate: the same, with what the fused kernel is off taken out.
      decay_rate: the learning rate times the weight decay.
      beta_1: decay of the first moment; 1 where the update is left out.
      beta_2: decay of the second moment.
      power_1: beta_1^t, 0 without bias correction.
      power_2: beta_2^t.
      epsilon: added to the root of the second moment.
    """

    learning_rate: tf.Tensor
    kernel_rate: tf.Tensor
    decay_rate: tf.Tensor
    beta_1: tf.Tensor
    beta_2: tf.Tensor
    power_1: tf.Tensor
    power_2: tf.Tensor
    epsilon: tf.Tensor


class AdamWeightDecay:
    """Adam with decoupled weight decay, as BERT was trained with.

    m <- beta_1 m + (1 - beta_1) g; v <- beta_2 v + (1 - beta_2) g^2;
    param <- param - rate * (m / (sqrt(v) + epsilon) + decay * param). There
    is no bias correction, epsilon is outside the root, and the decay takes
    the parameter before the update (Kingma and Ba 2014, arXiv 1412.6980;
    Loshchilov and Hutter 2017, arXiv 1711.05101).

    Args:
      weight_decay_rate: decay of variables that `no_decay` does not match.
      beta_1: decay of the first moment.
      beta_2: decay of the second moment.
      epsilon: added to the root of the second moment.
      no_decay: regular expressions searched in the checkpoint name.
      bias_correction: scale the step by sqrt(1 - beta_2^t) / (1 - beta_1^t),
        as plain Adam does (the form at the end of the paper's section 2).
      rate_factors: checkpoint name -> factor of that variable's learning
        rate, 1 by default; 0 leaves it out: neither update nor moments.
    """

    def __init__(
        self,
        weight_decay_rate: float = 0.01,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float = 1e-6,
        no_decay: Sequence[str] = NO_DECAY,
        bias_correction: bool = False,
        rate_factors: Mapping[str, float] | None = None,
    ):
        self.weight_decay_rate = weight_decay_rate
        self.beta_1 = beta_1
        self.beta_2 = beta_2
        self.epsilon = epsilon
        self.no_decay = tuple(no_decay)
        self.bias_correction = bias_correction
        self.rate_factors = dict(rate_factors or {})
        self.variables: dict[str, tf.Variable] = {}
        self.slots: dict[str, tf.Variable] = {}

    def build(self, variables: Mapping[str, tf.Variable]) -> None:
        """Makes both moments of each variable, all zeros.

        Args:
          variables: those to be trained, under their checkpoint names; made
            under the strategy's scope, in which this call must run too.
        """
        self.variables = {
            name: variable
            for name, variable in variables.items()
            if self.rate_factors.get(name, 1.0)
        }
        strategy = tf.distribute.get_strategy()
        for name, variable in self.variables.items():
            for slot in ("adam_m", "adam_v"):
                with strategy.extended.colocate_vars_with(variable):
                    self.slots[f"{name}/{slot}"] = tf.Variable(
                        tf.zeros(variable.shape, tf.float32),
                        trainable=False,
                        name=slot,
                    )

    def decays(self, name: str) -> bool:
        """Whether the variable of that checkpoint name is decayed."""
        return bool(self.weight_decay_rate) and not any(
            re.search(pattern, name) for pattern in self.no_decay
        )

    def apply(
        self,
        gradients: Sequence[tf.Tensor],
        learning_rate: tf.Tensor,
        step: tf.Tensor,
        is_update: tf.Tensor | bool = True,
    ) -> None:
        """Updates all variables; runs in a replica or in cross-replica
        context, with gradients that are equal on all replicas.

        Args:
          gradients: dense, in the order of `variables`.
          learning_rate: float32 scalar.
          step: int scalar, number of updates made before.
          is_update: bool scalar; if false, variables and moments stay as
            they are. The gradients must be finite even then.
        """
        # One kernel for both cases: with decay 1 a moment keeps its value.
        is_update = tf.convert_to_tensor(is_update)
        betas = tf.where(is_update, [self.beta_1, self.beta_2], [1.0, 1.0])
        learning_rate = tf.where(is_update, learning_rate, 0.0)
        tf.__internal__.distribute.interim.maybe_merge_call(
            self._update_all,
            tf.distribute.get_strategy(),
            list(gradients),
            self._step_terms(learning_rate, step, betas),
        )

    def _update_all(self, strategy, gradients, terms):
        for (name, variable), gradient in zip(
            self.variables.items(), gradients, strict=True
        ):

            def update(variable, m, v, gradient, *terms, name=name):
                self.update_variable(
                    name, variable, m, v, gradient, StepTerms(*terms)
                )

            strategy.extended.update(
                variable,
                update,
                args=(
                    self.slots[f"{name}/adam_m"],
                    self.slots[f"{name}/adam_v"],
                    gradient,
                    *terms,
                ),
                group=False,
            )

    def _step_terms(self, learning_rate, step, betas) -> StepTerms:
        beta_1, beta_2 = tf.unstack(betas)
        power_1, power_2 = self._beta_powers(step)
        kernel_rate = learning_rate
        if not self.bias_correction:
            kernel_rate *= self._second_moment_scale(step)
        return StepTerms(
            learning_rate,
            kernel_rate,
            learning_rate * self.weight_decay_rate,
            beta_1,
            beta_2,
            power_1,
            power_2,
            tf.constant(self.epsilon, tf.float32),
        )

    def _of_variable(self, name: str, rate: tf.Tensor) -> tf.Tensor:
        factor = self.rate_factors.get(name, 1.0)
        return rate if factor == 1.0 else rate * factor

    def _beta_powers(self, step) -> tuple:
        """beta^t of both moments; zeros make the kernel leave out the bias
        correction."""
        if not self.bias_correction:
            return tf.zeros([]), tf.zeros([])
        count = tf.cast(step, tf.float32) + 1.0
        return tf.pow(self.beta_1, count), tf.pow(self.beta_2, count)

    def _second_moment_scale(self, step):
        """Root of how much the kernel's second moment is off.

        The kernel forms 1 - beta_2 in float32, which for 0.999 is 1.3e-5 too
        small. Over t updates with gradients of one size its second moment is
        (1 - beta^t) of the rounded beta instead of the exact one.
        """
        rounded = math.log1p(-float(np.float32(1) - np.float32(self.beta_2)))
        exact = math.log(self.beta_2)
        count = tf.cast(step, tf.float32) + 1.0
        return tf.sqrt(
            tf.math.expm1(count * rounded) / tf.math.expm1(count * exact)
        )

    def update_variable(
        self, name, variable, m, v, gradient, terms: StepTerms
    ) -> None:
        """Updates one variable and its moments on one device.

        Args:
          name: checkpoint name of the variable.
          variable: the variable.
          m: its first moment.
          v: its second moment.
          gradient: dense, of the variable's shape.
          terms: what all variables share.
        """
        if self.decays(name):
            variable.assign_sub(
                self._of_variable(name, terms.decay_rate) * variable
            )
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=m.handle,
            v=v.handle,
            beta1_power=terms.power_1,
            beta2_power=terms.power_2,
            lr=self._of_variable(name, terms.kernel_rate),
            beta1=terms.beta_1,
            beta2=terms.beta_2,
            epsilon=terms.epsilon,
            grad=gradient,
        )


class Lamb(AdamWeightDecay):
    """LAMB: Adam's update scaled per variable for large batches.

    You et al. 2019 (arXiv 1904.00962), algorithm 2, with the identity as
    phi: r = m' / (sqrt(v') + epsilon) + decay * param, param <- param -
    rate * (|param| / |r|) * r, where m' and v' are bias-corrected. Variables
    without decay take the plain step, as the published BERT recipe does.
    """

    def __init__(self, bias_correction: bool = True, **kwargs):
        super().__init__(bias_correction=bias_correction, **kwargs)

    def update_variable(
        self, name, variable, m, v, gradient, terms: StepTerms
    ) -> None:
        """Updates one variable and its moments on one device.

        Args:
          name: checkpoint name of the variable.
          variable: the variable.
          m: its first moment.
          v: its second moment.
          gradient: dense, of the variable's shape.
          terms: what all variables share.
        """
        beta_1, beta_2 = terms.beta_1, terms.beta_2
        m.assign(beta_1 * m + (1.0 - beta_1) * gradient)
        v.assign(beta_2 * v + (1.0 - beta_2) * tf.square(gradient))
        first = m / (1.0 - terms.power_1)
        second = v / (1.0 - terms.power_2)
        update = first / (tf.sqrt(second) + terms.epsilon)
        ratio = 1.0
        if self.decays(name):
            update += self.weight_decay_rate * variable
            size, length = tf.norm(variable), tf.norm(update)
            ratio = tf.where(
                (size > 0) & (length > 0), size / length, tf.ones([])
            )
        rate = self._of_variable(name, terms.learning_rate)
        variable.assign_sub(rate * ratio * update)
