"""What the documentation says of Python names and of flags is so."""

import ast
import builtins
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
MODULES = {"bert_tf", "keras", "np", "onnxruntime", "tensorflow_text", "tf"}
RUNNERS = sorted(ROOT.glob("run_*.py"))


def unknown_names(code):
    """Names that are read, but neither imported nor set anywhere."""
    known, read = set(dir(builtins)), set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            names = [alias.asname or alias.name for alias in node.names]
            known |= {name.split(".")[0] for name in names}
        elif isinstance(node, ast.Name):
            is_read = isinstance(node.ctx, ast.Load)
            (read if is_read else known).add(node.id)
        elif isinstance(node, ast.arg):
            known.add(node.arg)
        elif isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            known.add(node.name)
    return read - known


def test_unknown_names():
    code = "import a.b\nfrom c import d as e\nf = [g(x) for x in e]\na.b(f)"
    assert unknown_names(code) == {"g"}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_snippets_import_what_they_use(path):
    text = path.read_text("utf-8")
    for block in re.findall(r"^```python\n(.*?)^```", text, flags=re.S | re.M):
        assert not unknown_names(block) & MODULES, block


def rows_of_shared_flags():
    text = PAGES[0].read_text("utf-8")
    (table,) = re.findall(r"\| flag \| .*?\n\n", text, flags=re.S)
    for line in table.splitlines()[2:]:
        cell, _, words = line[1:].partition(" | ")
        yield re.findall(r"--(\w+)", cell), words


@pytest.mark.parametrize("path", RUNNERS, ids=lambda path: path.name)
def test_shared_flags_are_those_of_the_table(path):
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{str(path)!r}, '--help']\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    shown = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    ).stdout
    rows = list(rows_of_shared_flags())
    assert len(rows) > 5
    for flags, words in rows:
        for flag in flags:
            there = bool(re.search(rf"--(\[no\])?{flag}:", shown))
            assert there == (f"not in `{path.name}`" not in words), flag
