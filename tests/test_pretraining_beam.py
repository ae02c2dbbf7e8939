"""The Beam pipeline on Beam's local runner."""

import json
import sys
import types

import pytest
from pretraining_text import make_settings, make_text, read_all, write_vocab

from bert_tf import pretraining_corpus
from bert_tf.pretraining_beam import create_with_beam
from bert_tf.pretraining_data import create_pretraining_data


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Text of several parts."""
    write_vocab(tmp_path)
    for number in range(3):
        text = make_text(20, seed=number)
        (tmp_path / f"text{number}.txt").write_text(text)
    monkeypatch.setattr(pretraining_corpus, "_SMALLEST_PART", 6000)
    return tmp_path


@pytest.fixture
def beam():
    """Beam, or the test is skipped."""
    return pytest.importorskip(
        "apache_beam", reason="Apache Beam is not installed"
    )


def both(folder, **changes):
    """Records of streaming mode and of the pipeline, and the manifests."""
    found = []
    for name in ("streaming", "beam"):
        settings = make_settings(
            folder,
            mode="streaming",
            output_file=str(folder / name / "records@2"),
            **changes,
        )
        if name == "beam":
            create_with_beam(settings, "DirectRunner", [])
        else:
            create_pretraining_data(settings)
        manifest = folder / name / "manifest-records.json"
        found += [read_all(settings), json.loads(manifest.read_text())]
    return found


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"do_whole_word_mask": True, "compression": "GZIP"},
        {"do_whole_word_mask": True, "masking": "dynamic"},
    ],
)
def test_the_records_of_streaming_mode(folder, beam, changes):
    expected, manifest, records, own_manifest = both(folder, **changes)
    assert records != sorted(records)
    assert sorted(records) == sorted(expected)
    for key in ("inputs", "vocabulary", "features", "statistics"):
        assert own_manifest[key] == manifest[key], key


def test_a_segmenter_in_the_pipeline(folder, beam, monkeypatch):
    module = types.ModuleType("pairs_of_words")

    def cut(text):
        words = text.split(" ")
        return [" ".join(words[i : i + 2]) for i in range(0, len(words), 2)]

    module.cut = cut
    monkeypatch.setitem(sys.modules, "pairs_of_words", module)
    expected, _, records, _ = both(
        folder,
        do_whole_word_mask=True,
        word_segmenter="pairs_of_words:cut",
        masking="dynamic",
    )
    assert sorted(records) == sorted(expected)


def test_groups_keep_the_statistics(folder, beam, monkeypatch):
    from bert_tf import pretraining_beam

    monkeypatch.setattr(pretraining_beam, "_GROUP_BYTES", 5000)
    _, manifest, records, own_manifest = both(folder, dupe_factor=10)
    counts = own_manifest["statistics"]["counts"]
    expected = manifest["statistics"]["counts"]
    assert counts["instances"] == len(records)
    for name in ("documents", "sentences", "tokens", "lines"):
        assert counts[name] == expected[name]
    for name, room in (("instances", 0.05), ("random_next", 0.08)):
        assert counts[name] == pytest.approx(expected[name], rel=room)


def test_one_file(folder, beam):
    settings = make_settings(folder)
    counts = create_with_beam(
        settings, "DirectRunner", ["--direct_num_workers=1"]
    ).counts
    assert counts["instances"] == len(read_all(settings)) > 100
    assert counts["documents"] == 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "--input_file: no instance .* 1 files with 0 lines"),
        (b"\n \n\n", "--input_file: no instance .* 1 files with 3 lines"),
        (b"\xe4\n" * 5, "5 of 5 lines are not UTF-8"),
    ],
)
def test_a_corpus_without_text_is_an_error(folder, beam, text, message):
    (folder / "empty.txt").write_bytes(text)
    settings = make_settings(
        folder,
        input_file=str(folder / "empty.txt"),
        output_file=str(folder / "out" / "records@2"),
        encoding_errors="ignore",
    )
    with pytest.raises(ValueError, match=message):
        create_with_beam(settings, "DirectRunner", [])
    assert not list((folder / "out").iterdir())


def test_what_a_user_should_look_at_is_told(folder, beam, caplog):
    for number in range(1, 3):
        (folder / f"text{number}.txt").unlink()
    text = make_text(20).replace("\n\n", "\n").encode()
    (folder / "text0.txt").write_bytes(text + b"x \xff y\n" * 2)
    settings = make_settings(folder, encoding_errors="ignore")
    create_with_beam(settings, "DirectRunner", [])
    assert "2 lines with bytes that are not UTF-8, the first" in caplog.text
    assert "there is one document only" in caplog.text


def test_the_script_prints_the_statistics(folder, beam, monkeypatch, capsys):
    from absl import flags
    from absl.testing import flagsaver

    import create_pretraining_data as script

    arguments = [
        "create_pretraining_data.py",
        f"--input_file={folder}/text0.txt",
        f"--vocab_file={folder}/vocab.txt",
        f"--output_file={folder}/records",
        "--runner=DirectRunner",
    ]
    monkeypatch.setattr(sys, "argv", arguments)
    with flagsaver.flagsaver():
        script.main(flags.FLAGS(arguments))
    found = capsys.readouterr().out
    assert "documents              20 " in found and "masked tokens" in found


def test_no_file_matches(folder, beam):
    settings = make_settings(folder, input_file=str(folder / "no*"))
    with pytest.raises(ValueError, match="--input_file: no file matches"):
        create_with_beam(settings, "DirectRunner", [])


def test_bytes_that_are_not_utf8(folder, beam):
    (folder / "text9.txt").write_bytes(b"ba\n\xff\n")
    with pytest.raises(Exception, match=r"text9.txt, line 2: byte 0xff"):
        create_with_beam(make_settings(folder), "DirectRunner", [])


def test_settings_that_a_pipeline_cannot_have(folder, beam):
    for changes, message in (
        ({"mode": "exact"}, "--mode=exact"),
        ({"dry_run": True}, "--dry_run"),
        ({"output_file": "a,b"}, "expected one name"),
    ):
        with pytest.raises(ValueError, match=message):
            create_with_beam(
                make_settings(folder, **changes), "DirectRunner", []
            )


def test_without_beam_the_extra_is_named(folder, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"bert-tf\[beam\]"):
        create_with_beam(make_settings(folder), "DirectRunner", [])
