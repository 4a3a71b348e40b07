"""Properties of new files: random folders, for which every reader takes partition values from the log, and the version of Parquet."""

from __future__ import annotations

import datetime
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import deltalake
import pyarrow.parquet as pq
import pytest

import rowmerge
from rowmerge.errors import ConfigurationError
from rowmerge.spark.reading import small_files
from tests.support.readers import read_with_delta_rs, read_with_duckdb, rows_of

PREFIXES = "'delta.randomizeFilePrefixes' = 'true', 'delta.randomPrefixLength' = '4'"
DATA_FILE = re.compile(r"[0-9A-Za-z]{4}/part-[^/]+\.parquet")
CHANGE_FILE = re.compile(r"_change_data/[0-9A-Za-z]{4}/cdc-[^/]+\.parquet")
VECTOR_FILE = re.compile(r"[0-9A-Za-z]{4}/deletion_vector_[0-9a-f-]{36}\.bin")


def folder_of(session: rowmerge.Session, name: str) -> Path:
    return Path(session.describe("default", name).location.removeprefix("file://"))


def actions(folder: Path, kind: str) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("_delta_log/*.json")):
        yield from (line[kind] for line in map(json.loads, path.read_text().splitlines()) if kind in line)


def files(folder: Path) -> list[str]:
    paths = (path.relative_to(folder) for path in folder.rglob("*") if path.is_file() and path.suffix != ".crc")
    return sorted(path.as_posix() for path in paths if path.parts[0] != "_delta_log")


def rows(session: rowmerge.Session, query: str = "select id, v, p, d from t") -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in session.sql(query).collect()), key=str)


def assert_all_readers_agree(session: rowmerge.Session, expected: list[tuple[Any, ...]]) -> None:
    """Verify the rows of the table t with Spark's reader and with Arrow, by partition, and with delta-rs and DuckDB."""
    assert rows(session) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(small_files, "MIN_FILES", 1)
        assert rows(session, "select /* Arrow */ id, v, p, d from t") == expected
    assert rows(session, "select id, v, p, d from t where p = 'b/1'") == [row for row in expected if row[2] == "b/1"]
    location = str(folder_of(session, "t"))
    for read in (read_with_delta_rs, read_with_duckdb):
        assert sorted(rows_of(read(location).select(["id", "v", "p", "d"])), key=str) == expected


def create_and_change(session: rowmerge.Session, properties: str) -> None:
    session.sql(
        f"create table t (id bigint, v string, p string, d date) using delta partitioned by (p, d) tblproperties ({PREFIXES}, {properties})"
    )
    session.sql("insert into t select id, 'a', if(id % 3 = 0, null, concat('b/', id % 3)), date'2024-01-01' + int(id % 2) from range(12)")
    session.sql("update t set v = 'u' where id = 1")
    session.sql("delete from t where id in (2, 3)")
    session.sql(
        "merge into t using (select 4L as id, 'm' as v, 'b/2' as p, date'2024-02-01' as d union all select 50L, 'n', 'b/1', null) s "
        "on t.id = s.id when matched then update set * when not matched then insert *"
    )


def expected_rows() -> list[tuple[Any, ...]]:
    table = {i: (i, "a", None if i % 3 == 0 else f"b/{i % 3}", datetime.date(2024, 1, 1 + i % 2)) for i in range(12) if i not in (2, 3)}
    table[1] = (1, "u", *table[1][2:])
    table[4], table[50] = (4, "m", "b/2", datetime.date(2024, 2, 1)), (50, "n", "b/1", None)
    return sorted(table.values(), key=str)


@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_all_files_are_in_random_folders_and_every_reader_finds_the_partitions(session: rowmerge.Session, mode: str) -> None:
    create_and_change(session, f"'rowmerge.write.mode' = '{mode}', 'delta.enableChangeDataFeed' = 'true'")
    folder = folder_of(session, "t")
    names = files(folder)
    data_files, change_files, vectors = ([name for name in names if form.fullmatch(name)] for form in (DATA_FILE, CHANGE_FILE, VECTOR_FILE))
    assert data_files and change_files and bool(vectors) == (mode == "merge-on-read")
    assert sorted([*data_files, *change_files, *vectors]) == names
    assert {add["path"] for add in actions(folder, "add")} == set(data_files)
    assert len({path[:4] for path in data_files}) > 1
    for vector in (add["deletionVector"] for add in actions(folder, "add") if "deletionVector" in add):
        assert vector["storageType"] == "u" and len(vector["pathOrInlineDv"]) == 24
        assert [name for name in vectors if name.startswith(vector["pathOrInlineDv"][:4] + "/")]
    assert_all_readers_agree(session, expected_rows())
    changes = rows(session, "select id, p, _change_type from table_changes('t', 2) where _change_type like 'update%'")
    assert [row for row in changes if row[0] == 4] == [(4, "b/1", "update_preimage"), (4, "b/2", "update_postimage")]


def test_maintenance_and_copies_of_tables_with_random_folders(session: rowmerge.Session) -> None:
    create_and_change(session, "'rowmerge.write.mode' = 'merge-on-read'")
    folder, expected = folder_of(session, "t"), expected_rows()
    session.sql("create table c shallow clone t")
    assert rows(session, "select id, v, p, d from c") == expected
    session.sql("update c set v = 'c' where id = 5")
    assert [row[1] for row in rows(session, "select id, v, p, d from c") if row[0] == 5] == ["c"]
    assert all(DATA_FILE.fullmatch(name) or VECTOR_FILE.fullmatch(name) for name in files(folder_of(session, "c")))
    session.sql("drop table c")
    session.sql("optimize t")
    assert_all_readers_agree(session, expected)
    session.sql("delete from t where p is null")
    session.sql("restore table t to version as of 5")
    assert_all_readers_agree(session, expected)
    orphan = folder / "Zz09" / "part-orphan.parquet"
    orphan.parent.mkdir(exist_ok=True)
    orphan.write_bytes(b"")
    os.utime(orphan, (0, 0))
    session.sql("set spark.databricks.delta.retentionDurationCheck.enabled = false")
    session.sql("vacuum t retain 0 hours")
    assert not orphan.exists()
    assert_all_readers_agree(session, expected)


def test_files_in_both_kinds_of_folders_are_read_together(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint, v string, p string, d date) using delta partitioned by (p, d)")
    session.sql("insert into t values (1, 'a', 'b/1', date'2024-01-01')")
    session.sql(f"alter table t set tblproperties ({PREFIXES})")
    session.sql("insert into t values (2, 'b', 'b/1', date'2024-01-01'), (3, 'c', null, null)")
    session.sql("alter table t set tblproperties ('delta.randomizeFilePrefixes' = 'false')")
    session.sql("insert into t values (4, 'd', 'b/2', date'2024-01-02')")
    forms = [bool(DATA_FILE.fullmatch(name)) for name in files(folder_of(session, "t"))]
    assert sorted(forms) == [False, False, True, True]
    expected = rows(session)
    assert [row[:3] for row in expected] == [(1, "a", "b/1"), (2, "b", "b/1"), (3, "c", None), (4, "d", "b/2")]
    assert_all_readers_agree(session, expected)


@pytest.mark.parametrize(("version", "format_version"), [("1.0.0", "1.0"), ("2.12.0", "2.6")])
def test_every_reader_reads_all_types_in_each_version_of_parquet(session: rowmerge.Session, version: str, format_version: str) -> None:
    session.sql(
        "create table t (id bigint, b boolean, i int, f double, n decimal(12, 3), w decimal(38, 10), s string, x binary, day date, "
        "at timestamp, l array<struct<k: string>>, m map<string, int>) using delta "
        f"tblproperties ('delta.parquet.format.version' = '{version}')"
    )
    session.sql(
        "insert into t select id, if(id % 5 = 0, null, id % 2 = 0), int(id), id / 7, id / 8, id / 9, "
        "if(id % 3 = 0, null, concat('ä', id % 9)), cast(string(id) as binary), date'1969-01-01' + int(id), "
        "timestamp_micros(id * 1000001), array(named_struct('k', string(id)), null), map('k', int(id)) from range(3000)"
    )
    session.sql("update t set s = 'updated', b = true where id = 8")
    paths = [folder_of(session, "t") / add["path"] for add in actions(folder_of(session, "t"), "add")]
    assert {pq.read_metadata(path).format_version for path in paths} == {format_version}
    spark_rows = session.sql("select * from t order by id").toArrow().to_pylist()
    assert len(spark_rows) == 3000 and spark_rows[8]["s"] == "updated"
    location = str(folder_of(session, "t"))
    assert rows_of(read_with_delta_rs(location, "id")) == rows_of(read_with_duckdb(location, "id"))
    assert [row["b"] for row in spark_rows] == read_with_duckdb(location, "id")["b"].to_pylist()
    assert [row["w"] for row in spark_rows] == read_with_duckdb(location, "id")["w"].to_pylist()
    assert [row["at"] for row in spark_rows] == read_with_delta_rs(location, "id")["at"].to_pylist()


TEXTS = ["", "a", "a" * 31 + "z", "a" * 40, "aé", "b\x7fc", "é" * 20, "z", "z😀😀", "😀", "😀😀b", "\U0010ffff", "\U0010ffff\U0010ffffx"]


@pytest.mark.parametrize("length", [0, 1, 2, 3, 50])
def test_string_bounds_have_the_length_of_the_property_and_exclude_no_match(session: rowmerge.Session, length: int) -> None:
    properties = f"tblproperties ('delta.dataSkippingStringPrefixLength' = '{length}')"
    session.sql(f"create table t (v string, d int) using delta {properties}")
    for text in TEXTS:
        session.sql(f"insert into t values ('{text}', 1)")
    statistics = [json.loads(add["stats"]) for add in actions(folder_of(session, "t"), "add")]
    lowest = {len(each["minValues"]["v"].encode("utf-16-le")) // 2 for each in statistics if "v" in each["minValues"]}
    assert max(lowest, default=0) == (40 if length == 50 else length)
    assert all("d" in each["minValues"] for each in statistics)
    folder = str(folder_of(session, "t"))
    for text in TEXTS:
        for operator in ("=", "<", ">=", ">"):
            query = f"select v from t where v {operator} '{text}'"
            compare = {"=": str.__eq__, "<": str.__lt__, ">=": str.__ge__, ">": str.__gt__}[operator]
            # Python, like Spark, compares code points.
            expected = sorted(value for value in TEXTS if compare(value, text))
            assert sorted(row.v for row in session.sql(query).collect()) == expected, query
            assert sorted(
                deltalake.QueryBuilder().register("t", deltalake.DeltaTable(folder)).execute(query).read_all()["v"].to_pylist()
            ) == (expected), query


def test_a_rewrite_uses_the_present_length_of_string_bounds(session: rowmerge.Session) -> None:
    session.sql("create table t (id int, v string) using delta tblproperties ('rowmerge.write.mode' = 'copy-on-write')")
    session.sql(f"insert into t values (1, '{'x' * 40}'), (2, '{'y' * 40}')")
    session.sql("alter table t set tblproperties ('delta.dataSkippingStringPrefixLength' = '5')")
    session.sql("update t set id = 3 where id = 1")
    bounds = [json.loads(add["stats"])["minValues"]["v"] for add in actions(folder_of(session, "t"), "add")]
    assert (len(bounds[0]), {len(bound) for bound in bounds[1:]}) == (32, {5})
    with pytest.raises(ConfigurationError, match=r"dataSkippingStringPrefixLength is '-1'\. Set it to a whole number from 0"):
        session.sql("alter table t set tblproperties ('delta.dataSkippingStringPrefixLength' = '-1')")


@pytest.mark.parametrize("codec", ["zstd", "snappy", "gzip", "lz4", "uncompressed"])
def test_data_files_have_the_codec_of_the_table(session: rowmerge.Session, codec: str) -> None:
    session.sql(f"create table t (id bigint, v string) using delta tblproperties ('delta.parquet.compression.codec' = '{codec}')")
    session.sql("insert into t select id, concat('v', id) from range(100)")
    session.sql("update t set v = 'updated' where id = 1")
    folder = folder_of(session, "t")
    paths = [folder / add["path"] for add in actions(folder, "add")]
    codecs = {pq.read_metadata(path).row_group(0).column(1).compression for path in paths}
    assert len(paths) > 1 and codecs == {codec.upper()}
    assert rows_of(read_with_delta_rs(str(folder), "id")) == rows_of(read_with_duckdb(str(folder), "id"))
