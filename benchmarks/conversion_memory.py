"""Memory and time of converting a model of BERT-large's size.

A model of random weights is made up and converted between formats, each time
in a process of its own. Printed: the size of the weights, the largest tensor,
and by how much the process's peak memory exceeds that after its imports.

  python benchmarks/conversion_memory.py --layers=24 --hidden=1024
"""

import argparse
import json
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

import numpy as np

_PAIRS = (
    ("huggingface", "tf1"),
    ("tf1", "huggingface"),
    ("tf1", "model_garden"),
    ("model_garden", "tf1"),
    ("tf1", "saved_model"),
)


def make_model(folder: pathlib.Path, layers: int, hidden: int) -> int:
    """Writes a Hugging Face folder of random weights; returns its bytes."""
    from bert_tf.checkpoint.architecture import expected_shapes, is_encoder
    from bert_tf.checkpoint.huggingface_writing import write_huggingface
    from bert_tf.checkpoint.sources import StoredTensor
    from bert_tf.config import BertConfig

    config = BertConfig(
        vocab_size=30522,
        hidden_size=hidden,
        num_hidden_layers=layers,
        num_attention_heads=hidden // 64,
        intermediate_size=4 * hidden,
        type_vocab_size=2,
    )
    rng = np.random.default_rng(1)

    def values(shape):
        return lambda: rng.standard_normal(shape, np.float32)

    shapes = {
        name: shape
        for name, shape in expected_shapes(config).items()
        if is_encoder(name)
    }
    tensors = {
        name: StoredTensor(name, np.dtype("f4"), shape, values(shape))
        for name, shape in shapes.items()
    }
    write_huggingface(str(folder), tensors, config)
    return 4 * sum(int(np.prod(x)) for x in shapes.values())


def child(source: str, target: str, output_format: str) -> None:
    """Converts, and prints peak memory (KiB) before and after, and seconds."""
    from bert_tf.conversion import convert
    from bert_tf.conversion_request import Conversion

    if output_format == "saved_model":
        import bert_tf.encoder_saved_model  # noqa: F401
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    convert(Conversion(source, target, output_format))
    seconds = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps([before, after, seconds]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--child", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*options.child)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        size = make_model(
            folder / "huggingface", options.layers, options.hidden
        )
        largest = 4 * 30522 * options.hidden
        print(
            f"weights {size / 2**20:.0f} MiB, largest tensor "
            f"{largest / 2**20:.0f} MiB"
        )
        for source, target in _PAIRS:
            output = folder / f"{target}_of_{source}"
            done = subprocess.run(
                [
                    *(sys.executable, __file__, "--child"),
                    *(str(folder / source), str(output), target),
                ],
                stdout=subprocess.PIPE,
                check=True,
                text=True,
            )
            before, after, seconds = json.loads(done.stdout.splitlines()[-1])
            if not (folder / target).exists():
                output.rename(folder / target)
            print(
                f"{source} -> {target}: {(after - before) / 2**10:.0f} MiB "
                f"above the imports' {before / 2**10:.0f}, "
                f"{size / 2**20 / seconds:.0f} MiB/s"
            )


if __name__ == "__main__":
    main()
