"""Iceberg's properties about pages and columns of Parquet files change the files, and other readers read the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import duckdb
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable

import rowmerge
from rowmerge.errors import ConfigurationError
from tests.support.parquet_pages import pages_of
from tests.support.readers import newest_metadata

STATISTICS, DICTIONARY = "write.parquet.stats-enabled.column", "write.parquet.dict-encoding-enabled.column"
BLOOM_FILTER = "write.parquet.bloom-filter-enabled.column"


def create(session: rowmerge.Session, columns: str, query: str, properties: dict[str, str]) -> None:
    """Create an Iceberg table `t` with the rows of a query in one data file."""
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    session.sql(f"create table t ({columns}) using iceberg tblproperties ({listed})")
    session.sql(f"insert into t select /*+ repartition(1) */ * from ({query})")


def data_files(session: rowmerge.Session) -> list[str]:
    """Return the paths of the live data files, as pyiceberg lists them."""
    files = StaticTable.from_metadata(newest_metadata(session.describe("default", "t").location)).inspect.files().to_pylist()
    return [str(file["file_path"]).removeprefix("file://") for file in files if file["content"] == 0]


def chunks_of(path: str) -> Iterator[tuple[str, pq.ColumnChunkMetaData]]:
    """Yield the column chunks of the first row group with their paths."""
    footer = pq.read_metadata(path)
    for index in range(footer.num_columns):
        chunk = footer.row_group(0).column(index)
        yield chunk.path_in_schema, chunk


def columns_with(path: str, attribute: str) -> set[str]:
    """Return the columns of a file whose chunk has a value in this attribute."""
    return {name for name, chunk in chunks_of(path) if getattr(chunk, attribute)}


def excludes(path: str, column: str, value: str) -> bool:
    """Return whether DuckDB finds that the Bloom filters of a file exclude a value."""
    query = f"select bool_and(bloom_filter_excludes) from parquet_bloom_probe('{path}', '{column}', {value})"
    row = duckdb.sql(query).fetchone()
    assert row is not None
    return bool(row[0])


def test_pages_have_the_size_rows_and_version_of_the_table(session: rowmerge.Session) -> None:
    properties = {"page-version": "v2", "page-size-bytes": "8000", "page-row-limit": "700", "dict-size-bytes": "4000"}
    query = "select id, concat('value ', id) from range(20000)"
    create(session, "id bigint, v string", query, {f"write.parquet.{name}": value for name, value in properties.items()})
    (path,) = data_files(session)
    dictionary, *pages = pages_of(path, "v")
    assert dictionary.version == 0 and dictionary.size < 30_000, "the writer stops to use the dictionary"
    assert {page.version for page in pages} == {2} and sum(page.values for page in pages) == 20_000
    assert max(page.values for page in pages) <= 700 and max(page.size for page in pages) < 16_000
    session.sql("alter table t set tblproperties ('write.parquet.page-version' = 'v1', 'write.parquet.page-row-limit' = '15000')")
    session.sql("alter table t unset tblproperties ('write.parquet.page-size-bytes')")
    session.sql("call system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'))")
    (path,) = data_files(session)
    dictionary, *pages = pages_of(path, "id")
    assert {page.version for page in pages} == {1} and max(page.values for page in pages) == 15_000


def test_columns_have_no_dictionary_or_statistics_if_a_property_says_so(session: rowmerge.Session) -> None:
    create(
        session,
        "id bigint, v string, s struct<a: int, b: string>, l array<int>, m map<string, int>",
        "select id, 'v', named_struct('a', 1, 'b', 'x'), array(1), map('k', 1) from range(100)",
        {
            f"{kind}.{column}": "false"
            for kind in (STATISTICS, DICTIONARY)
            for column in ("v", "s.b", "l.element", "m.key", "unknown", "ID")
        },
    )
    (path,) = data_files(session)
    disabled = {"v", "s.b", "l.list.element", "m.key_value.key"}
    everything = {name for name, _ in chunks_of(path)}
    assert everything - columns_with(path, "has_dictionary_page") == disabled
    assert everything - columns_with(path, "is_stats_set") == disabled
    assert everything - columns_with(path, "has_column_index") == disabled and columns_with(path, "has_offset_index") == everything
    (file,) = StaticTable.from_metadata(newest_metadata(session.describe("default", "t").location)).inspect.files().to_pylist()
    bounds = file["readable_metrics"]
    assert bounds["v"]["lower_bound"] is None and bounds["id"]["lower_bound"] == 0, "bounds come from the statistics of the file"
    assert session.sql("select count(*), max(v), min(s.b) from t where v = 'v' and s.b = 'x'").collect() == [(100, "v", "x")]


def test_readers_skip_files_by_the_bloom_filters_of_columns(session: rowmerge.Session) -> None:
    create(
        session,
        "id bigint, v string, d decimal(9, 2), s struct<a: int, f: double>, f double, ok boolean, plain int, l array<string>",
        "select id, concat('v', id), id / 4, named_struct('a', int(id), 'f', id), -0.0, true, 1, array(concat('l', id)) from range(6000)",
        {f"{BLOOM_FILTER}.{column}": "true" for column in ("id", "v", "d", "s.a", "s.f", "f", "ok", "l.element", "missing")}
        | {f"{BLOOM_FILTER}.plain": "false"},
    )
    (path,) = data_files(session)
    assert columns_with(path, "bloom_filter_length") == {"id", "v", "d", "s.a", "l.list.element"}, "floats and Booleans have no filters"
    assert not any(excludes(path, "id", f"{id_}::bigint") for id_ in range(0, 6000, 7))
    assert not any(excludes(path, "v", f"'v{id_}'") for id_ in range(0, 6000, 7))
    missing_values = range(10_000, 10_300)
    assert sum(excludes(path, "id", f"{id_}::bigint") for id_ in missing_values) > 280
    assert sum(excludes(path, "v", f"'v{id_}'") for id_ in missing_values) > 280
    assert session.sql("select count(*) from t where v in ('v1', 'v5999', 'v6000') or d = 1.25 or s.a = 77").collect() == [(4,)]
    session.sql("merge into t using (select 'v17' as v) s on t.v = s.v when matched then update set id = -1")
    assert session.sql("select id from t where v = 'v17'").collect() == [(-1,)]


def test_the_size_of_a_bloom_filter_follows_its_properties(session: rowmerge.Session) -> None:
    properties = {f"{BLOOM_FILTER}.{column}": "true" for column in ("rows", "few", "many", "rough")}
    properties |= {"write.parquet.bloom-filter-ndv.column.few": "100", "write.parquet.bloom-filter-ndv.column.many": "3000000000"}
    properties |= {"write.parquet.bloom-filter-fpp.column.rough": "0.5", "write.parquet.bloom-filter-max-bytes": "5000"}
    create(session, "rows int, few int, many int, rough int", "select int(id), int(id), int(id), int(id) from range(4000)", properties)
    # A rate of 0.01 needs 9.7 bits for a value, and 0.5 needs 3.2 bits. Sizes are powers of two, after a header of about 16 bytes.
    assert _filter_sizes(session) == {"rows": 4096, "few": 128, "many": 4096, "rough": 2048}
    session.sql("alter table t unset tblproperties ('write.parquet.bloom-filter-max-bytes')")
    session.sql("call system.rewrite_data_files(table => 't', options => map('rewrite-all', 'true'))")
    assert _filter_sizes(session) == {"rows": 8192, "few": 128, "many": 8192, "rough": 2048}


def _filter_sizes(session: rowmerge.Session) -> dict[str, int]:
    """Return the sizes of the Bloom filters of the only data file, without their headers."""
    (path,) = data_files(session)
    return {name: chunk.bloom_filter_length // 32 * 32 for name, chunk in chunks_of(path)}


def test_properties_of_columns_follow_renamed_columns_and_end_with_dropped_ones(session: rowmerge.Session) -> None:
    properties = {f"{BLOOM_FILTER}.{column}": "true" for column in ("a", "s.x", "gone")}
    properties |= {
        "write.metadata.metrics.column.s.x": "none",
        "write.parquet.bloom-filter-ndv.column.a": "9",
        f"{STATISTICS}.s.x": "false",
    }
    create(session, "a int, s struct<x: int>, gone int", "select 1, named_struct('x', 2), 3", properties)
    session.sql("alter table t rename column a to b")
    session.sql("alter table t rename column s to r")
    session.sql("alter table t drop column gone")
    session.sql("alter table t add column a int")
    session.sql("alter table t add column gone int")
    session.sql("insert into t (b, r) values (4, named_struct('x', 5))")
    properties = dict(session.describe("default", "t").properties)
    assert {name for name in properties if "column." in name} == {
        f"{BLOOM_FILTER}.b",
        f"{BLOOM_FILTER}.r.x",
        "write.metadata.metrics.column.r.x",
        "write.parquet.bloom-filter-ndv.column.b",
        f"{STATISTICS}.r.x",
    }
    newest = max(data_files(session), key=lambda path: Path(path).stat().st_mtime_ns)
    names = dict(zip(("b", "r.x", "a", "gone"), (name for name, _ in chunks_of(newest)), strict=True))
    assert columns_with(newest, "bloom_filter_length") == {names["b"], names["r.x"]}
    assert names["r.x"] not in columns_with(newest, "is_stats_set")
    session.sql(f"alter table t set tblproperties ('{BLOOM_FILTER}.a' = 'true')")
    session.sql("insert into t (a) values (6)")
    newest = max(data_files(session), key=lambda path: Path(path).stat().st_mtime_ns)
    assert columns_with(newest, "bloom_filter_length") == {names["b"], names["r.x"], names["a"]}, "the file names this column by its id"


def test_a_bloom_filter_needs_a_pyarrow_that_writes_it(session: rowmerge.Session, monkeypatch: pytest.MonkeyPatch) -> None:
    class OldWriter:
        def __init__(self, where: object, schema: object) -> None:
            raise AssertionError("nothing is written")

    create(session, "id int", "select 1", {f"{BLOOM_FILTER}.id": "true"})
    monkeypatch.setattr(pq, "ParquetWriter", OldWriter)
    with pytest.raises(ConfigurationError, match=r"bloom-filter-enabled\.column\.id requires PyArrow 24"):
        session.sql("insert into t values (2)")
    with pytest.raises(ConfigurationError, match=r"bloom-filter-enabled\.column\.id requires PyArrow 24"):
        session.sql(f"create table u (id int) using iceberg tblproperties ('{BLOOM_FILTER}.id' = 'true')")
    assert session.sql("select id from t").collect() == [(1,)]
