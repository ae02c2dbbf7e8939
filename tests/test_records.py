"""Records: our encoder and reader against TensorFlow's own."""

import gzip

import numpy as np
import pytest
import tensorflow as tf

from bert_tf import records
from bert_tf.records import Feature, FeatureSpec

SPEC = FeatureSpec(
    [
        Feature("ids", (3,)),
        Feature("weights", (2,), "float32"),
        Feature("label"),
        Feature("real", (), "int64", padding=0),
    ]
)
ROW = {"ids": [0, 127, 200_000], "weights": [0.5, -1.0], "label": 7, "real": 1}


def test_tensorflow_reads_what_we_write(tmp_path):
    path = str(tmp_path / "a.tf_record")
    extreme = {**ROW, "ids": [-1, 2**62, -(2**63)]}
    assert records.write_records(path, SPEC, iter([ROW, extreme])) == 2
    read = [
        tf.train.Example.FromString(r.numpy())
        for r in tf.data.TFRecordDataset(path)
    ]
    features = read[0].features.feature
    assert list(features["ids"].int64_list.value) == ROW["ids"]
    assert list(features["weights"].float_list.value) == ROW["weights"]
    assert list(features["label"].int64_list.value) == [7]
    assert (
        list(read[1].features.feature["ids"].int64_list.value)
        == (extreme["ids"])
    )


def test_we_read_what_tensorflow_writes(tmp_path):
    example = tf.train.Example()
    example.features.feature["a"].int64_list.value.extend([1, -5, 10**12])
    example.features.feature["b"].float_list.value.extend([1.5])
    example.features.feature["c"].bytes_list.value.extend([b"x", b""])
    path = str(tmp_path / "t.tf_record")
    with tf.io.TFRecordWriter(path) as writer:
        writer.write(example.SerializeToString())
    (record,) = records.read_records(path)
    assert records.decode_example(record) == {
        "a": [1, -5, 10**12],
        "b": [1.5],
        "c": [b"x", b""],
    }


def test_parse_and_padding():
    batch = tf.constant([SPEC.serialize(ROW), SPEC.padding_record()])
    parsed = SPEC.parse(batch)
    assert sorted(parsed) == sorted(SPEC.names())
    assert parsed["ids"].dtype == tf.int32
    np.testing.assert_array_equal(parsed["ids"], [[0, 127, 200_000], [0] * 3])
    np.testing.assert_array_equal(parsed["weights"], [[0.5, -1.0], [0, 0]])
    np.testing.assert_array_equal(parsed["label"], [7, 0])
    np.testing.assert_array_equal(parsed["real"], [1, 0])


def test_wrong_lengths_are_refused():
    with pytest.raises(ValueError, match="ids has 2 values, expected 3"):
        SPEC.serialize({**ROW, "ids": [1, 2]})
    with pytest.raises(ValueError, match=r"f: feature ids has 3 .* expected 4"):
        FeatureSpec([Feature("ids", (4,))]).check_record(
            SPEC.serialize(ROW), "f"
        )
    with pytest.raises(ValueError, match=r"no feature mask; found ids"):
        FeatureSpec([Feature("mask")]).check_record(SPEC.serialize(ROW), "f")


def test_gzip_is_recognised_and_repeatable(tmp_path):
    paths = [tmp_path / name for name in ("a", "b")]
    for path in paths:
        with records.RecordWriter(str(path), "GZIP") as writer:
            writer.write(b"one")
            writer.write(b"two")
    contents = [path.read_bytes() for path in paths]
    assert contents[0] == contents[1]
    assert gzip.decompress(contents[0])
    names = [str(path) for path in paths]
    assert list(records.read_records(names[0])) == [b"one", b"two"]
    found = [r.numpy() for r in records.record_dataset(names)]
    assert found == [b"one", b"two"] * 2


def test_unfinished_file_never_appears(tmp_path):
    path = tmp_path / "a.tf_record"
    with (
        pytest.raises(RuntimeError),
        records.RecordWriter(str(path)) as writer,
    ):
        writer.write(b"x")
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_damage_names_file_and_record(tmp_path):
    path = tmp_path / "a.tf_record"
    with records.RecordWriter(str(path)) as writer:
        writer.write(b"hello")
        writer.write(b"world")
    good = path.read_bytes()
    path.write_bytes(good[:-3])
    with pytest.raises(ValueError, match=r"a\.tf_record: record 1 is cut off"):
        list(records.read_records(str(path)))
    path.write_bytes(good[:14] + b"X" + good[15:])
    with pytest.raises(ValueError, match="record 0 is damaged"):
        list(records.read_records(str(path)))
    path.write_bytes(b"this is a text file, no records")
    with pytest.raises(ValueError, match="no TFRecord file"):
        list(records.read_records(str(path)))
    with pytest.raises(ValueError, match=r"not a tf\.train\.Example"):
        records.decode_example(b"\xff\xff")


def test_shard_names():
    assert records.shard_paths("out.tf_record") == ["out.tf_record"]
    assert records.shard_paths("out@2") == [
        "out-00000-of-00002",
        "out-00001-of-00002",
    ]
    with pytest.raises(ValueError, match="0 shards"):
        records.shard_paths("out@0")


def test_golden_records_survive_a_round_trip(golden_dir):
    paths = sorted(golden_dir.glob("*/*.tf_record*"))
    assert paths
    for path in paths:
        for record in records.read_records(str(path)):
            values = records.decode_example(record)
            spec = FeatureSpec(
                [
                    Feature(
                        name,
                        (len(v),),
                        "float32" if isinstance(v[0], float) else "int64",
                    )
                    for name, v in values.items()
                ]
            )
            assert records.decode_example(spec.serialize(values)) == values
