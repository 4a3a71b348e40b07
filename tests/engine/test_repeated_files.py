"""Iceberg tables whose metadata list a data file twice: the rows of each entry are rows of the table."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyiceberg.catalog import Catalog, load_catalog
from pyspark.sql import SparkSession

import rowmerge
from rowmerge.errors import UnsupportedTableFeature


@pytest.fixture
def catalog(tmp_path: Path) -> Catalog:
    return load_catalog("default", type="sql", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w")


@pytest.fixture
def session(spark: SparkSession, tmp_path: Path, catalog: Catalog) -> rowmerge.Session:
    """Return a session with a partitioned table, one of whose files has no column of the partition and two entries in the metadata."""
    folder = tmp_path / "files"
    spark.sql("select * from values (1L, 'x'), (2L, 'x') as v (id, p)").coalesce(1).write.partitionBy("p").parquet(str(folder))
    session = rowmerge.connect(catalog=dict(catalog.properties), spark=spark, schema="raw")
    session.sql("create schema raw")
    session.sql("create table t (id bigint, p string) partitioned by (p)")
    session.sql("insert into t values (3, 'y')")
    session.sql(f"call system.add_files('t', 'parquet.`{folder}`')")
    table = catalog.load_table("raw.t")
    (entry,) = [task.file for task in table.scan().plan_files() if task.file.record_count == 2]
    with table.transaction() as transaction, transaction.update_snapshot().fast_append() as append:
        append.append_data_file(entry)
    return session


def ids(session: rowmerge.Session, query: str) -> list[int]:
    return sorted(row[0] for row in session.sql(query).collect())


def test_each_entry_of_a_file_has_its_rows(session: rowmerge.Session) -> None:
    assert ids(session, "select id from t") == [1, 1, 2, 2, 3]
    assert ids(session, "select id from t where p = 'x' and id > 1") == [2, 2]
    assert session.sql("select count(*), sum(id) from t").collect() == [(5, 9)]
    assert session.sql("select id, _partition.p, _pos from t where id < 3 order by id").collect() == [(1, "x", 0)] * 2 + [(2, "x", 1)] * 2


def test_statements_that_would_change_the_rows_of_both_entries_are_rejected(session: rowmerge.Session, catalog: Catalog) -> None:
    for text in (
        "delete from t where id = 1",
        "update t set id = 7 where id = 2",
        "merge into t using (select 1L as id, 'x' as p) s on t.id = s.id when matched then update set *",
        "call system.rewrite_data_files('t', options => map('rewrite-all', 'true'))",
    ):
        with pytest.raises(UnsupportedTableFeature, match=r"list more than once.*INSERT OVERWRITE t SELECT"):
            session.sql(text)
    session.sql("update t set id = 4 where p = 'y'")
    assert ids(session, "select id from t") == [1, 1, 2, 2, 4]
    session.sql("insert overwrite t select distinct * from t")
    session.sql("delete from t where id = 1")
    assert sorted(catalog.load_table("raw.t").scan().to_arrow()["id"].to_pylist()) == [2, 4]


def test_a_partition_with_both_entries_is_deleted(session: rowmerge.Session, catalog: Catalog) -> None:
    session.sql("delete from t where p = 'x'")
    assert catalog.load_table("raw.t").scan().to_arrow()["id"].to_pylist() == [3]
