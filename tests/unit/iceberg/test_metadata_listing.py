"""The metadata files of a version and of the next one are in one listing of a remote store."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rowmerge.iceberg.catalogs.metadata_folder import CurrentMetadata, MetadataFolder, metadata_path
from rowmerge.storage import listing
from rowmerge.storage.store import Storage
from tests.support.faulty_s3 import FaultyS3, needs_moto
from tests.support.iceberg_lake import Lake

CODECS = ["v{}.metadata.json", "v{}.gz.metadata.json", "v{}.metadata.json.gz", "v{}.zstd.metadata.json"]


class Distant(Storage):
    is_remote = True


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "metadata").mkdir()
    for name in ("snap-1.avro", "0a-m0.avro", "version-hint.text"):
        (tmp_path / "metadata" / name).touch()
    return tmp_path


def paths_from(folder: Path, version: int) -> tuple[list[str], list[str]]:
    """Return the paths by a listing, which must be those of single tests."""
    by_tests = MetadataFolder(Storage(str(folder)), "s.t").paths_from(version)
    by_listing = MetadataFolder(Distant(str(folder)), "s.t").paths_from(version)
    assert by_listing == by_tests
    return by_listing


@pytest.mark.parametrize("newest", [1, 7, 9, 10, 19, 99, 100, 199, 999, 1000, 1999, 2000])
def test_both_versions_are_in_the_listing(folder: Path, newest: int) -> None:
    for version in range(max(1, newest - 1200), newest + 1):
        (folder / metadata_path(version)).touch()
    assert paths_from(folder, newest) == ([metadata_path(newest)], [])
    assert paths_from(folder, newest - 1)[1] == [metadata_path(newest)]
    (folder / metadata_path(newest + 1)).touch()
    assert paths_from(folder, newest) == ([metadata_path(newest)], [metadata_path(newest + 1)])


@pytest.mark.parametrize("name", CODECS)
def test_compressed_files_count(folder: Path, name: str) -> None:
    for version in (9, 10, 90, 100):
        (folder / "metadata" / name.format(version)).touch()
    assert paths_from(folder, 9) == ([f"metadata/{name.format(9)}"], [f"metadata/{name.format(10)}"])


def test_a_page_that_ends_before_the_next_version_is_followed_by_another(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "PAGE", 5)
    monkeypatch.setattr("rowmerge.iceberg.catalogs.metadata_folder.PAGE", 5)
    for version in (*range(1, 100), *range(700, 710), 8):
        (folder / metadata_path(version)).touch()
    assert paths_from(folder, 7) == ([metadata_path(7)], [metadata_path(8)])
    assert paths_from(folder, 9) == ([metadata_path(9)], [metadata_path(10)])
    assert paths_from(folder, 99) == ([metadata_path(99)], [])


@needs_moto
def test_a_page_of_s3_is_one_request(s3: FaultyS3, tmp_path: Path) -> None:
    storage = Storage(f"{s3.location}/{tmp_path.name}", s3.options())
    for number in range(3):
        storage.put(f"metadata/v{number}.metadata.json", b"")
    s3.requests.clear()
    assert [file.path for file in listing.list_page(storage, "metadata", "metadata/v1")] == [metadata_path(1), metadata_path(2)]
    assert len(s3.requests) == 1


@needs_moto
def test_an_etag_tells_whether_a_file_is_unchanged(s3: FaultyS3, tmp_path: Path) -> None:
    storage = Storage(f"{s3.location}/{tmp_path.name}", s3.options())
    changes: list[tuple[Callable[[], object], bool, int]] = [
        (lambda: None, True, 1),
        (lambda: storage.put(metadata_path(3), b"x"), True, 1),
        (lambda: storage.put(metadata_path(2), b"x"), False, 2),
        (lambda: storage.delete([metadata_path(2)]), False, 1),
    ]
    current = current_of(storage, tmp_path)
    for change, is_unchanged, requests in changes:
        change()
        folder = MetadataFolder(storage, "s.t")
        s3.requests.clear()
        assert folder.compare(current).is_unchanged is is_unchanged
        assert len(s3.requests) == requests
    assert folder.compare(current).next_paths == [metadata_path(3)]


def test_without_hashes_as_etags_the_file_is_compared(tmp_path: Path) -> None:
    storage = Distant(str(tmp_path))
    current = current_of(storage, tmp_path / "lake")
    folder = MetadataFolder(storage, "s.t")
    assert folder.compare(current).is_unchanged and folder.compare(current).is_unchanged
    storage.put(metadata_path(2), b"x")
    assert not folder.compare(current).is_unchanged


def current_of(storage: Storage, folder: Path) -> CurrentMetadata:
    """Put the newest metadata of a table, which is version 2, to a store, and return it."""
    lake = Lake(folder)
    lake.create()
    lake.append([1])
    storage.put(metadata_path(2), lake.storage.get(metadata_path(2)))
    current = MetadataFolder(storage, "s.t").read(2)
    assert current is not None
    return current
