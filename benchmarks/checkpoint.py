"""Loading a BERT-base-sized checkpoint, beside the least TensorFlow can do.

`restore_all` is one RestoreV2 of all tensors and their assignment; it checks
nothing. Each load runs in a process of its own, whose model is already built;
the variants take turns. The checkpoint has random values and is made on the
spot in a temporary folder.

    python benchmarks/checkpoint.py --rounds=5
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

VARIANTS = ("restore_all", "load_checkpoint")
BASE_VOCABULARY = 30522


def memory_kib(field: str) -> int:
    """Reads VmRSS or VmHWM of this process (Linux)."""
    with open("/proc/self/status") as stream:
        return next(int(x.split()[1]) for x in stream if x.startswith(field))


def build_model():
    """A model of BERT-base's size with the heads of pre-training."""
    import bert_tf

    config = bert_tf.BertConfig(BASE_VOCABULARY, type_vocab_size=2)
    return bert_tf.BertForPreTraining(config)


def restore_all(model, prefix: str) -> None:
    """One op for all tensors, then the assignments."""
    import tensorflow as tf

    from bert_tf.checkpoint import checkpoint_names

    variables = checkpoint_names(model)
    names = sorted(variables)
    tensors = tf.raw_ops.RestoreV2(
        prefix=prefix,
        tensor_names=names,
        shape_and_slices=[""] * len(names),
        dtypes=[variables[name].dtype for name in names],
    )
    for name, tensor in zip(names, tensors, strict=True):
        variables[name].assign(tensor)


def measure(variant: str, prefix: str) -> dict[str, float]:
    """Builds, loads once, and tells seconds and MiB of that one load."""
    import bert_tf

    model = build_model()
    load = restore_all if variant == "restore_all" else bert_tf.load_checkpoint
    with open("/proc/self/clear_refs", "w") as stream:
        stream.write("5")  # the peak starts again from what is held now
    before = memory_kib("VmRSS")
    wall, cpu = time.perf_counter(), time.process_time()
    load(model, prefix)
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - cpu,
        "mib": (memory_kib("VmHWM") - before) / 1024,
    }


def in_new_process(variant: str, prefix: str) -> dict[str, float]:
    """Runs this script again for one variant."""
    command = [sys.executable, __file__, "--variant", variant, prefix]
    output = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    return json.loads(output.splitlines()[-1]) if output else {}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--variant", help="used by the script itself")
    parser.add_argument("prefix", nargs="?", help="used by the script itself")
    args = parser.parse_args()
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    if args.variant == "write":
        import bert_tf

        bert_tf.save_checkpoint(build_model(), args.prefix)
        return
    if args.variant:
        print(json.dumps(measure(args.variant, args.prefix)))
        return
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "bert_model.ckpt")
        in_new_process("write", prefix)
        size = os.path.getsize(f"{prefix}.data-00000-of-00001") / 2**20
        seen = {variant: [] for variant in VARIANTS}
        for _ in range(args.rounds):
            for variant in VARIANTS:
                seen[variant].append(in_new_process(variant, prefix))
    median = {
        variant: {
            key: statistics.median(x[key] for x in runs) for key in runs[0]
        }
        for variant, runs in seen.items()
    }
    print(f"file {size:.0f} MiB, medians of {args.rounds} rounds")
    for variant, values in median.items():
        print(
            f"{variant:16} {values['wall']:.3f} s, {values['cpu']:.3f} CPU s, "
            f"peak +{values['mib']:.0f} MiB"
        )
    floor, ours = (median[variant] for variant in VARIANTS)
    print(f"time:   {ours['wall'] / floor['wall']:.2f} x restore_all")
    print(f"CPU:    {ours['cpu'] / floor['cpu']:.2f} x restore_all")
    print(f"memory: {ours['mib'] / size:.2f} x the file's size")


if __name__ == "__main__":
    main()
