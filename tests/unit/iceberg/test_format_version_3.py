"""Tables of format version 3 without Spark: deletion vectors, row ids in metadata, and features refused by name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pyiceberg.table.update import UpgradeFormatVersionUpdate

from rowmerge.errors import UnsupportedTableFeature
from rowmerge.iceberg.manifests.content import Content
from rowmerge.iceberg.manifests.manifest_files import read_manifest_list
from rowmerge.iceberg.metadata.parsing import parse_metadata
from rowmerge.table.commits.request import CommitRequest, Committed, Reads
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import FileChanges, Positions
from tests.support.iceberg_lake import Lake
from tests.support.readers import read_lineage_with_duckdb, read_with_pyiceberg
from tests.support.table_operations import write_rows


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    """Create a table of two files of three rows each."""
    table_lake = Lake(tmp_path / "t")
    table_lake.create({"format-version": "3"})
    table_lake.append([0, 1, 2])
    table_lake.append([10, 11, 12])
    return table_lake


def deletes(lake: Lake) -> list[tuple[str, int]]:
    """Return format and number of deleted rows of each delete file or vector."""
    return sorted((entry.file.format, entry.file.records) for entry in lake.table.snapshot().live.deletes)


def row_ids(lake: Lake) -> dict[int, int]:
    return {row["id"]: row["_row_id"] for row in read_lineage_with_duckdb(str(lake.folder)).to_pylist()}


def id_ranges(lake: Lake) -> list[tuple[int | None, int | None]]:
    """Return the first row id and the number of added rows of each snapshot."""
    return [(snapshot.first_row_id, snapshot.added_rows) for snapshot in lake.table.snapshot().metadata.snapshots]


def test_a_new_deletion_vector_replaces_the_old_one_in_the_same_commit(lake: Lake) -> None:
    lake.delete(0, 10)
    vectors = {entry.file.path for entry in lake.table.snapshot().live.deletes}
    assert deletes(lake) == [("PUFFIN", 1), ("PUFFIN", 1)] and len(vectors) == 1
    lake.delete(1)
    assert deletes(lake) == [("PUFFIN", 1), ("PUFFIN", 2)]
    summary = lake.table.snapshot().iceberg_version.summary.additional_properties  # type: ignore[union-attr]
    assert (summary["added-dvs"], summary["removed-dvs"], summary["total-delete-files"]) == ("1", "1", "2")
    lake.delete(11, 12)
    assert deletes(lake) == [("PUFFIN", 2)]
    assert lake.ids() == read_with_pyiceberg(str(lake.folder), "id")["id"].to_pylist() == [2]


def test_concurrent_deletes_in_a_file_merge_into_one_deletion_vector(lake: Lake) -> None:
    base = lake.table.snapshot()
    path = lake.paths[0]
    for position in (0, 2):
        change = CommitRequest("DELETE", files=FileChanges(deleted={path: Positions([position])}), reads=Reads())
        outcome = lake.table.commit(base, change)
        assert isinstance(outcome, Committed) and outcome.rebases == (1 if position else 0)
    assert deletes(lake) == [("PUFFIN", 2)]
    assert lake.ids() == read_with_pyiceberg(str(lake.folder), "id")["id"].to_pylist()


def test_a_deletion_vector_includes_rows_of_older_delete_files(tmp_path: Path) -> None:
    lake = Lake(tmp_path / "t")
    lake.create()
    for first in (0, 10):
        lake.append(range(first, first + 4))
    lake.delete(0)
    lake.add_deletes(lake.shared_deletes(1, 11))
    lake.update(UpgradeFormatVersionUpdate(format_version=3))
    lake.delete(2)
    assert deletes(lake) == [("PARQUET", 2), ("PUFFIN", 3)]
    assert lake.ids() == read_with_pyiceberg(str(lake.folder), "id")["id"].to_pylist() == [3, 10, 12, 13]
    assert lake.table.maintenance.rewrite_position_deletes().added == 1
    assert deletes(lake) == [("PUFFIN", 1), ("PUFFIN", 3)]
    assert lake.ids() == [3, 10, 12, 13]


def test_new_rows_get_ids_above_all_assigned_ids(lake: Lake) -> None:
    assert id_ranges(lake) == [(0, 3), (3, 3)] and lake.table.snapshot().metadata.next_row_id == 6  # type: ignore[union-attr]
    first = row_ids(lake)
    lake.delete(0)
    lake.append([20])
    assert row_ids(lake) == {id_: row for id_, row in first.items() if id_} | {20: 6}


@pytest.mark.parametrize("merge", [True, False])
def test_rewritten_manifests_keep_row_ids(lake: Lake, merge: bool) -> None:
    original_ids = row_ids(lake)
    if merge:
        lake.table.commit(
            lake.table.snapshot(), CommitRequest("SET", definition=TableDefinition(properties={"commit.manifest.min-count-to-merge": "2"}))
        )
        lake.append([20])
        lake.remove(10)
    else:
        lake.append([20])
        lake.remove(10)
        assert lake.table.maintenance.rewrite_manifests().added == 1
    current_ids = row_ids(lake)
    assert {id_: row for id_, row in current_ids.items() if id_ < 10} == {id_: row for id_, row in original_ids.items() if id_ < 10}
    assert current_ids[20] not in original_ids.values() and len(current_ids) == 4
    data = [m for m in read_manifest_list(lake.storage, lake.table.snapshot().iceberg_version.manifest_list) if m.content == Content.DATA]  # type: ignore[union-attr]
    assert len(data) == 1 and data[0].first_row_id is not None


def test_concurrent_appends_assign_unique_row_ids(lake: Lake) -> None:
    base = lake.table.snapshot()
    for ids in ([20, 21], [30, 31]):
        assert isinstance(
            lake.table.commit(base, CommitRequest("WRITE", files=FileChanges(write_rows(base, ids)), reads=Reads())), Committed
        )
    assert sorted(row_ids(lake).values()) == list(range(10))


CONTENT: dict[str, Any] = {
    "format-version": 3,
    "table-uuid": "9c12d441-03fe-4693-9a96-a0705ddf69c1",
    "location": "/t",
    "last-sequence-number": 0,
    "last-updated-ms": 0,
    "last-column-id": 2,
    "next-row-id": 0,
    "current-schema-id": 0,
    "schemas": [{"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "a", "required": False, "type": "int"}]}],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "last-partition-id": 999,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
}


def schema_of(type_: Any) -> dict[str, Any]:
    fields = [{"id": 1, "name": "a", "required": False, "type": type_}]
    return {"schemas": [{"type": "struct", "schema-id": 0, "fields": fields}]}


def promoted_date(transform: str) -> dict[str, Any]:
    """Return the metadata of a table that is partitioned by a column whose type was changed from date to timestamp."""
    fields = [{"id": 1, "name": "a", "required": False, "type": type_} for type_ in ("date", "timestamp")]
    schemas = [{"type": "struct", "schema-id": number, "fields": [field]} for number, field in enumerate(fields)]
    spec = {"spec-id": 0, "fields": [{"source-id": 1, "field-id": 1000, "name": "p", "transform": transform}]}
    return {"schemas": schemas, "current-schema-id": 1, "partition-specs": [spec], "last-partition-id": 1000}


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (schema_of("variant"), "type variant of the column a"),
        (
            schema_of({"type": "list", "element-id": 2, "element": "variant", "element-required": False}),
            "type variant of the column a.element",
        ),
        (schema_of("geometry(srid:3857)"), "type geometry"),
        ({"encryption-keys": [{"key-id": "k"}]}, "encryption"),
        (
            {
                "partition-specs": [
                    {"spec-id": 0, "fields": [{"source-ids": [1, 2], "field-id": 1000, "name": "b", "transform": "bucket[4]"}]}
                ]
            },
            r"transform bucket\[4\] of several columns",
        ),
        (promoted_date("identity"), "promotion of the partition column a from date"),
        (promoted_date("bucket[4]"), "promotion of the partition column a from date"),
    ],
)
def test_unsupported_metadata_is_refused_by_name(changed: dict[str, Any], message: str) -> None:
    assert parse_metadata(json.dumps(CONTENT).encode(), "m", "t").format_version == 3
    with pytest.raises(UnsupportedTableFeature, match=message):
        parse_metadata(json.dumps(CONTENT | changed).encode(), "m", "t")


def test_a_promoted_date_can_have_partitions_whose_values_stay_the_same() -> None:
    assert parse_metadata(json.dumps(CONTENT | promoted_date("month")).encode(), "m", "t").format_version == 3
