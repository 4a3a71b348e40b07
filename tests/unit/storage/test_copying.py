"""Copies of objects between stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.errors import MissingDataFile, StorageError
from rowmerge.storage.copying import copy_objects
from rowmerge.storage.store import Storage


@pytest.fixture
def storages(tmp_path: Path) -> tuple[Storage, Storage]:
    """Return the storages of a source and of a target, each an empty folder."""
    for name in ("source", "target"):
        (tmp_path / name).mkdir()
    return Storage(str(tmp_path / "source")), Storage(str(tmp_path / "target"))


def test_a_copy_has_the_content_of_its_source(storages: tuple[Storage, Storage], tmp_path: Path) -> None:
    source, target = storages
    content = bytes(range(256)) * 2**16  # two pieces
    source.put("a", content)
    copy_objects("s.t", source, target, [(f"{source.location}/a", f"{target.location}/new/b")])
    assert (tmp_path / "target/new/b").read_bytes() == content


def test_an_error_names_the_object_that_cannot_be_read_or_written(storages: tuple[Storage, Storage], tmp_path: Path) -> None:
    source, target = storages
    source.put("a", b"1")
    (tmp_path / "target/file").touch()
    with pytest.raises(StorageError) as writing:
        copy_objects("s.t", source, target, [(f"{source.location}/a", f"{target.location}/file/b")])
    assert writing.value.path == f"{target.location}/file/b"
    with pytest.raises(MissingDataFile) as reading:
        copy_objects("s.t", source, target, [(f"{source.location}/b", f"{target.location}/b")])
    assert f"{source.location}/b" in str(reading.value) and not (tmp_path / "target/b").exists()
