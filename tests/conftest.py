"""Fixtures: reference data beside the checkout, tiny models, quiet logs."""

import os
import pathlib

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared"


@pytest.fixture(scope="session")
def repo_dir() -> pathlib.Path:
    """The root of the checkout."""
    return ROOT


def _part_of_shared(part: str) -> pathlib.Path:
    path = SHARED / part
    if not path.exists():
        pytest.skip(f"reference data absent: no {part} beside the checkout")
    return path


@pytest.fixture(scope="session")
def shared_dir() -> pathlib.Path:
    """The folder of reference data beside the checkout."""
    return _part_of_shared("")


@pytest.fixture(scope="session")
def golden_dir() -> pathlib.Path:
    """Outputs of the original."""
    return _part_of_shared("golden")


@pytest.fixture(scope="session")
def data_dir() -> pathlib.Path:
    """Real data sets and the official vocabularies."""
    return _part_of_shared("data")
