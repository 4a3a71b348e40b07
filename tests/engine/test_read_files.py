"""`read_files(…)`: files and tables by path in place of a table name."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import rowmerge
from rowmerge.errors import FilesNotFound, PlanError, Unparsable, UnsupportedStatement

pytestmark = pytest.mark.one_of("format_")


def rows(session, query):
    return sorted(tuple(row) for row in session.sql(query).collect())


@pytest.fixture
def folder(tmp_path):
    """Return a folder with a blank, a quote and a backquote in its name."""
    files_folder = tmp_path / "it's `odd`"
    files_folder.mkdir()
    (files_folder / "a.csv").write_text("id;v\n1;x\n2;y\n")
    (files_folder / "b.json").write_text('{"id": 1, "v": "x"}\n')
    pq.write_table(pa.table({"id": [1, 2]}), files_folder / "c.parquet")
    return str(files_folder).replace("'", "\\'")


def test_files_are_read_with_options_names_and_aliases(session, folder):
    csv = f"read_files('{folder}/a.csv', header => true, sep => ';', inferSchema => 'true')"
    assert rows(session, f"select * from {csv}") == [(1, "x"), (2, "y")]
    assert rows(session, f"select f.v from {csv} as f join read_files('{folder}/c.parquet') p on p.id = f.id") == [("x",), ("y",)]
    assert rows(session, f"select read_files.id from read_files('{folder}/*.json')") == [(1,)]
    parquet_call = f"read_files('{folder}/c.parquet', name => 'raw.orders')"
    assert rows(session, f"select raw.orders.id, orders.id from {parquet_call} where orders.id > 1") == [(2, 2)]
    csv_call = f"read_files('{folder}/a.csv', format => 'CSV', header => 'true', delimiter => ';', schema => 'id string, `v` string')"
    assert rows(session, f"with read as (select * from {csv_call}) select id from read") == [("1",), ("2",)]


def test_a_view_over_files_reads_files_added_later(session, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/a.csv").write_text("1\n")
    session.sql(f"create view v as select * from read_files('{tmp_path}/in/*.csv')")
    assert rows(session, "select * from v") == [("1",)]
    (tmp_path / "in/b.csv").write_text("2\n")
    assert rows(session, "select * from v") == [("1",), ("2",)]
    session.sql("create table t using delta as select * from v")
    session.sql(f"merge into t using read_files('{tmp_path}/in/b.csv') s on t._c0 = s._c0 when matched then delete")
    assert rows(session, "select * from t") == [("1",)]


@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_table_of_another_warehouse_is_read_by_its_path(session, tmp_path, format_):
    other = rowmerge.connect(str(tmp_path / "other"), spark=session.spark)
    other.sql(f"create table t using {format_} as select 1 as id")
    first = other.sql("describe history t").collect()[0]["version"]
    other.sql("insert into t values (2)")
    path = other.describe("default", "t").location
    assert rows(session, f"select id from read_files('{path}', format => '{format_}')") == [(1,), (2,)]
    assert rows(session, f"select id from read_files('{path}', format => '{format_}', versionAsOf => {first})") == [(1,)]
    other.sql("delete from t where id = 1")
    assert rows(session, f"select t.id from read_files('{path}', format => '{format_}', name => 't')") == [(2,)]
    with pytest.raises(UnsupportedStatement, match="does not support header"):
        session.sql(f"select * from read_files('{path}', format => '{format_}', header => true)")
    with pytest.raises(FilesNotFound, match=f"There is no {format_} table for"):
        session.sql(f"select * from read_files('{path}/no', format => '{format_}')")
    with pytest.raises(PlanError, match="is 'one', which is not a version"):
        session.sql(f"select * from read_files('{path}', format => '{format_}', versionAsOf => 'one')")


def test_unreadable_paths_and_formats_are_reported(session, folder, tmp_path):
    with pytest.raises(FilesNotFound, match=r"There is no file for raw.orders \(/no/such.csv\). Check the path"):
        session.sql("select * from read_files('/no/such.csv', name => 'raw.orders')")
    with pytest.raises(UnsupportedStatement, match="does not support the format parqet. Did you mean parquet"):
        session.sql(f"select * from read_files('{folder}/a.csv', format => 'parqet')")
    with pytest.raises(Unparsable, match="cannot infer the format of /data. Add format =>"):
        session.sql("select * from read_files('/data')")
    with pytest.raises(Unparsable, match="The option SEP occurs twice"):
        session.sql(f"select * from read_files('{folder}/a.csv', sep => ';', SEP => ',')")
    (tmp_path / "x.avro").write_bytes(b"Obj")
    with pytest.raises(UnsupportedStatement, match=r"spark.jars.packages = org.apache.spark:spark-avro"):
        session.sql(f"select * from read_files('{tmp_path}/x.avro')")
