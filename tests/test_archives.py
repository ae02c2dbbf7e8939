"""Archives are unpacked into their folder, or not at all."""

import io
import os
import tarfile
import zipfile

import pytest

from bert_tf import archives


def write_zip(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def write_tar(path, members, kind=tarfile.REGTYPE, target=""):
    mode = "w:gz" if path.name.endswith("gz") else "w"
    with tarfile.open(path, mode) as archive:
        for name, content in members.items():
            item = tarfile.TarInfo(name)
            item.type, item.linkname = kind, target
            item.size = len(content) if kind == tarfile.REGTYPE else 0
            archive.addfile(item, io.BytesIO(content))
    return path


def listing(folder):
    return sorted(
        os.path.relpath(os.path.join(root, name), folder)
        for root, _, names in os.walk(folder)
        for name in names
    )


WRITERS = [
    ("x.zip", write_zip),
    ("x.tar.gz", write_tar),
    ("x.tgz", write_tar),
    ("x.tar", write_tar),
]


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_files_and_folders(tmp_path, name, write):
    members = {"top/a": b"1", "top/./b/c": b"2" * 1000, "top/empty": b""}
    path = write(tmp_path / name, members)
    assert archives.is_archive(path)
    with archives.unpacked(path) as folder:
        assert listing(folder) == ["a", "b/c", "empty"]
        with open(os.path.join(folder, "b/c"), "rb") as stream:
            assert stream.read() == b"2" * 1000
    assert not os.path.exists(folder)


def test_a_single_file_is_left_where_it_is(tmp_path):
    path = write_zip(tmp_path / "x.zip", {"only": b"1"})
    with archives.unpacked(path) as folder:
        assert listing(folder) == ["only"]


@pytest.mark.parametrize(("name", "write"), WRITERS)
@pytest.mark.parametrize(
    "member",
    [
        "../evil",
        "a/../../evil",
        "/tmp/evil",
        "..\\evil",
        "c:evil",
        "a/..",
        "..",
    ],
)
def test_names_that_lead_out(tmp_path, name, write, member):
    path = write(tmp_path / name, {member: b"x"})
    with (
        pytest.raises(ValueError, match="leads out"),
        archives.unpacked(path),
    ):
        pass
    assert [x.name for x in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize(
    "kind",
    [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE],
)
def test_what_is_no_plain_file(tmp_path, kind):
    path = write_tar(tmp_path / "x.tar", {"a": b""}, kind, "/etc/passwd")
    with (
        pytest.raises(ValueError, match="no plain file"),
        archives.unpacked(path),
    ):
        pass


def test_links_in_zip_archives(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as archive:
        item = zipfile.ZipInfo("a")
        item.external_attr = 0o120777 << 16
        archive.writestr(item, "/etc/passwd")
    with (
        pytest.raises(ValueError, match="is a link"),
        archives.unpacked(path),
    ):
        pass


@pytest.mark.parametrize(("name", "write"), WRITERS[:2])
def test_bombs(tmp_path, monkeypatch, name, write):
    monkeypatch.setattr(archives, "_FREE_SIZE", 1000)
    monkeypatch.setattr(archives, "_EXPANSION_LIMIT", 2)
    path = write(tmp_path / name, {"a": bytes(1_000_000)})
    with (
        pytest.raises(ValueError, match="far more"),
        archives.unpacked(path),
    ):
        pass


@pytest.mark.parametrize(("name", "write"), WRITERS)
def test_truncations(tmp_path, name, write):
    content = os.urandom(2000)
    path = write(tmp_path / name, {"a": content})
    whole = path.read_bytes()
    for length in (0, 5, 600, 1900):
        path.write_bytes(whole[:length])
        with (
            pytest.raises(ValueError, match=name),
            archives.unpacked(path),
        ):
            pass


def test_what_is_no_archive(tmp_path):
    assert not archives.is_archive(tmp_path)
    assert not archives.is_archive("model.safetensors")
    (tmp_path / "folder.zip").mkdir()
    assert not archives.is_archive(tmp_path / "folder.zip")
    with (
        pytest.raises(ValueError, match=r"none\.zip"),
        archives.unpacked(tmp_path / "none.zip"),
    ):
        pass
