"""Tables that several test files use."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.support.delta_tables import Lake, committed


@pytest.fixture(scope="session")
def thirteen_versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Create a table of versions 0 to 12, each with a file of one row, and a checkpoint of version 10. The ids are 0 and 100 to 111."""
    lake = Lake(tmp_path_factory.mktemp("thirteen_versions") / "t")
    committed(lake.create(lake.file([0]), properties={"delta.enableDeletionVectors": "true"}))
    for number in range(12):
        committed(lake.append([100 + number]))
    return lake.folder


@pytest.fixture
def copied_table(thirteen_versions: Path, tmp_path: Path) -> Path:
    """Copy `thirteen_versions`, for a test to damage."""
    return shutil.copytree(thirteen_versions, tmp_path / "t")
