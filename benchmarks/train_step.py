"""One pre-training step: this package beside others, on the same batch.

Each variant is a process of its own; all are loaded, then they take turns.

  bert_tf: the real `Trainer` on one device, with a script's defaults.
  model-garden: tf-models-official's pre-trainer and its AdamWeightDecay,
    which clips too, with TensorFlow's defaults.
  model-garden-onednn: the same with oneDNN switched on.
  model-garden-plain: the same with oneDNN off, which is TensorFlow's default
    on processors without VNNI instructions.
  keras-mha: a plain Keras 3 model of MultiHeadAttention layers with a loop of
    its own and Keras's AdamW, oneDNN on.

Printed are medians over the rounds and their ratios, the first step with its
tracing (the median of `--starts` processes, which take turns too), and the
share of the rate of a large float32 matrix product, which is measured between
the variants by NumPy and by TensorFlow; the better counts.
Rounds in which other processes took more than 0.15 of a core are left out
where all variants have others. Weights and batch are random; odd rows end
with 10 padded positions.

    python benchmarks/train_step.py
    python benchmarks/train_step.py --rounds=3 --steps=4 --layers=12 \\
        --hidden_size=768 --batch_size=8
"""

import argparse
import collections
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

import numpy as np

ONEDNN = "TF_ENABLE_ONEDNN_OPTS"
OWN, GEMM = "bert_tf", "matmul"
DROPOUT, DECAY, LEARNING_RATE = 0.1, 0.01, 1e-4
MATMUL = (4096, 768, 3072)
CLEAN = 0.15
PADDED = 10

# What a worker makes: a function that takes so many steps and returns the
# last loss, or the rate for `matmul`.
Run = Callable[[int], float]


def architecture(args):
    """The `BertConfig` of the sizes asked for."""
    from bert_tf.config import BertConfig

    return BertConfig(
        args.vocab_size,
        hidden_size=args.hidden_size,
        num_hidden_layers=args.layers,
        num_attention_heads=args.heads,
        intermediate_size=4 * args.hidden_size,
        hidden_dropout_prob=DROPOUT,
        attention_probs_dropout_prob=DROPOUT,
        max_position_embeddings=max(512, args.length),
        type_vocab_size=2,
    )


def random_batch(args) -> dict[str, np.ndarray]:
    """One batch, the same in every process."""
    rng = np.random.default_rng(1)
    shape = (args.batch_size, args.length)
    mask = np.ones(shape, np.int32)
    mask[1::2, -PADDED:] = 0
    masked = (args.batch_size, args.predictions)
    return {
        "input_ids": rng.integers(5, args.vocab_size, shape, np.int32),
        "input_mask": mask,
        "segment_ids": rng.integers(0, 2, shape, np.int32),
        "masked_lm_positions": np.sort(
            rng.integers(1, args.length - PADDED, masked, np.int32), axis=1
        ),
        "masked_lm_ids": rng.integers(5, args.vocab_size, masked, np.int32),
        "masked_lm_weights": np.ones(masked, np.float32),
        "next_sentence_labels": rng.integers(
            0, 2, (args.batch_size, 1), np.int32
        ),
    }


def dataset(args):
    """The batch, for ever."""
    import tensorflow as tf

    return tf.data.Dataset.from_tensors(random_batch(args)).repeat()


# Variants -----------------------------------------------------------------


def bert_tf_trainer(args) -> Run:
    """What `run_pretraining.py` runs, made as its training loop makes it."""
    from bert_tf.environment import prepare_environment

    prepare_environment()

    from bert_tf.distribution import create_strategy
    from bert_tf.input_pipeline import distribute
    from bert_tf.optimization import AdamWeightDecay, learning_rate_at
    from bert_tf.settings import DeviceSettings
    from bert_tf.tasks.pretraining import PretrainingTask
    from bert_tf.training import Trainer, TrainState

    strategy = create_strategy(
        DeviceSettings(distribution_strategy="one_device")
    )
    task = PretrainingTask(args.length, args.predictions)
    with strategy.scope():
        model = task.create_model(architecture(args))
        state = TrainState.create(task, model, AdamWeightDecay())
    batches = distribute(
        strategy, args.batch_size, lambda size, share: dataset(args)
    )
    trainer = Trainer(
        task,
        state,
        lambda step: learning_rate_at(step, LEARNING_RATE, 10_000, 1_000),
        strategy,
        batches,
        run_seed=1,
    )
    return lambda steps: trainer.train(steps)["loss"]


def model_garden(args) -> Run:
    """tf-models-official, put together as its masked-LM task does."""
    import tensorflow as tf
    import tf_keras
    from official.nlp import optimization
    from official.nlp.modeling import layers, models, networks

    initializer = tf_keras.initializers.TruncatedNormal(stddev=0.02)
    encoder = networks.BertEncoderV2(
        vocab_size=args.vocab_size,
        hidden_size=args.hidden_size,
        num_layers=args.layers,
        num_attention_heads=args.heads,
        inner_dim=4 * args.hidden_size,
        output_dropout=DROPOUT,
        attention_dropout=DROPOUT,
        max_sequence_length=max(512, args.length),
        type_vocab_size=2,
        initializer=initializer,
    )
    head = layers.ClassificationHead(
        inner_dim=args.hidden_size,
        num_classes=2,
        dropout_rate=DROPOUT,
        initializer=initializer,
        name="next_sentence",
    )
    model = models.BertPretrainerV2(
        encoder,
        mlm_activation=lambda x: tf_keras.activations.gelu(x, True),
        mlm_initializer=initializer,
        classification_heads=[head],
    )
    optimizer = optimization.create_optimizer(LEARNING_RATE, 10_000, 1_000)

    def loss_of(batch):
        outputs = model(
            {
                "input_word_ids": batch["input_ids"],
                "input_mask": batch["input_mask"],
                "input_type_ids": batch["segment_ids"],
                "masked_lm_positions": batch["masked_lm_positions"],
            },
            training=True,
        )
        return joint_loss(
            outputs["mlm_logits"], outputs["next_sentence"], batch
        )

    def update(tape, loss):
        variables = model.trainable_variables
        optimizer.apply_gradients(
            zip(tape.gradient(loss, variables), variables, strict=True)
        )

    return plain_loop(dataset(args), loss_of, update, tf)


def joint_loss(masked_lm_logits, next_sentence_logits, batch):
    """Masked LM plus next sentence, in plain TensorFlow."""
    import tensorflow as tf

    cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits
    weights = batch["masked_lm_weights"]
    masked_lm = cross_entropy(batch["masked_lm_ids"], masked_lm_logits)
    next_sentence = cross_entropy(
        batch["next_sentence_labels"][:, 0], next_sentence_logits
    )
    return tf.reduce_sum(masked_lm * weights) / tf.reduce_sum(
        weights
    ) + tf.reduce_mean(next_sentence)


def plain_loop(batches, loss_of: Callable, update: Callable, tf) -> Run:
    """A traced function for one step, called step by step."""
    iterator = iter(batches)

    @tf.function
    def step(batch):
        with tf.GradientTape() as tape:
            loss = loss_of(batch)
        update(tape, loss)
        return loss

    def run(steps):
        for _ in range(steps):
            loss = step(next(iterator))
        return float(loss)

    return run


def keras_mha_model(args):
    """A functional Keras 3 model, without the masked-LM head."""
    import keras
    from keras import layers

    size = args.hidden_size

    def norm():
        return layers.LayerNormalization(epsilon=1e-12)

    inputs = {
        name: keras.Input((args.length,), dtype="int32", name=name)
        for name in ("input_ids", "input_mask", "segment_ids")
    }
    words = layers.Embedding(args.vocab_size, size, name="words")
    positions = layers.Embedding(max(512, args.length), size)
    x = words(inputs["input_ids"])
    x += layers.Embedding(2, size)(inputs["segment_ids"])
    x += positions(keras.ops.arange(args.length))
    x = layers.Dropout(DROPOUT)(norm()(x))
    mask = inputs["input_mask"][:, None, :]
    for _ in range(args.layers):
        attended = layers.MultiHeadAttention(
            args.heads, size // args.heads, dropout=DROPOUT
        )(x, x, attention_mask=mask)
        x = norm()(x + layers.Dropout(DROPOUT)(attended))
        inner = layers.Dense(4 * size, activation=gelu)(x)
        inner = layers.Dropout(DROPOUT)(layers.Dense(size)(inner))
        x = norm()(x + inner)
    pooled = layers.Dense(size, activation="tanh")(x[:, 0])
    classes = layers.Dense(2)(pooled)
    return keras.Model(inputs, [x, classes]), words


def gelu(x):
    """Keras's own tanh form."""
    import keras

    return keras.ops.gelu(x, approximate=True)


def keras_mha(args) -> Run:
    """The plain Keras 3 model with a loop of its own."""
    import keras
    import tensorflow as tf

    model, words = keras_mha_model(args)
    head = keras.Sequential(
        [
            keras.Input((args.hidden_size,)),
            keras.layers.Dense(args.hidden_size, activation=gelu),
            keras.layers.LayerNormalization(epsilon=1e-12),
        ]
    )
    bias = keras.Variable(tf.zeros(args.vocab_size), name="output_bias")
    variables = [
        *model.trainable_variables,
        *head.trainable_variables,
        bias,
    ]
    optimizer = keras.optimizers.AdamW(
        LEARNING_RATE, weight_decay=DECAY, epsilon=1e-6, global_clipnorm=1.0
    )
    optimizer.exclude_from_weight_decay(
        var_names=["bias", "beta", "gamma", "layer_normalization"]
    )
    optimizer.build(variables)

    def loss_of(batch):
        names = ("input_ids", "input_mask", "segment_ids")
        x, classes = model({k: batch[k] for k in names}, training=True)
        picked = tf.gather(x, batch["masked_lm_positions"], batch_dims=1)
        hidden = head(tf.reshape(picked, [-1, args.hidden_size]))
        table = tf.convert_to_tensor(words.embeddings)
        logits = tf.matmul(hidden, table, transpose_b=True)
        logits += tf.convert_to_tensor(bias)
        shape = [args.batch_size, args.predictions, args.vocab_size]
        return joint_loss(tf.reshape(logits, shape), classes, batch)

    def update(tape, loss):
        raw = [variable.value for variable in variables]
        gradients = [tf.convert_to_tensor(g) for g in tape.gradient(loss, raw)]
        optimizer.apply(gradients)

    return plain_loop(dataset(args), loss_of, update, tf)


def matmul(args) -> Run:
    """The best rate of a large product, in operations per second."""
    import tensorflow as tf

    m, k, n = MATMUL
    rng = np.random.default_rng(1)
    a = rng.random((m, k), np.float32)
    b = rng.random((k, n), np.float32)
    x, y = tf.constant(a), tf.constant(b)

    def rate(product, times) -> float:
        start = time.perf_counter()
        for _ in range(times):
            product()
        return times * 2 * m * k * n / (time.perf_counter() - start)

    def run(steps):
        products = (lambda: a @ b, lambda: tf.matmul(x, y).numpy())
        return max(rate(product, 4 * steps) for product in products)

    return run


VARIANTS = {
    OWN: (bert_tf_trainer, None),
    "model-garden": (model_garden, None),
    "model-garden-onednn": (model_garden, "1"),
    "model-garden-plain": (model_garden, "0"),
    "keras-mha": (keras_mha, "1"),
    GEMM: (matmul, "1"),
}


def busy_seconds() -> float:
    """Processor seconds of the whole machine; 0 where it does not say."""
    try:
        with open("/proc/stat") as stream:
            user, nice, system = map(int, stream.readline().split()[1:4])
    except OSError:
        return 0.0
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def work(variant: str, args) -> None:
    """The worker: loads, takes a step, then a round for each line of input."""
    begin = time.perf_counter()
    try:
        run = VARIANTS[variant][0](args)
    except ImportError as error:
        print(json.dumps({"missing": str(error)}), flush=True)
        return
    start = time.perf_counter()
    run(1)
    first = time.perf_counter() - start
    run(1)  # Buffers of the second step are not yet those of later ones.
    figures = {"first": first, "build": start - begin}
    print(json.dumps(figures), flush=True)
    for _ in sys.stdin:
        busy, own = busy_seconds(), time.process_time()
        start = time.perf_counter()
        value = run(args.steps)
        wall = time.perf_counter() - start
        own = time.process_time() - own
        figures = {
            "wall": wall / args.steps,
            "cpu": own / args.steps,
            "others": max(0.0, busy_seconds() - busy - own) / wall,
            "value": value,
        }
        print(json.dumps(figures), flush=True)


# Driver -------------------------------------------------------------------


class Worker:
    """One variant in its own process."""

    def __init__(self, variant: str, args, log):
        environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        environment.pop(ONEDNN, None)
        if VARIANTS[variant][1]:
            environment[ONEDNN] = VARIANTS[variant][1]
        for name in ("OMP", "OPENBLAS", "TF_INTRAOP", "TF_INTEROP"):
            name = name.replace("TF_", "TF_NUM_")
            suffix = "_THREADS" if "TF" in name else "_NUM_THREADS"
            environment[name + suffix] = str(args.threads)
        self.process = subprocess.Popen(
            [sys.executable, *sys.argv, f"--worker={variant}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=environment,
        )
        self.variant = variant
        self.log = log
        self.rounds: list[dict] = []
        self.loaded = self._answer()
        self.first_steps = [self.loaded.get("first", 0.0)]

    def _answer(self) -> dict:
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        self.log.seek(0)
        raise SystemExit(f"{self.variant} died:\n{self.log.read()[-3000:]}")

    def run(self) -> None:
        """Has one round run."""
        self.process.stdin.write("run\n")
        self.process.stdin.flush()
        self.rounds.append(self._answer())

    def clean(self) -> list[dict]:
        """Rounds that had the machine to themselves."""
        return [x for x in self.rounds if x["others"] <= CLEAN]

    def median(self, key: str, only_clean: bool = False) -> float:
        """Median over the rounds."""
        rounds = self.clean() if only_clean else self.rounds
        return statistics.median(x[key] for x in rounds)

    def close(self) -> None:
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def flops(args) -> int:
    """Useful operations of a step."""
    from bert_tf.plan import Step, step_flops

    step = Step(
        architecture(args),
        train_batch_size=args.batch_size,
        max_seq_length=args.length,
        max_predictions_per_seq=args.predictions,
    )
    return sum(step_flops(step).values())


def report(workers: list[Worker], args) -> None:
    """Prints one line for each variant, ratios to this package's."""
    clean = all(worker.clean() for worker in workers)
    *variants, gemm = workers
    rate = gemm.median("value", clean)
    useful = flops(args)
    others = statistics.median(x["others"] for w in workers for x in w.rounds)
    print(
        f"{args.rounds} rounds of {args.steps} steps"
        f"{', clean ones only' if clean else ''}; others took {others:.2f} "
        f"of {os.cpu_count()} cores; {useful / 1e9:.1f} GFLOP a step, matrix "
        f"product {rate / 1e9:.0f} GFLOP/s"
    )
    own = variants[0]
    own_first = statistics.median(own.first_steps)
    for worker in variants:
        wall = worker.median("wall", clean)
        speed = wall / own.median("wall", clean)
        cpu = worker.median("cpu", clean) / own.median("cpu", clean)
        first = statistics.median(worker.first_steps)
        print(
            f"  {worker.variant:20} {1000 * wall:7.0f} ms a step, "
            f"{args.batch_size / wall:5.1f} examples/s, "
            f"{useful / wall / rate:.2f} of the product's rate; "
            f"{own.variant} is {speed:.2f} times as fast "
            f"({cpu:.2f} in CPU time); first step {first:.1f} s "
            f"(x {own_first / first:.2f}) after "
            f"{worker.loaded['build']:.1f} s of import and building; clean "
            f"{len(worker.clean())}/{args.rounds}; loss "
            f"{worker.rounds[-1]['value']:.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--variants", nargs="+", choices=list(VARIANTS)[1:-1])
    add("--rounds", type=int, default=5)
    add("--steps", type=int, default=4, help="of a variant in a round")
    add("--starts", type=int, default=3, help="of a variant, for first steps")
    add("--threads", type=int, default=os.cpu_count())
    add("--layers", type=int, default=4)
    add("--hidden_size", type=int, default=512)
    add("--heads", type=int, default=8)
    add("--length", type=int, default=128)
    add("--batch_size", type=int, default=16)
    add("--predictions", type=int, default=20)
    add("--vocab_size", type=int, default=30522)
    add("--worker", choices=list(VARIANTS), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.worker:
        work(args.worker, args)
        return
    others = args.variants or list(VARIANTS)[1:-1]
    workers = []
    with tempfile.TemporaryFile("w+") as log:
        first_steps = collections.defaultdict(list)
        for _ in range(args.starts - 1):
            for variant in (OWN, *others):
                worker = Worker(variant, args, log)
                worker.close()
                first_steps[variant] += worker.first_steps
        for variant in (OWN, *others, GEMM):
            worker = Worker(variant, args, log)
            worker.first_steps += first_steps[variant]
            if "missing" in worker.loaded:
                print(f"  {variant}: {worker.loaded['missing']}; left out")
                worker.close()
            else:
                workers.append(worker)
        for _ in range(args.rounds):
            for worker in workers:
                worker.run()
        for worker in workers:
            worker.close()
    report(workers, args)


if __name__ == "__main__":
    main()
