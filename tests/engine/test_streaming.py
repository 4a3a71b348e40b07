"""Streams with the format `rowmerge`: what they write and read, and what they reject. docs/streaming.md describes them."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import cloudpickle
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.datasource import CaseInsensitiveDict, InputPartition
from pyspark.sql.types import StructType

import rowmerge
from pyspark_rowmerge import DefaultSource
from rowmerge import errors
from rowmerge.streaming.source import TableReader, TableStreamReader, table_schema
from rowmerge.streaming.spark_versions import check_pyspark, check_read_limit
from rowmerge.streaming.writing import TableStreamWriter
from tests.support.examples import examples_of

pytestmark = pytest.mark.one_of("format_")
FORMATS = pytest.mark.parametrize("format_", ["delta", "iceberg"])
COLUMNS = "id bigint not null, day date, n struct<a: int, `b c`: array<map<string, timestamp>>>, amount decimal(10, 2)"
ROWS = (
    "select id, date_add(date'2024-01-01', cast(id % 3 as int)) as day, named_struct('a', cast(id as int), 'b c', "
    "array(map('k', timestamp_seconds(id)))) as n, cast(id as decimal(8, 2)) as amount from range({}, {})"
)


def options(session: rowmerge.Session, name: str = "t", **others: str) -> dict[str, str]:
    return {"path": session.describe("default", name).location, **others}


def files_of(session: rowmerge.Session, name: str) -> set[Path]:
    """Return the data files in the folder of a table, also those that no version needs."""
    folder = Path(session.describe("default", name).location.removeprefix("file://"))
    return {path for path in folder.rglob("*.parquet") if "_delta_log" not in path.parts}


def create(session: rowmerge.Session, name: str, format_: str, partitioning: str = "") -> None:
    """Create a table with COLUMNS. In Delta, the name of a field needs column mapping."""
    properties = "tblproperties ('delta.columnMapping.mode' = 'name')" if format_ == "delta" else ""
    session.sql(f"create table {name} ({COLUMNS}) using {format_} {partitioning} {properties}")


def batches(session: rowmerge.Session, folder: Path, count: int, query: str = ROWS) -> DataFrame:
    """Return a stream of `count` batches of ten rows."""
    folder.mkdir(exist_ok=True)
    for number in range(len(list(folder.iterdir())), count):
        rows = session.spark.sql(query.format(10 * number, 10 * number + 10))
        pq.write_table(rows.toArrow(), folder / f"{number}.parquet")
    schema = session.spark.sql(query.format(0, 1)).schema
    return session.spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(folder))


def append(frame: DataFrame, checkpoint: Path, settings: Mapping[str, str]) -> None:
    """Run a stream into a table until its source has no more rows."""
    writer = frame.writeStream.format("rowmerge").options(**settings).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination()


def ids(session: rowmerge.Session, name: str = "t") -> list[int]:
    return sorted(row["id"] for row in session.table(name).select("id").collect())


class Reads:
    """A stream of a table's new rows, whose reader is called as Spark calls it."""

    def __init__(self, session: rowmerge.Session, name: str = "t", schema: StructType | None = None, **others: str) -> None:
        values = {key.lower(): value for key, value in options(session, name).items()}
        self.reader = TableStreamReader(values | {key.lower(): value for key, value in others.items()}, schema or table_schema(values))
        self.offset = self.reader.initialOffset()

    def next(self) -> list[int]:
        """Return the ids of the next batch. The offsets pass through JSON, as in a checkpoint."""
        end = self.reader.latestOffset(self.offset, self.reader.getDefaultReadLimit())
        start, self.offset = json.loads(json.dumps(self.offset)), json.loads(json.dumps(end))
        return sorted(id_ for partition in self.reader.partitions(start, self.offset) for id_ in self._ids(partition))

    def _ids(self, partition: InputPartition) -> Iterator[int]:
        return (id_ for batch in self.reader.read(partition) for id_ in batch["id"].to_pylist())


@FORMATS
def test_a_stream_appends_rows_and_reads_return_them(session: rowmerge.Session, tmp_path: Path, format_: str) -> None:
    create(session, "t", format_, "partitioned by (day)")
    append(batches(session, tmp_path / "source", 3), tmp_path / "checkpoint", options(session, txnAppId="app"))
    assert ids(session) == list(range(30))
    operations = [row["operation"] for row in session.sql("describe history t").collect()]
    assert operations.count("STREAMING UPDATE") == 3
    session.sql("delete from t where id = 7")
    reader = session.spark.read.format("rowmerge").options(**options(session))
    expected = sorted(map(str, session.table("t").collect()))
    assert sorted(map(str, reader.load().collect())) == expected and len(expected) == 29
    assert reader.load().schema == session.table("t").schema
    subset = session.spark.read.format("rowmerge").schema("amount decimal(10, 2), id bigint").options(**options(session)).load()
    assert sorted(map(str, subset.collect())) == sorted(map(str, session.table("t").select("amount", "id").collect()))


@FORMATS
def test_a_read_returns_the_version_of_an_option(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    session.sql("insert into t values (1)")
    old = session.describe("default", "t").version
    time.sleep(0.01)
    moment = time.time_ns() // 1_000_000
    time.sleep(0.01)
    session.sql("insert into t values (2)")
    for name, text in (("versionasof", str(old)), ("timestampasof", str(moment)), ("timestampasof", _utc(moment))):
        assert read({**options(session), name: text}) == [1]


def _utc(moment: int) -> str:
    return datetime.fromtimestamp(moment / 1000, timezone.utc).isoformat()


def read(values: Mapping[str, str]) -> list[int]:
    """Return the ids that the reader of one version returns, without Spark."""
    reader = TableReader(values, table_schema(values))
    return sorted(id_ for partition in reader.partitions() for batch in reader.read(partition) for id_ in batch["id"].to_pylist())


@FORMATS
def test_a_batch_that_runs_again_commits_nothing_and_leaves_no_files(session: rowmerge.Session, tmp_path: Path, format_: str) -> None:
    create(session, "t", format_)
    frame, checkpoint = batches(session, tmp_path / "source", 2), tmp_path / "checkpoint"
    append(frame, checkpoint, options(session, txnAppId="app"))
    version, files = session.describe("default", "t").version, files_of(session, "t")
    # Without the record of the last batch, Spark runs it again, as after a kill between the two commits.
    (checkpoint / "commits" / "1").unlink()
    (checkpoint / "commits" / ".1.crc").unlink(missing_ok=True)
    append(frame, checkpoint, options(session, txnAppId="app"))
    assert session.describe("default", "t").version == version and files_of(session, "t") == files
    shutil.rmtree(checkpoint)
    with pytest.raises(StreamingQueryException, match="has a later batch of the txnAppId 'app' than batch 0"):
        append(frame, checkpoint, options(session, txnAppId="app"))
    assert session.describe("default", "t").version == version and files_of(session, "t") == files


@FORMATS
def test_merge_schema_adds_the_columns_of_a_stream(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    values, schema = {"path": options(session)["path"], "txnappid": "app"}, StructType.fromDDL("id bigint, twice bigint")
    with pytest.raises(errors.UnknownColumn, match="There is no column `twice` in the table"):
        TableStreamWriter(values, schema, overwrite=False).write(iter(()))
    for batch in range(2):
        writer = TableStreamWriter({**values, "mergeschema": "true"}, schema, overwrite=False)
        writer.commit([writer.write(iter([pa.record_batch({"id": [batch], "twice": [2 * batch]})]))], batch)
    assert sorted(session.table("t").collect()) == [(0, 0), (1, 2)]


@FORMATS
def test_a_stream_reads_new_rows_of_a_table_into_another_one(session: rowmerge.Session, tmp_path: Path, format_: str) -> None:
    create(session, "t", format_, "partitioned by (day)")
    create(session, "u", format_)
    for number in range(2):
        session.sql(f"insert into t {ROWS.format(10 * number, 10 * number + 10)}")
    frame = session.spark.readStream.format("rowmerge").options(**options(session), maxFilesPerTrigger="2").load()
    append(frame, tmp_path / "checkpoint", options(session, "u", txnAppId="copy"))
    assert ids(session, "u") == list(range(20))
    session.sql("optimize t")
    session.sql(f"insert into t {ROWS.format(20, 30)}")
    append(frame, tmp_path / "checkpoint", options(session, "u", txnAppId="copy"))
    assert sorted(map(str, session.table("u").collect())) == sorted(map(str, session.table("t").collect()))
    session.sql("delete from t where id = 3")
    with pytest.raises(StreamingQueryException, match=r"The stream cannot read version \d+ of .*DELETE removes or changes rows"):
        append(frame, tmp_path / "checkpoint", options(session, "u", txnAppId="copy"))


@FORMATS
def test_the_batches_of_a_stream_have_the_limit_and_order_of_versions(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    session.sql("insert into t select /*+ repartition(3) */ id from range(3)")
    whole, limited = Reads(session), Reads(session, maxFilesPerTrigger="2")
    assert whole.next() == [0, 1, 2] and whole.next() == []
    assert len(limited.next()) == 2 and len(limited.next()) == 1
    latest = Reads(session, startingVersion="latest")
    session.sql("insert into t values (3)")
    session.sql("insert into t values (4)")
    assert limited.next() == [3, 4] and limited.next() == [] and whole.next() == [3, 4] and latest.next() == [3, 4]
    session.sql("optimize t")
    assert whole.next() == [] and whole.next() == []
    session.sql("insert into t values (5)")
    session.sql("update t set id = 30 where id = 3")
    version = session.describe("default", "t").version
    session.sql("insert into t values (6)")
    assert whole.next() == [5]
    with pytest.raises(errors.RowsChanged, match="operation UPDATE") as error:
        whole.next()
    assert error.value.version == version
    skipping = Reads(session, startingVersion=str(version), skipChangeCommits="true")
    assert skipping.next() == [6]


@FORMATS
@pytest.mark.parametrize("start", [{}, {"startingVersion": "latest"}])
def test_a_first_batch_that_runs_again_has_the_same_rows(session: rowmerge.Session, format_: str, start: Mapping[str, str]) -> None:
    """After a restart without a committed batch, Spark asks for the initial offset again. Meanwhile, the table has got new rows."""
    session.sql(f"create table t (id bigint) using {format_}")
    stream = Reads(session, **start)
    assert stream.next() == []
    session.sql("insert into t values (1)")
    restarted = Reads(session, **start)
    assert [*restarted.reader.partitions(restarted.offset, stream.offset)] == []
    restarted.offset = stream.offset
    assert restarted.next() == [1] and stream.next() == [1]


@FORMATS
def test_a_stream_begins_at_a_version_or_a_time(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    versions, times = [], []
    for number in range(3):
        time.sleep(0.01)
        times.append(time.time_ns() // 1_000_000)
        time.sleep(0.01)
        session.sql(f"insert into t values ({number})")
        versions.append(session.describe("default", "t").version)
    assert Reads(session, startingVersion=str(versions[1])).next() == [1, 2]
    assert Reads(session, startingTimestamp=str(times[2])).next() == [2]
    assert Reads(session, **{"stream-from-timestamp": str(times[0])}).next() == [0, 1, 2]
    with pytest.raises(errors.VersionNotFound, match="no version at or after startingTimestamp"):
        Reads(session, startingTimestamp="2999-01-01T00:00:00Z")
    with pytest.raises(errors.VersionNotFound):
        Reads(session, startingVersion="123456789")


@FORMATS
def test_a_stream_of_available_rows_ends_at_the_version_at_its_start(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    session.sql("insert into t values (1)")
    stream = Reads(session, startingVersion="latest")
    session.sql("insert into t values (2)")
    stream.reader.prepareForTriggerAvailableNow()
    session.sql("insert into t values (3)")
    assert stream.next() == [2]


@FORMATS
def test_a_stream_stops_at_other_columns_another_table_and_a_missing_version(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    session.sql("insert into t values (1)")
    stream, narrow = Reads(session), Reads(session, schema=StructType.fromDDL("id bigint"))
    assert stream.next() == [1]
    session.sql("alter table t add columns (v int)")
    with pytest.raises(errors.IncompatibleSchemaChange, match="new column `v`"):
        stream.next()
    assert Reads(session).next() == [1] and narrow.reader is not None
    old = Reads(session, startingVersion="latest")
    for number in range(3):
        session.sql(f"insert into t values ({number}, 0)")
    if format_ == "delta":
        log = Path(session.describe("default", "t").location.removeprefix("file://"), "_delta_log")
        session.sql("alter table t set tblproperties ('delta.checkpointInterval' = '1')")
        session.sql("insert into t values (9, 9)")
        for path in sorted(log.glob("*.json"))[:4]:
            path.unlink()
    else:
        session.sql("call system.expire_snapshots(table => 'default.t', older_than => timestamp'2999-01-01', retain_last => 1)")
    with pytest.raises(errors.VersionNotFound, match=r"log was cleaned|is not in the history"):
        old.next()
    session.sql("drop table t")
    session.sql(f"create table t (id bigint, v int) using {format_}")
    with pytest.raises(errors.TableRecreated, match="belongs to another table"):
        old.next()


@FORMATS
def test_a_batch_of_an_older_definition_fails_and_leaves_no_files(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    schema, files = StructType.fromDDL("id bigint"), files_of(session, "t")
    values = {"path": options(session)["path"], "txnappid": "app"}
    message = TableStreamWriter(values, schema, overwrite=False).write(iter([pa.record_batch({"id": pa.array([1])})]))
    assert files_of(session, "t") != files
    session.sql("alter table t add columns (v int)")
    with pytest.raises(errors.MetadataChanged, match="definition of the table has changed"):
        TableStreamWriter(values, schema, overwrite=False).commit([message], 0)
    assert ids(session) == [] and files_of(session, "t") == files
    writer = TableStreamWriter(values, schema, overwrite=False)
    writer.abort([writer.write(iter([pa.record_batch({"id": pa.array([1])})])), None], 0)
    assert files_of(session, "t") == files


@FORMATS
def test_two_runs_of_one_batch_at_the_same_time_commit_it_once(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    schema, values = StructType.fromDDL("id bigint"), {"path": options(session)["path"], "txnappid": "app"}
    first, second = (TableStreamWriter(values, schema, overwrite=False) for _ in range(2))
    messages = [writer.write(iter([pa.record_batch({"id": pa.array([1])})])) for writer in (first, second)]
    with ThreadPoolExecutor() as threads:
        commits = [threads.submit(writer.commit, [message, None], 3) for writer, message in zip((first, second), messages, strict=True)]
    assert [commit.result() for commit in commits] == [None, None]
    assert ids(session) == [1] and len(files_of(session, "t")) == 1


def test_a_read_fills_columns_that_older_files_lack(session: rowmerge.Session) -> None:
    session.sql("create table t (id bigint) using iceberg tblproperties ('format-version' = '3')")
    session.sql("insert into t values (1)")
    defaults = ("a int default 3", "b string default 'it\\'s'", "c date default date'2024-01-31'", "d decimal(5, 2) default 1.5")
    session.sql(f"alter table t add columns ({', '.join(defaults)}, e boolean default true, f double default 2.5, g int)")
    session.sql("insert into t (id, g) values (2, 7)")
    expected = session.table("t").orderBy("id").toArrow()
    reader = TableReader(options(session), table_schema(options(session)))
    rows = pa.Table.from_batches(batch for partition in reader.partitions() for batch in reader.read(partition)).sort_by("id")
    assert rows.to_pylist() == expected.to_pylist() and rows["a"].to_pylist() == [3, 3]


EXECUTOR = """
import sys
import pyarrow as pa
from pyspark import cloudpickle
sys.modules["rowmerge"] = sys.modules["pyspark_rowmerge"] = None
source, reader, partitions, writer = cloudpickle.load(open(sys.argv[1], "rb"))
assert source.name() == "rowmerge"
ids = sorted(id_ for partition in partitions for batch in reader.read(partition) for id_ in batch["id"].to_pylist())
message = writer.write(iter([pa.record_batch({"id": pa.array([3, 4])})]))
cloudpickle.dump((ids, message), open(sys.argv[2], "wb"))
"""


@FORMATS
def test_executors_read_and_write_without_rowmerge(session: rowmerge.Session, tmp_path: Path, format_: str) -> None:
    session.sql(f"create table t (id bigint) using {format_}")
    session.sql("insert into t values (1), (2)")
    values, schema = options(session), StructType.fromDDL("id bigint")
    source = DefaultSource(CaseInsensitiveDict(values))
    writer = DefaultSource(CaseInsensitiveDict({**values, "txnAppId": "app"})).streamWriter(schema, False)
    for reader in (source.reader(schema), source.streamReader(schema)):
        arguments = (reader.initialOffset(), reader.latestOffset()) if isinstance(reader, TableStreamReader) else ()
        partitions, job, answer = reader.partitions(*arguments), tmp_path / "job", tmp_path / "answer"
        job.write_bytes(cloudpickle.dumps((source, reader, partitions, writer)))
        subprocess.run([sys.executable, "-c", EXECUTOR, str(job), str(answer)], check=True)
        read_ids, message = cloudpickle.loads(answer.read_bytes())
        assert read_ids == [1, 2]
    writer.commit([message], 0)
    assert ids(session) == [1, 2, 3, 4]


TABLES = {
    "generated column `d`": "create table t (id bigint, d bigint generated always as (id * 2)) using delta",
    "CHECK constraint positive": "create table t (id bigint, constraint positive check (id > 0)) using delta",
    "default of the column `v`": "create table t (id bigint, v int default 3) using {format_}",
    "length of the column `v`, varchar(3)": "create table t (id bigint, v varchar(3)) using delta",
}


@pytest.mark.parametrize("feature", TABLES)
def test_a_stream_into_a_table_whose_rules_need_spark_is_rejected(bare_session: rowmerge.Session, feature: str) -> None:
    format_ = "iceberg" if "{format_}" in TABLES[feature] else "delta"
    properties = " tblproperties ('format-version' = '3')" if format_ == "iceberg" else ""
    bare_session.sql(TABLES[feature].format(format_=format_) + properties)
    values = {"path": options(bare_session)["path"], "txnappid": "app"}
    with pytest.raises(errors.UnsupportedTableFeature, match="foreachBatch") as error:
        TableStreamWriter(values, StructType.fromDDL("id bigint"), overwrite=False).write(iter(()))
    assert error.value.feature.startswith(feature)


@FORMATS
def test_rows_and_columns_that_do_not_fit_are_rejected(session: rowmerge.Session, format_: str) -> None:
    session.sql(f"create table t (id bigint not null, s struct<a: int not null, b: int>, v string, d double) using {format_}")
    values, files = {"path": options(session)["path"], "txnappid": "app"}, files_of(session, "t")

    def write(ddl: str, *rows: Mapping[str, Any]) -> Any:
        batch = pa.RecordBatch.from_pylist(list(rows), pa.schema([("id", pa.int32()), ("d", pa.float32())])) if rows else None
        return TableStreamWriter(values, StructType.fromDDL(ddl), overwrite=False).write(iter([batch] if batch else []))

    for ddl, message in (("id bigint, v int", "`v` of the stream has the type int"), ("id string", "Cast the column"), ("x int", "`x`")):
        with pytest.raises(errors.PlanError, match=message):
            write(ddl)
    with pytest.raises(ValueError, match="violates NOT NULL of column `id`"):
        write("id int, d float", {"id": None, "d": 1.0})
    with pytest.raises(ValueError, match="violates NOT NULL of column `s.a`"):
        write("id int, d float", {"id": 1, "d": 1.0})
    assert files_of(session, "t") == files


REJECTED: Sequence[tuple[str, Mapping[str, str], str]] = (
    ("schema", {"pth": "/x"}, "no option pth here. Did you mean `path`"),
    ("schema", {}, "must name one table"),
    ("schema", {"path": "/x", "table": "t"}, "must name one table"),
    ("schema", {"table": "t"}, "needs the catalog or the warehouse"),
    ("schema", {"path": "/nowhere/rowmerge"}, "There is no table for"),
    ("schema", {"path": "/x", "warehouse": "/y"}, "set table instead"),
    ("schema", {"table": "a.b.c", "warehouse": "/y"}, "Set it to schema.table"),
    ("reader", {"startingversion": "1"}, "no option startingversion here"),
    ("reader", {"versionasof": "1", "timestampasof": "1"}, "both name a version"),
    ("reader", {"versionasof": "x"}, "whole number"),
    ("reader", {"timestampasof": "2024-01-01"}, "with an offset"),
    ("streamReader", {"ignorechanges": "true"}, "skipChangeCommits"),
    ("streamReader", {"versionasof": "1"}, "no option versionasof here"),
    ("streamReader", {"maxfilespertrigger": "0"}, "1 or greater"),
    ("streamReader", {"maxfilespertrigger": "1", "streaming-max-files-per-micro-batch": "1"}, "mean the same"),
    ("streamReader", {"skipchangecommits": "yes"}, "true or false"),
    ("streamWriter", {}, "txnAppId is missing"),
    ("streamWriter", {"txnappid": "a", "txnversion": "1"}, "Set only txnAppId"),
)


@pytest.mark.parametrize(("method", "values", "message"), REJECTED)
def test_options_are_rejected_by_name(bare_session: rowmerge.Session, method: str, values: Mapping[str, str], message: str) -> None:
    schema = StructType.fromDDL("id bigint")
    if method != "schema":
        bare_session.sql("create table t (id bigint) using delta")
        values = {"path": options(bare_session)["path"], **values}
    arguments = {"schema": (), "streamWriter": (schema, False)}.get(method, (schema,))

    def run() -> None:
        reader = getattr(DefaultSource(dict(values)), method)(*arguments)
        if isinstance(reader, TableStreamReader):
            reader.initialOffset()

    with pytest.raises(errors.RowmergeError) as error:
        run()
    assert message in str(error.value)


def test_complete_batches_and_batch_writes_are_rejected(bare_session: rowmerge.Session) -> None:
    bare_session.sql("create table t (id bigint) using delta")
    with pytest.raises(errors.ConfigurationError, match="output mode append"):
        DefaultSource(options(bare_session, txnappid="a")).streamWriter(StructType(), True)
    with pytest.raises(errors.UnsupportedStatement, match=r"session\.write"):
        DefaultSource({}).writer(StructType(), False)


@FORMATS
def test_a_table_is_named_in_a_warehouse_or_a_catalog(spark: Any, tmp_path: Path, format_: str) -> None:
    warehouse = tmp_path / "warehouse"
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db"} if format_ == "iceberg" else None
    session = rowmerge.connect(str(warehouse), catalog=catalog, spark=spark)
    session.sql("create schema shop")
    session.sql(f"create table shop.`Order` (id bigint) using {format_}")
    names = {"table": "shop.`order`", "warehouse": str(warehouse), **{f"catalog.{name}": value for name, value in (catalog or {}).items()}}
    append(batches(session, tmp_path / "source", 2, "select id from range({}, {})"), tmp_path / "checkpoint", {**names, "txnAppId": "app"})
    assert ids(session, "shop.order") == list(range(20))
    assert read({name.lower(): value for name, value in names.items()}) == list(range(20))


def test_the_programs_of_the_page_run(spark: Any, tmp_path: Path) -> None:
    names: dict[str, Any] = {"spark": spark}
    for block in examples_of("test_the_programs_of_the_page_run"):
        text = block.text.replace("/tmp/streams", str(tmp_path)).replace("connect(warehouse)", "connect(warehouse, spark=spark)")
        exec(compile(text, str(block), "exec"), names)  # the blocks are one program
        if (query := names.pop("query", None)) is not None:
            deadline = time.monotonic() + 120
            while (query.lastProgress or {}).get("batchId", 0) < 2 and query.isActive and time.monotonic() < deadline:
                time.sleep(0.1)
            query.stop()
            assert query.exception() is None
    session = names["session"]
    table_ids = ids(session, "shop.events")
    assert table_ids == list(range(len(table_ids))) and len(table_ids) > 10
    operations = {row["operation"] for row in session.sql("describe history shop.events").collect()}
    assert operations == {"CREATE TABLE", "STREAMING UPDATE", "MERGE"}
    assert names["rows"].count() == len(table_ids) and names["new_rows"].isStreaming


def test_an_older_pyspark_is_rejected_by_name() -> None:
    check_pyspark("4.1.0")
    with pytest.raises(errors.SparkTooOld, match=r"The format rowmerge needs PySpark 4\.1 or newer, but the installed version is 4\.0\.2"):
        check_pyspark("4.0.2")
    with pytest.raises(errors.SparkTooOld, match=r"maxFilesPerTrigger needs PySpark 4\.2"):
        check_read_limit("maxFilesPerTrigger", "4.1.4")
