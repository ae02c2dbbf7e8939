"""Compiles a lowered training step with the compiler of TPUs; needs no TPU.

    python tpu_compile.py FOLDER [--topology=v5e:2x2] [--hbm_gib=15.75]

FOLDER is what tpu_lower.py wrote. Runs in an environment of its own, with jax
and libtpu instead of TensorFlow. Prints memory, FLOPs and what is updated in
place, and fails if a parameter or a slot is not, or if the step does not fit.
"""

import argparse
import json
import os
import pathlib
import re
import sys
import time

# Of the 16 GiB of a v5e chip, the rest is the system's; from the compiler's
# own message about programs that are too large.
HBM_GIB = 15.75
GIB = 2**30
_TYPES = {"float32": "f32", "int32": "i32", "int64": "i64"}


def _simplify(module, in_place: bool) -> None:
    """Takes what only the CPU's lowering has out of a module.

    `mhlo.copy` is the identity, and unknown to the TPU's compiler. Random bits
    are drawn by the TPU's own generator, as its lowering of dropout does.
    """
    from jax._src.lib.mlir import ir

    def walk(operation):
        for region in operation.regions:
            for block in region.blocks:
                for inner in list(block.operations):
                    visit(inner)

    def visit(operation):
        if operation.operation.name == "mhlo.copy":
            source = operation.operation.operands[0]
            operation.operation.results[0].replace_all_uses_with(source)
            operation.operation.erase()
            return
        if operation.operation.name == "stablehlo.rng_bit_generator":
            state = ir.RankedTensorType(operation.operation.operands[0].type)
            if state.shape == [2]:
                operation.attributes["rng_algorithm"] = ir.Attribute.parse(
                    "#stablehlo<rng_algorithm DEFAULT>"
                )
        walk(operation)

    walk(module.operation)
    if not in_place:
        del module.operation.attributes["mhlo.input_output_alias"]


def _check_arguments(module, arguments) -> None:
    """The description is that of the module."""
    (main,) = (
        f
        for f in module.body.operations
        if f.attributes["sym_name"].value == "main"
    )
    found = [str(t) for t in main.type.inputs]
    described = [
        "tensor<"
        + "".join(f"{size}x" for size in a["shape"])
        + f"{_TYPES[a['dtype']]}>"
        for a in arguments
    ]
    if found != described:
        raise ValueError(f"arguments are {found}, expected {described}")


def aliased_arguments(hlo_text: str) -> set[int]:
    """Numbers of the arguments whose memory an output takes.

    Args:
      hlo_text: a compiled module; its first line says so.
    """
    header = hlo_text.split("\n", 1)[0]
    return {int(n) for n in re.findall(r"\{\d*\}: \((\d+), \{\}", header)}


def compile_step(folder, topology: str, in_place: bool = True) -> dict:
    """Compiles for one chip; sizes in bytes.

    Raises:
      ValueError: the step does not fit, or is not what is described.
    """
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("TPU_SKIP_MDS_QUERY", "1")  # There is no chip.
    os.environ.setdefault("ALLOW_MULTIPLE_LIBTPU_LOAD", "1")
    import jax
    import numpy as np
    from jax._src.interpreters import mlir
    from jax._src.lib import xla_client
    from jax._src.lib.mlir.dialects import hlo
    from jax.experimental import topologies

    folder = pathlib.Path(folder)
    arguments = json.loads((folder / "arguments.json").read_text())
    chip = topologies.get_topology_desc(
        platform="tpu", topology_name=topology
    ).devices[0]
    options = xla_client.CompileOptions()
    options.device_assignment = xla_client.DeviceAssignment.create(
        np.array([[chip.id]])
    )
    start = time.monotonic()
    with mlir.make_ir_context() as context:
        module = hlo.deserialize_portable_artifact(
            context, (folder / "step.stablehlo").read_bytes()
        )
        _check_arguments(module, arguments)
        _simplify(module, in_place)
        try:
            compiled = chip.client.compile(
                module, xla_client.DeviceList((chip,)), options
            )
        except jax.errors.JaxRuntimeError as error:
            if "RESOURCE_EXHAUSTED" not in str(error):
                raise
            raise ValueError(f"does not fit: {str(error)[:500]}") from error
    memory = compiled.get_compiled_memory_stats()
    costs = compiled.cost_analysis()
    costs = costs if isinstance(costs, dict) else costs[0]
    aliased = aliased_arguments(compiled.hlo_modules()[0].to_string())
    return {
        "chip": chip.device_kind,
        "seconds": time.monotonic() - start,
        "arguments": memory.argument_size_in_bytes,
        "outputs": memory.output_size_in_bytes,
        "aliased": memory.alias_size_in_bytes,
        "temporaries": memory.temp_size_in_bytes,
        "program": memory.generated_code_size_in_bytes,
        "flops": costs["flops"],
        "bytes_accessed": costs["bytes accessed"],
        "in_place": [
            {**argument, "in_place": i in aliased}
            for i, argument in enumerate(arguments)
            if argument["kind"] in ("parameter", "slot")
        ],
    }


def total_memory(report: dict) -> int:
    """Bytes on the chip while a step runs."""
    return (
        report["arguments"]
        + report["outputs"]
        - report["aliased"]
        + report["temporaries"]
        + report["program"]
    )


def faults(report: dict, hbm_gib: float = HBM_GIB) -> list[str]:
    """What is wrong with a compiled step; empty if nothing."""
    found = []
    updated = report["in_place"]
    if not updated:
        found.append("the step has neither parameters nor slots")
    copied = [v for v in updated if not v["in_place"]]
    if copied:
        names = ", ".join(v["name"] for v in copied[:3])
        found.append(
            f"{len(copied)} of {len(updated)} parameters and slots are not "
            f"updated in place: {names} ..."
        )
    total = total_memory(report) / GIB
    if total > hbm_gib:
        found.append(f"does not fit: {total:.2f} GiB of {hbm_gib:g}")
    return found


def describe(report: dict) -> str:
    """The report as a table."""
    lines = [f"{report['chip']}, compiled in {report['seconds']:.0f} s"]
    sizes = ("arguments", "outputs", "aliased", "temporaries", "program")
    for name in sizes:
        lines.append(f"{name:<12}{report[name] / 2**20:>10.1f} MiB")
    lines.append(f"{'in all':<12}{total_memory(report) / 2**20:>10.1f} MiB")
    lines.append(f"{'FLOPs':<12}{report['flops'] / 1e9:>10.1f} billion")
    read = report["bytes_accessed"] / 2**20
    lines.append(f"{'traffic':<12}{read:>10.1f} MiB")
    for kind in ("parameter", "slot"):
        ours = [v for v in report["in_place"] if v["kind"] == kind]
        done = sum(v["in_place"] for v in ours)
        lines.append(f"{done} of {len(ours)} {kind}s updated in place")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("--topology", default="v5e:2x2")
    parser.add_argument("--hbm_gib", type=float, default=HBM_GIB)
    parser.add_argument(
        "--not_in_place",
        action="store_true",
        help="negative control: forget that outputs may take inputs' memory",
    )
    flags = parser.parse_args()
    try:
        report = compile_step(
            flags.folder, flags.topology, not flags.not_in_place
        )
    except ValueError as error:
        print(error)
        return 1
    print(describe(report))
    found = faults(report, flags.hbm_gib)
    print("\n".join(found) or "fine")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
