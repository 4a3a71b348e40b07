"""Deletion vectors, inline and in files, follow Delta's protocol; damaged ones are rejected."""

from __future__ import annotations

from pathlib import Path

import pytest

from rowmerge.delta.snapshots.deletion_vectors import read_vector, vector_path, write_vectors, z85_decode, z85_encode
from rowmerge.errors import CorruptLog
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.deleted_rows import serialize
from rowmerge.table.snapshots.files import Positions

INLINE = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "offset": None,
    "sizeInBytes": 44,
    "cardinality": 6,
}


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def test_the_inline_vector_example_of_the_protocol_is_read(storage: Storage) -> None:
    assert list(read_vector(storage, INLINE)) == [3, 4, 7, 11, 18, 29]


def test_z85_matches_the_example_of_its_rfc() -> None:
    data = bytes([0x86, 0x4F, 0xD2, 0x6F, 0xB5, 0x59, 0xF7, 0x5B])
    assert z85_encode(data) == "HelloWorld"
    assert z85_decode("HelloWorld") == data


@pytest.mark.parametrize("text", ["Hello ", "~~~~~", "#####"])
def test_invalid_z85_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        z85_decode(text)


def test_a_vector_path_contains_prefix_and_uuid() -> None:
    descriptor = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^"}
    assert vector_path("s3://mytable", descriptor) == "s3://mytable/ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


def test_an_absolute_vector_path_is_decoded() -> None:
    descriptor = {"storageType": "p", "pathOrInlineDv": "file:/a%20b/v.bin"}
    assert vector_path("file:///t", descriptor) == "file:///a b/v.bin"


def test_an_absolute_vector_outside_the_table_is_read(tmp_path: Path) -> None:
    other = Storage(str(tmp_path / "other folder"))
    vector_files = write_vectors(other, {"f": Positions([5])})
    descriptor = {
        **vector_files.descriptors["f"],
        "storageType": "p",
        "pathOrInlineDv": f"file:{tmp_path}/other%20folder/{vector_files.paths[0]}",
    }
    assert list(read_vector(Storage(str(tmp_path / "table")), descriptor)) == [5]


def test_vectors_of_many_files_share_a_vector_file(storage: Storage) -> None:
    deleted = {f"f{n}": Positions([n, n * 1000, 2**33 + n]) for n in range(1, 20)}
    vector_files = write_vectors(storage, deleted)
    assert len(vector_files.paths) == 1
    assert {path: read_vector(storage, descriptor) for path, descriptor in vector_files.descriptors.items()} == deleted


def test_a_new_vector_file_starts_after_two_mebibytes(storage: Storage) -> None:
    scattered = Positions(range(0, 12_000_000, 3))
    vector_files = write_vectors(storage, {"a": scattered, "b": scattered, "c": Positions([1])})
    assert len(serialize(scattered)) > 1024 * 1024
    assert len(vector_files.paths) == 2
    assert read_vector(storage, vector_files.descriptors["c"]) == Positions([1])


def test_runs_of_deleted_rows_are_compressed() -> None:
    assert len(serialize(Positions(range(1_000_000)))) < 400


@pytest.mark.parametrize("position", [1, 6, -2])
def test_a_damaged_vector_file_is_reported_by_path(storage: Storage, position: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.delta.snapshots.deletion_vectors._cache", Cache(0))
    vector_files = write_vectors(storage, {"f": Positions([1, 2, 3])})
    data = bytearray(storage.get(vector_files.paths[0]))
    data[position] ^= 0xFF
    storage.put(vector_files.paths[0], bytes(data))
    with pytest.raises(CorruptLog) as corrupt:
        read_vector(storage, vector_files.descriptors["f"])
    assert corrupt.value.path == f"{storage.location}/{vector_files.paths[0]}"


def test_a_missing_vector_file_is_a_corrupt_log(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.delta.snapshots.deletion_vectors._cache", Cache(0))
    vector_files = write_vectors(storage, {"f": Positions([1])})
    storage.delete(list(vector_files.paths))
    with pytest.raises(CorruptLog, match="missing"):
        read_vector(storage, vector_files.descriptors["f"])


def test_a_truncated_vector_file_is_a_corrupt_log(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rowmerge.delta.snapshots.deletion_vectors._cache", Cache(0))
    vector_files = write_vectors(storage, {"f": Positions([1])})
    storage.put(vector_files.paths[0], storage.get(vector_files.paths[0])[:12])
    with pytest.raises((CorruptLog,), match="bytes at offset"):
        read_vector(storage, vector_files.descriptors["f"])


def test_a_vector_with_a_wrong_cardinality_is_refused(storage: Storage) -> None:
    with pytest.raises(CorruptLog, match="6 rows, but the table's metadata records 7"):
        read_vector(storage, {**INLINE, "cardinality": 7})


def test_the_big_endian_vector_format_is_refused(storage: Storage) -> None:
    old = {**INLINE, "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L", "sizeInBytes": 40}
    with pytest.raises(CorruptLog, match="magic number"):
        read_vector(storage, old)
