"""Creating pre-training data: modes, faults, manifest."""

import dataclasses
import json
import subprocess
import sys

import pytest
from pretraining_text import (
    SPECIALS,
    make_settings,
    make_text,
    read_all,
    summarize,
    write_vocab,
)

from bert_tf import records
from bert_tf.pretraining_corpus import sha256_of
from bert_tf.pretraining_data import (
    create_pretraining_data,
    report,
    resolve,
)
from bert_tf.pretraining_settings import features_of_record

MODES = ("exact", "streaming")


@pytest.fixture
def folder(tmp_path):
    write_vocab(tmp_path)
    (tmp_path / "text.txt").write_text(make_text(40))
    return tmp_path


def test_auto_takes_streaming_above_the_threshold(folder):
    settings = make_settings(folder)
    at = settings.auto_threshold_mb << 20
    assert resolve(settings, at).mode == "exact"
    assert resolve(settings, at + 1).mode == "streaming"
    assert resolve(settings, 1, "streaming").mode == "streaming"
    dynamic = make_settings(folder, masking="dynamic")
    assert resolve(dynamic, 1).mode == "streaming"
    assert resolve(settings, 1).encoding_errors == "ignore"
    assert resolve(settings, at + 1).encoding_errors == "error"
    stated = make_settings(folder, encoding_errors="error")
    assert resolve(stated, 1).encoding_errors == "error"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("whole_words", [False, True])
def test_statistics_are_those_of_the_records(folder, mode, whole_words):
    settings = make_settings(folder, mode=mode, do_whole_word_mask=whole_words)
    counts = create_pretraining_data(settings).counts
    examples = list(map(records.decode_example, read_all(settings)))
    found = summarize(examples, 2, 3, 4, 32, {0, 1, 2, 3, 4})
    assert found["bad_labels"] == found["duplicates"] == 0
    for name, other in {
        "instances": "instances",
        "real_tokens": "instance_tokens",
        "masked": "masked",
        "mask_token": "masked_as_mask",
        "kept": "masked_kept",
        "random": "masked_random",
        "random_next": "random_next",
        "full": "full_length",
    }.items():
        assert found[name] == counts[other] > 0, name


@pytest.mark.parametrize("mode", MODES)
def test_dry_run_counts_the_same_and_writes_nothing(folder, mode):
    settings = make_settings(folder, mode=mode)
    before = sorted(folder.rglob("*"))
    dry = create_pretraining_data(dataclasses.replace(settings, dry_run=True))
    assert sorted(folder.rglob("*")) == before
    real = create_pretraining_data(settings)
    assert dry.to_json() == real.to_json()
    assert "masked tokens" in report(settings, dry)
    no_output = dataclasses.replace(settings, dry_run=True, output_file="")
    assert create_pretraining_data(no_output).to_json() == real.to_json()


@pytest.mark.parametrize("mode", MODES)
def test_the_manifest_says_what_the_records_are_made_of(folder, mode):
    settings = make_settings(
        folder, mode=mode, output_file=str(folder / "sub" / "records@3")
    )
    statistics = create_pretraining_data(settings)
    manifest = json.loads((folder / "sub/manifest-records.json").read_text())
    assert manifest["flags"]["mode"] == mode
    assert manifest["flags"]["dupe_factor"] == 2
    text = str(folder / "text.txt")
    assert manifest["inputs"] == [{"path": text, "sha256": sha256_of(text)}]
    assert manifest["vocabulary"] == {
        "path": settings.vocab_file,
        "sha256": sha256_of(settings.vocab_file),
    }
    assert [o["path"] for o in manifest["outputs"]] == settings.output_paths()
    numbers = [o["records"] for o in manifest["outputs"]]
    assert sum(numbers) == statistics.counts["instances"]
    assert max(numbers) - min(numbers) <= 1
    assert manifest["features"]["masked_lm_weights"] == ["float32", 5]
    assert manifest["statistics"] == statistics.to_json()
    # A pattern for the records finds records only.
    assert len(list((folder / "sub").glob("records*"))) == 3


def test_exact_mode_deals_records_in_turn(folder):
    one = make_settings(folder, mode="exact")
    create_pretraining_data(one)
    many = make_settings(
        folder, mode="exact", output_file=f"{folder}/a,{folder}/b,{folder}/c"
    )
    create_pretraining_data(many)
    whole = read_all(one)
    for number, path in enumerate(many.output_paths()):
        assert list(records.read_records(path)) == whole[number::3]


def test_dynamic_records_have_the_text_of_static_ones(folder):
    static = make_settings(folder, mode="streaming")
    dynamic = make_settings(
        folder, masking="dynamic", output_file=str(folder / "dynamic")
    )
    create_pretraining_data(static)
    counts = create_pretraining_data(dynamic).counts
    assert counts["masked"] == 0
    plain = read_all(dynamic)
    spec = features_of_record(plain[0], dynamic.output_file, 32, 5)
    assert "masking_vocabulary" in spec.names()
    for one, other in zip(read_all(static), plain, strict=True):
        one, other = records.decode_example(one), records.decode_example(other)
        count = int(sum(one["masked_lm_weights"]))
        for position, label in zip(
            one["masked_lm_positions"][:count],
            one["masked_lm_ids"][:count],
            strict=True,
        ):
            one["input_ids"][position] = label
        for name in ("input_ids", "input_mask", "segment_ids"):
            assert one[name] == other[name]


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("text", ["", "\n\n \n", "\u200b\n\n\u200b\n"])
def test_a_corpus_without_text_is_an_error(folder, mode, text):
    (folder / "text.txt").write_text(text, encoding="utf-8")
    settings = make_settings(folder, mode=mode)
    with pytest.raises(
        ValueError, match=r"--input_file: no instance .*1 files"
    ):
        create_pretraining_data(settings)
    assert sorted(p.name for p in folder.iterdir()) == ["text.txt", "vocab.txt"]


def test_no_file_matches(folder):
    settings = make_settings(folder, input_file=str(folder / "nothing*"))
    with pytest.raises(ValueError, match="--input_file: no file matches"):
        create_pretraining_data(settings)


@pytest.mark.parametrize("mode", MODES)
def test_one_document_is_told(folder, mode, caplog):
    text = make_text(40).replace("\n\n", "\n")
    (folder / "text.txt").write_text(text)
    counts = create_pretraining_data(make_settings(folder, mode=mode)).counts
    assert "one document only" in caplog.text
    assert "a blank line must stand between" in caplog.text
    assert counts["documents"] == 1
    # Only the original's own mode labels its own text as random.
    assert (counts["random_next"] > 0) == (mode == "exact")


def test_documents_of_one_sentence_are_told(folder, caplog):
    text = make_text(40).replace("\n\n", "\n").replace("\n", "\n\n")
    (folder / "text.txt").write_text(text)
    create_pretraining_data(make_settings(folder))
    assert "have one sentence; their next sentence is always" in caplog.text
    assert "100 % of all instances" in caplog.text


def test_bytes_that_are_not_utf8(folder, caplog):
    path = folder / "text.txt"
    path.write_bytes(make_text(20).encode() + b"\nda \xff di\nba\n")
    line = make_text(20).count("\n") + 2
    with pytest.raises(ValueError, match=rf"text.txt, line {line}: byte 0xff"):
        create_pretraining_data(make_settings(folder, mode="streaming"))
    assert [p.name for p in folder.glob(".*")] == []
    for settings in (
        make_settings(folder, mode="streaming", encoding_errors="ignore"),
        make_settings(folder, mode="exact"),
    ):
        caplog.clear()
        counts = create_pretraining_data(settings).counts
        assert counts["undecodable_lines"] == 1
        assert f"{path}, line {line}" in caplog.text


@pytest.mark.parametrize("mode", MODES)
def test_a_text_of_another_encoding_is_an_error(folder, mode):
    (folder / "text.txt").write_bytes("\xe4\xf6\n".encode("latin-1") * 5)
    settings = make_settings(folder, mode=mode, encoding_errors="ignore")
    with pytest.raises(ValueError, match="5 of 5 lines are not UTF-8"):
        create_pretraining_data(settings)
    assert sorted(p.name for p in folder.iterdir()) == ["text.txt", "vocab.txt"]


@pytest.mark.parametrize("mode", MODES)
def test_lines_longer_than_any_limit(folder, mode, caplog):
    long_line = "bada " * 300_000
    (folder / "text.txt").write_text(f"{long_line}\nba .\n\n{make_text(5)}")
    settings = make_settings(folder, mode=mode, short_seq_prob=0.0)
    counts = create_pretraining_data(settings).counts
    is_cut = mode == "streaming"
    assert counts["overlong_lines"] == is_cut
    assert ("overlong" in caplog.text) == is_cut
    assert counts["tokens"] > 600_000 and counts["instances"] > 10


def test_unknown_words_are_told(folder, caplog):
    (folder / "text.txt").write_text("x y z\nq ba\n\n" + "xx yy\nzz\n")
    create_pretraining_data(make_settings(folder))
    assert "of the tokens are [UNK]" in caplog.text


@pytest.mark.parametrize("mode", MODES)
def test_a_vocabulary_without_mask(folder, mode):
    write_vocab(folder, [p for p in SPECIALS if p != "[MASK]"])
    with pytest.raises(ValueError, match=r"vocab.txt.*has no \[MASK\]"):
        create_pretraining_data(make_settings(folder, mode=mode))
    assert not list(folder.glob(".*"))


def test_paths_that_cannot_be(folder):
    for change, message in (
        ({"vocab_file": str(folder / "none")}, "--vocab_file"),
        ({"vocab_file": str(folder)}, "--vocab_file"),
        ({"output_file": str(folder / "text.txt")}, "also an input"),
        ({"output_file": str(folder)}, "is a folder"),
        ({"output_file": f"{folder}/records@0"}, "0 shards"),
    ):
        with pytest.raises(ValueError, match=message):
            create_pretraining_data(make_settings(folder, **change))


def test_a_failed_start_leaves_the_old_records(folder):
    settings = make_settings(folder, mode="exact")
    create_pretraining_data(settings)
    before = read_all(settings)
    (folder / "text.txt").write_text("\n")
    with pytest.raises(ValueError, match="no instance"):
        create_pretraining_data(settings)
    assert read_all(settings) == before


@pytest.mark.parametrize("mode", MODES)
def test_a_start_removes_what_a_killed_one_was_writing(folder, mode, caplog):
    settings = make_settings(
        folder, mode=mode, output_file=str(folder / "part@2")
    )
    names = ["part-00001-of-00002", "manifest-part.json"]
    for name in names:
        (folder / f"{name}.0123abcd.tmp").write_bytes(b"torn")
    other = folder / "else-00001-of-00002.0123abcd.tmp"
    other.write_bytes(b"another run's")
    dry = dataclasses.replace(settings, dry_run=True)
    create_pretraining_data(dry)
    assert len(list(folder.glob("*.tmp"))) == 3
    create_pretraining_data(settings)
    assert "2 unfinished files of an earlier start deleted" in caplog.text
    assert list(folder.glob("*.tmp")) == [other]


def test_tensorflow_stays_out(folder):
    code = (
        "import sys; from bert_tf.pretraining_data import *; "
        "from bert_tf.pretraining_settings import PretrainingDataSettings;"
        f"create_pretraining_data(PretrainingDataSettings({str(folder)!r}"
        f" + '/text.txt', {str(folder / 'r')!r}, {str(folder)!r} +"
        " '/vocab.txt', mode='streaming', num_workers=2));"
        "sys.exit('tensorflow' in sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_documents_joined_across_files_are_told(folder, caplog):
    (folder / "text2.txt").write_text(make_text(5, seed=2) + "\n")
    (folder / "text3.txt").write_text(make_text(5, seed=3))
    counts = create_pretraining_data(make_settings(folder)).counts
    assert counts["documents"] == 49
    assert f"the first: {folder / 'text.txt'}" in caplog.text
    assert counts["files_without_end"] == 1
