"""Prints parameters, memory and arithmetic of a training step.

  python -m bert_tf.plan --bert_config_file=bert_config.json \\
      --train_batch_size=32 --max_seq_length=128 --memory_gib=16

Nothing is run: it takes no TensorFlow and no device.
"""

import argparse
import sys
from collections.abc import Mapping, Sequence

from bert_tf.config import BertConfig
from bert_tf.plan import (
    Step,
    changes_that_fit,
    count_parameters,
    count_trained,
    step_flops,
    step_memory,
)
from bert_tf.plan.step import TASKS
from bert_tf.settings import DTYPES, OPTIMIZERS

_MIB = 2**20
_GIB = 2**30


def parse_arguments(arguments: Sequence[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m bert_tf.plan",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--bert_config_file", required=True, help="the architecture")
    add("--task", choices=TASKS, default="pretraining")
    add("--train_batch_size", type=int, default=32, help="over all replicas")
    add("--max_seq_length", type=int, default=128)
    add("--max_predictions_per_seq", type=int, default=20)
    add("--num_labels", type=int, default=2, help="of a classification")
    add("--dtype", choices=DTYPES, default="float32")
    add("--optimizer", choices=OPTIMIZERS, default="adam")
    add("--gradient_accumulation_steps", type=int, default=1)
    add("--recompute", action="store_true")
    add("--replicas", type=int, default=1, help="devices")
    add("--memory_gib", type=float, help="of a device: does it fit?")
    return parser.parse_args(arguments)


def print_table(title: str, rows: Mapping[str, str]) -> None:
    """A title, then names on the left and figures on the right."""
    print(title)
    for name, figure in rows.items():
        print(f"  {name:<26}{figure:>18}")


def describe(step: Step) -> None:
    """Prints all figures of a step."""
    counts = count_parameters(step)
    rows = {name: f"{count:,}" for name, count in counts.items()}
    rows["all"] = f"{sum(counts.values()):,}"
    rows["trained"] = f"{count_trained(step):,}"
    print_table("parameters", rows)
    memory = step_memory(step)
    rows = {name: f"{x / _MIB:,.1f}" for name, x in memory.parts.items()}
    rows["most at one time"] = f"{memory.peak / _MIB:,.1f}"
    print_table(
        f"memory of each device, MiB ({step.micro_batch_size} examples at a "
        "time)",
        rows,
    )
    flops = step_flops(step)
    rows = {
        name: f"{count / 1e9:,.1f}" for name, count in flops.items() if count
    }
    rows["all"] = f"{sum(flops.values()) / 1e9:,.1f}"
    print_table("arithmetic of a step, GFLOP, on all devices", rows)


def describe_fit(step: Step, memory_gib: float) -> None:
    """Prints whether a step fits, or with what change it does."""
    steps = changes_that_fit(step, int(memory_gib * _GIB))
    if not steps:
        print(
            f"does not fit into {memory_gib:g} GiB, not even one example at "
            "a time with --recompute"
        )
    elif steps[0] == step:
        share = step_memory(step).peak / (memory_gib * _GIB)
        print(f"fits into {memory_gib:g} GiB ({share:.0%} of it)")
    else:
        print(f"does not fit into {memory_gib:g} GiB; it does with")
    for other in steps:
        if other == step:
            continue
        flags = []
        count = other.gradient_accumulation_steps
        if count != step.gradient_accumulation_steps:
            flags.append(f"--gradient_accumulation_steps={count}")
        if other.recompute and not step.recompute:
            flags.append("--recompute")
        peak = step_memory(other).peak / _GIB
        print(f"  {' '.join(flags)}  ({peak:.1f} GiB)")


def main(arguments: Sequence[str] | None = None) -> None:
    options = vars(parse_arguments(arguments))
    memory_gib = options.pop("memory_gib")
    try:
        config = BertConfig.from_json_file(options.pop("bert_config_file"))
        step = Step(config, **options)
        if memory_gib is not None and memory_gib <= 0:
            raise ValueError(f"--memory_gib is {memory_gib}, must be positive")
    except (ValueError, OSError) as error:
        sys.exit(f"error: {error}")
    describe(step)
    if memory_gib is not None:
        describe_fit(step, memory_gib)


if __name__ == "__main__":
    main()
