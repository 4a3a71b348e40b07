"""Deletion vectors in Puffin files follow the specification and agree with pyiceberg and DuckDB."""

from __future__ import annotations

import struct
import zlib
from dataclasses import replace
from pathlib import Path

import pytest
from pyiceberg.table.deletion_vector import deletion_vectors_from_puffin_file
from pyiceberg.table.puffin import PuffinFile
from pyroaring import BitMap

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.deletes.deletion_vectors import read_deletion_vectors, write_deletion_vectors
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions
from tests.support.iceberg_tables import data_file, table_of
from tests.support.readers import read_with_duckdb_iceberg, read_with_pyiceberg


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def blob(buckets: dict[int, list[int]]) -> bytes:
    """Return a vector blob built field by field from the Puffin specification."""
    vector = struct.pack("<q", len(buckets)) + b"".join(struct.pack("<i", key) + BitMap(low).serialize() for key, low in buckets.items())
    data = b"\xd1\xd3\x39\x64" + vector
    return struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))


def vector_at(storage: Storage, content: bytes, offset: int, size: int, records: int) -> ContentFile:
    storage.put("v.puffin", content)
    return ContentFile(
        Content.POSITION_DELETES,
        f"{storage.location}/v.puffin",
        records,
        len(content),
        format="PUFFIN",
        referenced_data_file="/t/a.parquet",
        content_offset=offset,
        content_size=size,
    )


def test_a_vector_built_from_the_specification_is_read(storage: Storage) -> None:
    vector_blob = blob({0: [1, 5, 100_000], 3: [7]})
    vector = vector_at(storage, b"PFA1" + b"other blob" + vector_blob + b"PFA1 footer", 14, len(vector_blob), 4)
    assert read_deletion_vectors(storage, [vector]) == {"file:///t/a.parquet": Positions([1, 5, 100_000, (3 << 32) + 7])}


def test_written_vectors_are_read_by_rowmerge_and_pyiceberg(storage: Storage) -> None:
    files = [ContentFile(Content.DATA, f"file:///t/{n}.parquet", 10, 1, spec_id=2, partition=(n,)) for n in range(3)]
    deleted = {file.path: Positions([n, 1000 * n + 7, 2**33]) for n, file in enumerate(files)}
    vectors = write_deletion_vectors(storage, f"{storage.location}/data/v.puffin", [(file, deleted[file.path]) for file in files])
    assert read_deletion_vectors(storage, vectors) == deleted
    content = storage.get("data/v.puffin")
    assert {(v.size, v.format, v.spec_id) for v in vectors} == {(len(content), "PUFFIN", 2)} and [v.partition for v in vectors] == [
        (0,),
        (1,),
        (2,),
    ]
    puffin = PuffinFile(content)
    pyiceberg_positions = {
        vector.referenced_data_file: vector.to_vector().to_pylist() for vector in deletion_vectors_from_puffin_file(puffin)
    }
    assert pyiceberg_positions == {path: sorted(positions) for path, positions in deleted.items()}
    for vector, meta in zip(vectors, puffin.footer.blobs, strict=True):
        assert (vector.content_offset, vector.content_size, vector.referenced_data_file) == (
            meta.offset,
            meta.length,
            meta.properties["referenced-data-file"],
        )
        assert (meta.type, meta.snapshot_id, meta.sequence_number, meta.properties["cardinality"]) == ("deletion-vector-v1", -1, -1, "3")


def test_other_readers_apply_vectors_of_a_version_3_table(storage: Storage) -> None:
    files = [data_file(storage, 0, 10), data_file(storage, 10, 10)]
    vectors = write_deletion_vectors(
        storage, f"{storage.location}/data/v.puffin", [(files[0], Positions([0, 9])), (files[1], Positions(range(5)))]
    )
    table = table_of(storage, files, vectors, format_version=3)
    expected = [*range(1, 9), *range(15, 20)]
    assert read_with_pyiceberg(table, "id")["id"].to_pylist() == expected
    assert read_with_duckdb_iceberg(table, "id")["id"].to_pylist() == expected


@pytest.mark.parametrize(("position", "reason"), [(0, "no deletion vector of"), (4, "checksum"), (20, "checksum"), (-1, "checksum")])
def test_a_damaged_vector_is_reported_by_path(storage: Storage, position: int, reason: str) -> None:
    vector_blob = bytearray(blob({0: [1, 5]}))
    vector_blob[position] ^= 0x10
    vector = vector_at(storage, bytes(vector_blob), 0, len(vector_blob), 2)
    with pytest.raises(CorruptLog, match=reason) as corrupt:
        read_deletion_vectors(storage, [vector])
    assert corrupt.value.path == vector.path


def test_a_vector_without_its_magic_number_is_refused(storage: Storage) -> None:
    data = b"\x64\x39\xd3\xd1" + blob({0: [1]})[8:-4]
    vector_blob = struct.pack(">i", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    with pytest.raises(CorruptLog, match="magic number"):
        read_deletion_vectors(storage, [vector_at(storage, vector_blob, 0, len(vector_blob), 1)])


def test_a_vector_with_wrong_size_or_cardinality_is_refused(storage: Storage) -> None:
    vector_blob = blob({0: [1, 5]})
    vector = vector_at(storage, vector_blob, 0, len(vector_blob), 2)
    with pytest.raises(CorruptLog, match="2 rows, but the table's metadata records 3"):
        read_deletion_vectors(storage, [replace(vector, records=3)])
    for offset, size in ((1, len(vector_blob)), (0, len(vector_blob) - 1), (0, 3), (None, 10)):
        with pytest.raises(CorruptLog):
            read_deletion_vectors(storage, [replace(vector, content_offset=offset, content_size=size)])


def test_a_missing_vector_file_or_reference_is_a_corrupt_log(storage: Storage) -> None:
    vector = vector_at(storage, blob({0: [1]}), 0, 20, 1)
    with pytest.raises(CorruptLog, match="the data file of the deletion vector"):
        read_deletion_vectors(storage, [replace(vector, referenced_data_file=None)])
    with pytest.raises(CorruptLog, match="missing"):
        read_deletion_vectors(storage, [replace(vector, path=f"{storage.location}/away/v.puffin")])
