"""Position-delete files are exchanged with pyiceberg and DuckDB."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.avro.files import write_avro
from rowmerge.iceberg.deletes import position_deletes
from rowmerge.iceberg.deletes.position_deletes import (
    FILE_PATH,
    POS,
    read_position_deletes,
    referenced_path,
    write_position_deletes,
)
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions
from tests.support.iceberg_tables import data_file, table_of
from tests.support.readers import read_with_duckdb_iceberg, read_with_pyiceberg


@pytest.fixture
def storage(tmp_path: Path) -> Storage:
    return Storage(str(tmp_path))


def put(storage: Storage, rows: pa.Table, name: str = "d.parquet", **options: Any) -> ContentFile:
    stream = io.BytesIO()
    pq.write_table(rows, stream, **options)
    return put_delete_file(storage, stream.getvalue(), name, rows.num_rows, "PARQUET")


def put_delete_file(storage: Storage, data: bytes, name: str, records: int, format: str) -> ContentFile:
    storage.put(name, data)
    return ContentFile(Content.POSITION_DELETES, f"{storage.location}/{name}", records, len(data), format=format)


def test_other_readers_apply_written_position_deletes(storage: Storage) -> None:
    files = [data_file(storage, 0, 10), data_file(storage, 10, 10), data_file(storage, 20, 10)]
    deletes = [
        *write_position_deletes(storage, lambda: f"{storage.location}/data/0-deletes.parquet", [(files[0], Positions([0, 9]))]),
        *write_position_deletes(storage, lambda: f"{storage.location}/data/1-deletes.parquet", [(files[1], Positions(range(10)))]),
    ]
    table = table_of(storage, files, deletes)
    expected = [*range(1, 9), *range(20, 30)]
    assert read_with_pyiceberg(table, "id")["id"].to_pylist() == expected
    assert read_with_duckdb_iceberg(table, "id")["id"].to_pylist() == expected


def test_a_written_delete_file_has_complete_metadata(storage: Storage) -> None:
    rows = ContentFile(Content.DATA, "file:/t/ä b.parquet", 10, 1, spec_id=3, partition=("x", None))
    (file,) = write_position_deletes(storage, lambda: f"{storage.location}/deep/er/d.parquet", [(rows, Positions([3, 2**40]))])
    data = storage.get("deep/er/d.parquet")
    path, least, most = "file:/t/ä b.parquet".encode(), (3).to_bytes(8, "little"), (2**40).to_bytes(8, "little")
    assert file == ContentFile(
        Content.POSITION_DELETES,
        f"{storage.location}/deep/er/d.parquet",
        records=2,
        size=len(data),
        spec_id=3,
        partition=("x", None),
        lower={FILE_PATH: path, POS: least},
        upper={FILE_PATH: path, POS: most},
        split_offsets=(4,),
        referenced_data_file="file:/t/ä b.parquet",
    )
    parquet = pq.ParquetFile(pa.BufferReader(data))
    assert [(f.name, f.nullable, f.metadata[b"PARQUET:field_id"]) for f in parquet.schema_arrow] == [
        ("file_path", False, b"2147483546"),
        ("pos", False, b"2147483545"),
    ]
    assert parquet.read().to_pylist() == [{"file_path": "file:/t/ä b.parquet", "pos": pos} for pos in (3, 2**40)]
    assert parquet.metadata.row_group(0).column(0).compression == "ZSTD"
    assert parquet.metadata.row_group(0).column(0).statistics.max == "file:/t/ä b.parquet"


def test_position_deletes_round_trip(storage: Storage) -> None:
    rows = ContentFile(Content.DATA, "/t/a.parquet", 10, 1)
    positions = Positions([*range(0, 3_000_000, 3), 2**33])
    (file,) = write_position_deletes(storage, lambda: f"{storage.location}/d.parquet", [(rows, positions)])
    assert read_position_deletes(storage, [file]) == {"file:///t/a.parquet": positions}
    groups = pq.ParquetFile(pa.BufferReader(storage.get("d.parquet"))).metadata
    assert groups.num_row_groups == len(file.split_offsets) == 2
    assert file.split_offsets[0] == 4 and file.split_offsets[1] == 4 + sum(
        groups.row_group(0).column(at).total_compressed_size for at in (0, 1)
    )


def test_paths_of_deleted_rows_may_exceed_two_gibibytes(storage: Storage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(position_deletes, "_BATCH_ROWS", 10_000)
    rows = ContentFile(Content.DATA, f"file:///t/{'x' * 4_400}", 500_000, 1)
    (file,) = write_position_deletes(storage, lambda: f"{storage.location}/d.parquet", [(rows, Positions(range(500_000)))])
    assert read_position_deletes(storage, [file]) == {rows.path: Positions(range(500_000))}


def test_deletes_are_combined_by_normalized_path(storage: Storage) -> None:
    first = put(storage, pa.table({"file_path": ["/t/a", "/t/a", "file:/t/b", "s3://b/c"], "pos": [1, 5, 0, 7]}), "1.parquet")
    second = put(storage, pa.table({"file_path": ["file:///t/a", "file:///t/c"], "pos": [2, 9]}), "2.parquet")
    positions_by_path = read_position_deletes(storage, [first, second])
    assert positions_by_path == {
        "file:///t/a": Positions([1, 2, 5]),
        "file:///t/b": Positions([0]),
        "file:///t/c": Positions([9]),
        "s3://b/c": Positions([7]),
    }
    assert read_position_deletes(storage, []) == {}


def test_changing_returned_positions_does_not_change_the_cache(storage: Storage) -> None:
    file = put(storage, pa.table({"file_path": ["/t/a"], "pos": [1]}))
    read_position_deletes(storage, [file])["file:///t/a"].add(100)
    assert read_position_deletes(storage, [file]) == {"file:///t/a": Positions([1])}


def test_unsorted_delete_files_with_row_columns_are_read(storage: Storage) -> None:
    paths = [f"/t/{n % 7}" for n in range(1000)]
    rows = pa.table({"row": pa.array([{"id": n} for n in range(1000)]), "pos": list(range(1000)), "file_path": paths})
    positions_by_path = read_position_deletes(storage, [put(storage, rows, row_group_size=64)])
    assert positions_by_path == {f"file:///t/{n}": Positions(range(n, 1000, 7)) for n in range(7)}


def test_orc_and_avro_delete_files_are_read(storage: Storage) -> None:
    rows = pa.table({"file_path": ["/t/a", "/t/b", "/t/b"], "pos": [4, 0, 2**40]})
    stream = io.BytesIO()
    orc.write_table(rows, stream)
    fields = [
        {"name": "file_path", "type": "string", "field-id": FILE_PATH},
        {"name": "position", "type": "long", "field-id": POS},
    ]
    records = [{"file_path": row["file_path"], "position": row["pos"]} for row in rows.to_pylist()]
    avro = write_avro({"type": "record", "name": "r", "fields": fields}, records, {})
    for format, data in (("ORC", stream.getvalue()), ("AVRO", avro)):
        positions_by_path = read_position_deletes(storage, [put_delete_file(storage, data, f"d.{format}", 3, format)])
        assert positions_by_path == {"file:///t/a": Positions([4]), "file:///t/b": Positions([0, 2**40])}


def test_unknown_delete_file_formats_are_refused_by_name(storage: Storage) -> None:
    with pytest.raises(UnsupportedTableFeature, match="lance delete files"):
        read_position_deletes(storage, [put_delete_file(storage, b"x", "d.lance", 1, "LANCE")])


def test_a_missing_or_damaged_delete_file_is_reported_by_path(storage: Storage) -> None:
    missing_file = ContentFile(Content.POSITION_DELETES, f"{storage.location}/nowhere/gone.parquet", 1, 1)
    with pytest.raises(CorruptLog, match="missing") as missing_error:
        read_position_deletes(storage, [missing_file])
    assert missing_error.value.path == missing_file.path
    assert not (Path(storage.location[len("file://") :]) / "nowhere").exists()
    valid_file = put(storage, pa.table({"file_path": ["/t/a"], "pos": [1]}))
    data = storage.get("d.parquet")
    broken = [
        put_delete_file(storage, data[:40], "1.parquet", 1, "PARQUET"),
        put_delete_file(storage, data, "2.orc", 1, "ORC"),
        put_delete_file(storage, data, "3.avro", 1, "AVRO"),
        put(storage, pa.table({"path": ["/t/a"], "pos": [1]}), "4.parquet"),
        put(storage, pa.table({"file_path": ["/t/a"], "pos": [-1]}), "5.parquet"),
        put(storage, pa.table({"file_path": ["/t/a", "/t/a"], "pos": [1, None]}), "6.parquet"),
        put(storage, pa.table({"file_path": ["/t/a", None], "pos": [1, 2]}), "7.parquet"),
        put(storage, pa.table({"file_path": ["/t/a"], "pos": ["1"]}), "8.parquet"),
    ]
    for file in broken:
        with pytest.raises(CorruptLog) as corrupt:
            read_position_deletes(storage, [valid_file, file])
        assert corrupt.value.path == file.path


def test_the_data_file_of_deletes_comes_from_reference_or_equal_bounds() -> None:
    bare = ContentFile(Content.POSITION_DELETES, "/t/d", 1, 1)
    exact = replace(bare, lower={FILE_PATH: b"file:/t/a"}, upper={FILE_PATH: b"file:/t/a"})
    assert referenced_path(bare) is None
    assert referenced_path(exact) == "file:///t/a"
    assert referenced_path(replace(exact, upper={FILE_PATH: b"file:/t/b"})) is None
    assert referenced_path(replace(bare, referenced_data_file="/t/x")) == "file:///t/x"
