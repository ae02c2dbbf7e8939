"""Real text that every Python has: its own documentation.

Sentences of the standard library's docstrings are labelled with the family
of packages that they come from; docstrings and the language reference
(`pydoc_data.topics`) are the corpus for pre-training. Sources are parsed, not
imported, so nothing of the library runs.
"""

import ast
import pathlib
import random
import re
import sysconfig
from collections.abc import Iterator

FAMILIES: dict[str, tuple[str, ...]] = {
    "asyncio": ("asyncio",),
    "concurrency": (
        "threading.py",
        "multiprocessing",
        "concurrent",
        "queue.py",
        "subprocess.py",
        "sched.py",
        "selectors.py",
        "socketserver.py",
    ),
    "email": ("email", "mailbox.py", "mimetypes.py", "quopri.py", "base64.py"),
    "files": (
        "os.py",
        "pathlib.py",
        "pathlib",
        "shutil.py",
        "tempfile.py",
        "zipfile.py",
        "zipfile",
        "tarfile.py",
        "posixpath.py",
        "glob.py",
        "filecmp.py",
        "gzip.py",
        "_pyio.py",
    ),
    "language": (
        "ast.py",
        "dis.py",
        "inspect.py",
        "tokenize.py",
        "importlib",
        "typing.py",
        "types.py",
        "functools.py",
        "enum.py",
        "pydoc.py",
    ),
    "network": (
        "http",
        "urllib",
        "ftplib.py",
        "smtplib.py",
        "imaplib.py",
        "poplib.py",
        "xmlrpc",
        "ssl.py",
        "socket.py",
        "ipaddress.py",
        "wsgiref",
    ),
    "numbers": (
        "_pydecimal.py",
        "fractions.py",
        "statistics.py",
        "random.py",
        "numbers.py",
        "colorsys.py",
    ),
    "testing": (
        "unittest",
        "doctest.py",
        "pdb.py",
        "bdb.py",
        "trace.py",
        "timeit.py",
    ),
}
_SKIPPED_FOLDERS = {"test", "tests", "site-packages", "dist-packages"}
_WORDS = (5, 60)


def _standard_library() -> pathlib.Path:
    return pathlib.Path(sysconfig.get_path("stdlib"))


def _sources(path: pathlib.Path) -> list[pathlib.Path]:
    if path.is_dir():
        return sorted(
            found
            for found in path.rglob("*.py")
            if not _SKIPPED_FOLDERS.intersection(found.parts)
        )
    return [path] if path.exists() else []


def docstrings(path: pathlib.Path) -> Iterator[str]:
    """The docstrings of one source file; none if it does not parse."""
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    kinds = (
        ast.Module,
        ast.ClassDef,
        ast.FunctionDef,
        ast.AsyncFunctionDef,
    )
    for node in ast.walk(tree):
        if isinstance(node, kinds):
            text = ast.get_docstring(node)
            if text:
                yield text


def sentences(text: str) -> list[str]:
    """Splits prose into sentences; examples and tables are left out."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        if ">>>" in paragraph:
            continue
        line = " ".join(paragraph.split())
        for sentence in re.split(r"(?<=[.!?])\s+(?=[A-Z])", line):
            if _WORDS[0] <= len(sentence.split()) <= _WORDS[1]:
                found.append(sentence)
    return found


def labelled_sentences(per_family: int, seed: int = 1) -> list[tuple[str, str]]:
    """Draws (family, sentence) pairs, shuffled, no sentence twice.

    Args:
      per_family: the most sentences of one family.
      seed: of the draw.
    """
    rng = random.Random(seed)
    owner: dict[str, str] = {}
    for family, names in FAMILIES.items():
        for name in names:
            for path in _sources(_standard_library() / name):
                for text in docstrings(path):
                    for sentence in sentences(text):
                        owner.setdefault(sentence, family)
    rows = []
    for family in FAMILIES:
        own = sorted(s for s, f in owner.items() if f == family)
        rng.shuffle(own)
        rows += [(family, sentence) for sentence in own[:per_family]]
    rng.shuffle(rows)
    return rows


def corpus_documents() -> list[list[str]]:
    """Documents of sentences: the language reference, then docstrings."""
    import pydoc_data.topics

    documents = [sentences(text) for text in pydoc_data.topics.topics.values()]
    for path in _sources(_standard_library()):
        documents.append(
            [s for text in docstrings(path) for s in sentences(text)]
        )
    return [document for document in documents if len(document) > 1]
