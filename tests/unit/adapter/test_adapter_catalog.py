"""The statistics of a relation in `dbt docs generate`."""

from __future__ import annotations

from dbt.adapters.rowmerge.relations.catalog import catalog_rows, catalog_table
from rowmerge.catalog import Relation
from rowmerge.table.metadata.partitioning import PartitionField
from rowmerge.table.metadata.schema import Field, Primitive
from rowmerge.table.relations import RelationDescription

COLUMNS = (Field("id", Primitive("long")), Field("Tag", Primitive("string"), metadata={"comment": 'It\'s\n"odd"'}))


def table(**more):
    facts = {"version": 7, "modified": 1_700_000_000_000, "records": 8, "size": 1234, "files": 2, "deleted": 3, **more}
    return RelationDescription(
        Relation("s", "t", "table", "delta"), COLUMNS, "file:///w/s/t", partitioning=(PartitionField(("Tag",)),), **facts
    )


def test_statistics_of_a_table_come_from_its_snapshot():
    stats = {key: item.value for key, item in catalog_table(table()).stats.items()}
    assert stats == {
        "format": "delta",
        "location": "file:///w/s/t",
        "partition_columns": "Tag",
        "version": 7,
        "num_rows": 8,
        "bytes": 1234,
        "num_files": 2,
        "num_deleted_rows": 3,
        "last_modified": "2023-11-14 22:13:20",
    }


def test_an_empty_table_has_zero_counts_and_an_unknown_length_has_no_count():
    empty = catalog_table(table(records=0, size=0, files=0, deleted=0)).stats
    assert [empty[key].value for key in ("num_rows", "bytes", "num_files", "num_deleted_rows")] == [0, 0, 0, 0]
    assert "num_rows" not in catalog_table(table(records=None)).stats


def test_a_view_has_no_statistics():
    view = RelationDescription(Relation("s", "v", "view", None), COLUMNS, "file:///w/s/v", version=1, modified=1_700_000_000_000)
    assert set(catalog_table(view).stats) == {"location", "version", "last_modified"}


def test_both_catalog_methods_return_the_same_rows():
    rows = [dict(zip(row.keys(), row.values(), strict=True)) for row in catalog_rows([table()]).rows]
    single = catalog_table(table())
    assert [row["column_name"] for row in rows] == list(single.columns) == ["id", "Tag"]
    assert rows[1]["column_comment"] == single.columns["Tag"].comment == 'It\'s\n"odd"'
    included_stats = {key: rows[0][f"stats:{key}:value"] for key, item in single.stats.items() if rows[0][f"stats:{key}:include"]}
    assert included_stats == {key: str(item.value) for key, item in single.stats.items()}
