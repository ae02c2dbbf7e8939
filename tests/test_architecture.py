"""Levels, sizes, flags and late imports: the rules of the house."""

import ast
import fnmatch
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIBRARY = ROOT / "bert_tf"
SCRIPTS = sorted(p for p in ROOT.glob("*.py") if p.name != "setup.py")

# Names without the leading package. A module imports from lower levels, and
# on its own level from modules of its family: one package, or one first word.
LEVELS = (
    (
        "__init__",
        "environment",
        "files",
        "huggingface_config",
        "packing",
    ),
    (
        "archives",
        "config",
        "records",
        "metrics",
        "losses",
        "settings",
        "fine_tuning",
        "seeds",
        "optimization",
        "progress",
        "delimited",
        "data_position",
        "pooling",
        "length_batches",
        "derivatives",
    ),
    (
        "checkpoint",
        "checkpoint.*",
        "distribution",
        "tabular",
        "tokenization",
        "tokenization.*",
        "layers",
        "input_pipeline",
        "sequence_packing",
    ),
    (
        "modeling",
        "conversion_request",
        "feature_files",
        "preprocessing_saved_model",
        "pretraining_*",
        "run_folder",
    ),
    ("heads", "common_flags", "engine_flags", "stability"),
    (
        "tasks",
        "tasks.base",
        "tasks.data_sets",
        "tasks.found_values",
        "tasks.known_data_sets",
        "tasks.labels",
        "tasks.header_check",
        "tasks.prediction_files",
        "tasks.glue_submission",
    ),
    ("tasks.*",),
    (
        "training",
        "evaluation",
        "train_loop",
        "run_checks",
        "watch",
        "batch_runner",
        "encoder_saved_model",
        "pretraining_flags",
        "pretraining_run_flags",
        "*_flags",
    ),
    (
        "runner",
        "conversion",
        "conversion_*",
        "inference",
        "inference.*",
        "feature_*",
    ),
    ("export", "export.*"),
    ("demo", "demo.*", "visualize", "visualize.*", "plan", "plan.*"),
)
# On one level, but not siblings in the sense of the rule.
SUPPORT = {
    "tasks.base",
    "tasks.data_sets",
    "tasks.labels",
    "settings",
    "training",
    "evaluation",
    "common_flags",
    "engine_flags",
    "watch",
    "config",
    "huggingface_config",
    "layers",
}


def library_modules():
    names = {}
    for path in sorted(LIBRARY.rglob("*.py")):
        parts = path.relative_to(LIBRARY).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1] or ("__init__",)
        names[".".join(parts)] = path
    return names


MODULES = library_modules()


def level_of(name):
    exact = [i for i, level in enumerate(LEVELS) if name in level]
    found = exact or [
        i
        for i, level in enumerate(LEVELS)
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in level)
    ]
    assert found, f"{name}: give the new module a level in {__file__}"
    return found[0]


def family_of(name):
    package, _, module = name.rpartition(".")
    if package and package != "tasks":
        return package.split(".")[0]
    if name in {"checkpoint", "tokenization", "inference", "demo", "plan"}:
        return name
    return f"{package}:{module.split('_')[0]}"


def imports_of(path):
    """Library modules that a file imports, wherever the import stands."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            if node.module.split(".")[0] != "bert_tf":
                continue
            base = node.module.removeprefix("bert_tf").lstrip(".")
            for alias in node.names:
                name = f"{base}.{alias.name}".lstrip(".")
                if name in MODULES:
                    yield name
                else:
                    yield base or "__init__"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == "bert_tf":
                    yield alias.name.removeprefix("bert_tf").lstrip(".")


@pytest.mark.parametrize("name", MODULES)
def test_imports_go_down(name):
    own = level_of(name)
    for imported in imports_of(MODULES[name]):
        other = level_of(imported)
        fine = other < own or (
            other == own
            and (imported in SUPPORT or family_of(imported) == family_of(name))
        )
        assert fine, f"{name} (level {own}) imports {imported} ({other})"


def functions_of(path):
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            length = node.end_lineno - node.lineno + 1
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                length -= docstring.count("\n") + 1
            yield node, length


@pytest.mark.parametrize("path", [*MODULES.values(), *SCRIPTS], ids=str)
def test_sizes(path):
    lines = len(path.read_text("utf-8").splitlines())
    is_script = path in SCRIPTS
    assert lines <= (80 if is_script else 400), f"{lines} lines"
    for node, length in functions_of(path):
        assert length <= 60, f"{node.name} has {length} lines"


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_scripts_only_define_main(path):
    functions = [node.name for node, _ in functions_of(path)]
    assert functions == ["main"]


@pytest.mark.parametrize("name", MODULES)
def test_only_flag_modules_see_flags(name):
    allowed = name.endswith(("_flags", ".__main__")) or name in ("demo", "plan")
    source = MODULES[name].read_text("utf-8")
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(source))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    uses_absl = any((m or "").split(".")[0] == "absl" for m in imported)
    assert allowed or not uses_absl


@pytest.mark.parametrize("name", MODULES)
def test_public_functions_have_docstrings(name):
    tree = ast.parse(MODULES[name].read_text("utf-8"))
    assert ast.get_docstring(tree), "the module has no docstring"
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node), node.name
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert ast.get_docstring(node) or node.name == "main", node.name


def in_fresh_python(code):
    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_data_tools_load_without_tensorflow():
    modules = [
        "bert_tf",
        "bert_tf.tokenization",
        "bert_tf.records",
        "bert_tf.tabular",
        "bert_tf.pretraining_data",
        "bert_tf.checkpoint",
        "bert_tf.tasks.classification_features",
        "bert_tf.tasks.squad_answers",
        "bert_tf.common_flags",
        "bert_tf.classification_flags",
    ]
    code = (
        f"import {', '.join(modules)}, sys; print('tensorflow' in sys.modules)"
    )
    assert in_fresh_python(code).strip() == "False"


def test_public_names():
    code = (
        "import bert_tf\n"
        "assert 'BertModel' in dir(bert_tf)\n"
        "for name in bert_tf.__all__: getattr(bert_tf, name)\n"
        "try: bert_tf.Nothing\n"
        "except AttributeError as error: print(error)"
    )
    assert "'bert_tf' has no attribute 'Nothing'" in in_fresh_python(code)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda p: p.name)
def test_help_answers_without_tensorflow(path):
    code = (
        "import runpy, sys\n"
        f"sys.argv = [{str(path)!r}, '--help']\n"
        "try: runpy.run_path(sys.argv[0], run_name='__main__')\n"
        "except SystemExit: pass\n"
        "print('tensorflow' in sys.modules)"
    )
    output = in_fresh_python(code)
    assert output.strip().endswith("False"), output[-500:]
    assert "flags:" in output
