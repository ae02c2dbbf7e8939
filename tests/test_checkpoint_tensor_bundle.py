"""Checkpoint files that are written directly, read by TensorFlow."""

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from bert_tf.checkpoint import read_variables
from bert_tf.checkpoint.report import CheckpointError
from bert_tf.checkpoint.sources import StoredTensor
from bert_tf.checkpoint.tensor_bundle import masked, scalar, write_bundle

VALUES = {
    "bert/embeddings/word_embeddings": np.arange(6, dtype="f4").reshape(2, 3),
    "transposed": np.arange(6, dtype="f4").reshape(2, 3).T,
    "scalar": np.asarray(2.5, "f4"),
    "empty": np.zeros((0, 3), "f4"),
    "global_step": np.asarray(7, "i8"),
    "half": np.asarray([1.5], "f2"),
    "brain": np.asarray([1.5], ml_dtypes.bfloat16),
    "flags": np.asarray([True, False]),
    "名": np.asarray([7], "i4"),
}


def stored(values):
    return {
        name: StoredTensor(name, x.dtype, x.shape, lambda x=x: x)
        for name, x in values.items()
    }


def test_tensorflow_reads_what_is_written(tmp_path):
    prefix = str(tmp_path / "x")
    write_bundle(prefix, stored(VALUES), {"text": b"abc" * 100, "none": b""})
    reader = tf.train.load_checkpoint(prefix)
    shapes = reader.get_variable_to_shape_map()
    assert shapes.keys() == VALUES.keys() | {"text", "none"}
    for name, value in VALUES.items():
        read = np.asarray(reader.get_tensor(name))
        assert read.dtype == value.dtype and read.shape == value.shape
        assert read.tobytes() == value.tobytes()
    assert reader.get_tensor("text") == b"abc" * 100
    assert reader.get_tensor("none") == b""
    names = sorted(x.name for x in tmp_path.iterdir())
    assert names == ["x.data-00000-of-00001", "x.index"]


def test_the_data_file_is_tensorflows_own(tmp_path):
    values = {k: v for k, v in VALUES.items() if k != "empty"}
    write_bundle(tmp_path / "ours", stored(values))
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "theirs"),
        tensor_names=sorted(values),
        shape_and_slices=[""] * len(values),
        tensors=[np.ascontiguousarray(values[x]) for x in sorted(values)],
    )
    suffix = ".data-00000-of-00001"
    ours = (tmp_path / f"ours{suffix}").read_bytes()
    assert ours == (tmp_path / f"theirs{suffix}").read_bytes()


@pytest.mark.parametrize("count", [0, 1, 16, 17, 9000])
def test_an_index_of_any_size(tmp_path, count):
    values = {
        f"bert/encoder/layer_{i}/attention/self/query/kernel": np.full(
            (i % 3,), i, "f4"
        )
        for i in range(count)
    }
    prefix = str(tmp_path / "x")
    write_bundle(prefix, stored(values))
    reader = tf.train.load_checkpoint(prefix)
    assert len(reader.get_variable_to_shape_map()) == count
    for name in list(values)[:: max(1, count // 50)]:
        assert reader.get_tensor(name).tolist() == values[name].tolist()


def test_a_v1_saver_restores_it(tmp_path):
    prefix = str(tmp_path / "x")
    write_bundle(prefix, stored({"w": np.ones((2, 2), "f4")}))
    with tf.Graph().as_default():
        variable = tf.compat.v1.get_variable("w", [2, 2])
        saver = tf.compat.v1.train.Saver([variable])
        with tf.compat.v1.Session() as session:
            saver.restore(session, prefix)
            assert session.run(variable).tolist() == [[1, 1], [1, 1]]


def test_a_changed_value_is_noticed(tmp_path):
    prefix = tmp_path / "x"
    write_bundle(prefix, stored({"w": np.ones(100, "f4")}))
    path = tmp_path / "x.data-00000-of-00001"
    content = bytearray(path.read_bytes())
    content[50] ^= 1
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match="damaged"):
        read_variables(prefix)


@pytest.mark.parametrize("existed", [False, True])
def test_a_failure_leaves_what_was_there(tmp_path, existed):
    prefix = tmp_path / "x"
    if existed:
        write_bundle(prefix, stored({"w": np.ones(3, "f4")}))

    def fail():
        raise OSError("disk full")

    tensors = stored({"w": np.zeros(3, "f4")})
    tensors["z"] = StoredTensor("z", np.dtype("f4"), (3,), fail)
    with pytest.raises(OSError, match="disk full"):
        write_bundle(prefix, tensors)
    if existed:
        assert read_variables(prefix)["w"].tolist() == [1, 1, 1]
    assert len(list(tmp_path.iterdir())) == 2 * existed


def test_one_tensor_is_read_at_a_time(tmp_path):
    order = []

    def tensor(name):
        def read():
            order.append(name)
            return np.zeros(2, "f4")

        return StoredTensor(name, np.dtype("f4"), (2,), read)

    write_bundle(tmp_path / "x", {name: tensor(name) for name in "ba"})
    assert order == ["a", "b"]


def test_scalar_and_mask():
    assert scalar(3).read() == 3 and scalar(3).shape == ()
    # The example of the format's description: a mask can be undone.
    rotated = (masked(0x12345678) - 0xA282EAD8) & 0xFFFFFFFF
    assert (rotated >> 17 | rotated << 15) & 0xFFFFFFFF == 0x12345678
