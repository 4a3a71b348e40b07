"""Write the golden Iceberg tables with Iceberg on Spark from tables.sql and the functions of this module, with the rows that it reads.

Run as `ROWMERGE_ICEBERG_JAR=…/iceberg-spark-runtime-4.1_2.13-1.12.0.jar python -m tests.golden.iceberg.make [table …]`, from the root of
the repository, in an environment with the development dependencies and the PySpark that the jar requires (4.1).
Without names, every table is written again.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from tests.golden.iceberg.tables import FOLDER, comparable

WAREHOUSE = Path("/tmp/golden-iceberg")
"""Where the tables say that they are."""
MERGE_ON_READ = ", ".join(f"'write.{what}.mode' = 'merge-on-read'" for what in ("delete", "update", "merge"))


def main(names: list[str]) -> None:
    shutil.rmtree(WAREHOUSE, ignore_errors=True)
    spark = start_spark(os.environ["ROWMERGE_ICEBERG_JAR"])
    for name, steps in sections((FOLDER.parent / "tables.sql").read_text(encoding="utf-8")).items():
        if not names or name in names:
            make(spark, name, steps)
    spark.stop()


def start_spark(jar: str) -> SparkSession:
    settings = {
        "spark.jars": jar,
        "spark.driver.extraClassPath": jar,
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.w": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.w.type": "hadoop",
        "spark.sql.catalog.w.warehouse": str(WAREHOUSE),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        # Deletes that were cached before a column was widened no longer apply afterwards.
        "spark.sql.iceberg.executor-cache.enabled": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
    }
    builder = SparkSession.builder.master("local[1]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def sections(text: str) -> dict[str, list[str]]:
    """Return the steps of each table: statements, and `java: …` for a function of this module."""
    steps_by_table: dict[str, list[str]] = {}
    for part in re.split(r"^-- table: ", text, flags=re.MULTILINE)[1:]:
        name, _, body = part.partition("\n")
        body = re.sub(r"^-- (java: \w+)$", r"\1;", body, flags=re.MULTILINE)
        steps_by_table[name.strip()] = [step.strip() for step in re.split(r";\n", body + "\n") if step.strip()]
    return steps_by_table


def make(spark: SparkSession, name: str, steps: list[str]) -> None:
    table = f"w.db.{name}"
    for step in steps:
        if step.startswith("java: "):
            FUNCTIONS[step.removeprefix("java: ")](spark, name)
        else:
            spark.sql(step.rstrip(";").replace("{t}", table).replace("{mor}", MERGE_ON_READ))
    spark.sql(f"refresh table {table}")
    rows = spark.table(table).toArrow()
    ids = [row[0] for row in spark.sql(f"select snapshot_id from {table}.snapshots").collect()]
    snapshots = {str(each): comparable(spark.sql(f"select * from {table} version as of {each}").toArrow()) for each in ids}
    content = {"columns": rows.column_names, "rows": comparable(rows), "snapshots": snapshots}
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(content, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    with tarfile.open(FOLDER / f"{name}.tar.xz", "w:xz") as archive:
        archive.add(WAREHOUSE / "db" / name, arcname=".", filter=without_machine_details)


def without_machine_details(entry: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Return the archive without Hadoop's checksum files, and without times and user names."""
    if entry.name.endswith((".crc", "_SUCCESS")):
        return None
    entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
    return entry


def iceberg(spark: SparkSession, name: str) -> tuple[Any, Any]:
    """Return the package org.apache.iceberg in the JVM, and the table in it."""
    package = spark.sparkContext._jvm.org.apache.iceberg
    return package, package.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"w.db.{name}")


def uuid_and_fixed(spark: SparkSession, name: str) -> None:
    package, table = iceberg(spark, name)
    types = package.types.Types
    table.updateSchema().addColumn("u", types.UUIDType.get()).addColumn("fx", types.FixedType.ofLength(4)).commit()
    spark.sql(f"refresh table w.db.{name}")


def defaults(spark: SparkSession, name: str) -> None:
    """Add columns with initial defaults, and change the write default of one of them."""
    package, table = iceberg(spark, name)
    types, literal = package.types.Types, package.expressions.Expressions.lit
    day = literal("2019-05-06").to(types.DateType.get())
    change = table.updateSchema()
    change = change.addColumn("n", types.IntegerType.get(), None, literal(7)).addColumn(
        "s", types.StringType.get(), None, literal("initial")
    )
    change = change.addColumn("d", types.DateType.get(), None, day).addColumn("x", types.DoubleType.get(), None, literal(2.5))
    change.commit()
    table.updateSchema().updateColumnDefault("n", literal(8)).commit()
    spark.sql(f"refresh table w.db.{name}")


def plain_files(spark: SparkSession, name: str) -> None:
    folder = f"{WAREHOUSE}/db/{name}/data/plain"
    query = (
        "select id, concat('v', id) v, named_struct('a', cast(id as int), 'b', 'b') s, array(named_struct('x', cast(id as int))) l "
        "from range(2, 5)"
    )
    spark.sql(query).coalesce(1).write.parquet(folder)
    spark.sql(f"call w.system.add_files(table => 'db.{name}', source_table => '`parquet`.`{folder}`')")


def plain_partitioned_files(spark: SparkSession, name: str) -> None:
    """Write data files without the partition columns."""
    folder = f"{WAREHOUSE}/db/{name}/data/plain"
    query = (
        "select id, concat('v', id) v, if(id = 4, null, if(id % 2 = 0, 'a', 'b c')) p, "
        "date_add(date'2024-01-01', cast(id as int)) d from range(1, 5)"
    )
    spark.sql(query).coalesce(1).write.partitionBy("p", "d").parquet(folder)
    spark.sql(f"call w.system.add_files(table => 'db.{name}', source_table => '`parquet`.`{folder}`')")


def equality_global(spark: SparkSession, name: str) -> None:
    """Write as Flink does: an upsert deletes by key and adds rows in one commit, then deletes by other columns with NULL keys."""
    commit(spark, name, adds=[(1, "a", "upserted"), (5, None, "new")], deletes={("id",): [(1,), (5,)]})
    commit(spark, name, deletes={("k",): [(None,)], ("k", "v"): [("b", "old"), ("c", "other")]})
    commit(spark, name, adds=[(3, None, "after"), (2, "b", "old")])
    spark.sql(f"refresh table w.db.{name}")
    spark.sql(f"delete from w.db.{name} where id = 2")


def equality_partitioned(spark: SparkSession, name: str) -> None:
    commit(spark, name, deletes={("id",): [(1,)]}, partition=("a",))
    commit(spark, name, deletes={("id",): [(2,), (3,)], ("v",): [("v3",)]}, partition=(None,))
    commit(spark, name, adds=[(1, "a", "again")], partition=("a",))
    commit(spark, name, deletes={("v", "p"): [("v3", "b"), ("again", "a")]}, partition=("b",))


def equality_evolved(spark: SparkSession, name: str) -> None:
    """Write global deletes of an unpartitioned spec; their columns are renamed, widened and dropped afterwards."""
    table = f"w.db.{name}"
    commit(spark, name, deletes={("id",): [(1,), (3,)]}, partition=("a",))
    spark.sql(f"refresh table {table}")
    spark.sql(f"alter table {table} drop partition field truncate(1, k)")
    commit(spark, name, deletes={("k",): [("b3",)]})
    spark.sql(f"refresh table {table}")
    spark.sql(f"insert into {table} values (5, 'c5', 'v5'), (6, 'a6', 'v6'), (3, 'b3', 'back')")
    spark.sql(f"alter table {table} rename column k to renamed")
    spark.sql(f"alter table {table} alter column id type bigint")
    commit(spark, name, deletes={("renamed", "id"): [("c5", 5), (None, 4), ("a2", 1)]})
    commit(spark, name, deletes={("v",): [("v6",)]})
    spark.sql(f"refresh table {table}")
    spark.sql(f"alter table {table} drop column v")


def commit(
    spark: SparkSession,
    name: str,
    adds: list[tuple[Any, ...]] | None = None,
    deletes: dict[tuple[str, ...], list[tuple[Any, ...]]] | None = None,
    partition: tuple[Any, ...] | None = None,
) -> None:
    """Commit a snapshot that adds rows, and one file of equality deletes per set of columns, in a partition of the newest spec."""
    package, table = iceberg(spark, name)
    table.refresh()
    delta = table.newRowDelta()
    number = sum(1 for _ in (WAREHOUSE / "db" / name / "data").rglob("*.parquet"))
    in_partition = None if partition is None else record(package, table.spec().partitionType(), partition)

    def write_file(columns: tuple[str, ...], rows: list[tuple[Any, ...]], kind: str) -> Any:
        nonlocal number
        number += 1
        schema = table.schema().select(list(columns))
        output = table.io().newOutputFile(f"{table.location()}/data/{number:05d}-{kind}.parquet")
        models = package.formats.FormatModelRegistry
        builder = models.dataWriteBuilder if kind == "rows" else models.equalityDeleteWriteBuilder
        record_class = spark.sparkContext._jvm.java.lang.Class.forName("org.apache.iceberg.data.Record")
        writer = builder(package.FileFormat.PARQUET, record_class, package.encryption.EncryptedFiles.plainAsEncryptedOutput(output))
        writer = writer.schema(schema).spec(table.spec()).partition(in_partition)
        if kind != "rows":
            ids = spark.sparkContext._jvm.java.util.ArrayList()
            for column in columns:
                ids.add(table.schema().findField(column).fieldId())
            writer = writer.equalityFieldIds(ids)
        writer = writer.build()
        by_name = [dict(zip(columns, row, strict=True)) for row in rows]
        for values in by_name:
            writer.write(record(package, schema.asStruct(), tuple(values[f.name()] for f in schema.columns())))
        writer.close()
        return writer.toDataFile() if kind == "rows" else writer.toDeleteFile()

    if adds:
        delta = delta.addRows(write_file(tuple(f.name() for f in table.schema().columns()), adds, "rows"))
    for columns, rows in (deletes or {}).items():
        delta = delta.addDeletes(write_file(columns, rows, "equality-deletes"))
    delta.commit()


def record(package: Any, struct: Any, values: tuple[Any, ...]) -> Any:
    """Return a record with values from Iceberg's JSON form of a struct, because py4j converts a small long to an integer."""
    by_id = {str(field.fieldId()): value for field, value in zip(struct.fields(), values, strict=True)}
    return package.SingleValueParser.fromJson(struct, json.dumps(by_id))


FUNCTIONS: dict[str, Callable[[SparkSession, str], None]] = {
    f.__name__: f
    for f in (uuid_and_fixed, defaults, plain_files, plain_partitioned_files, equality_global, equality_partitioned, equality_evolved)
}

if __name__ == "__main__":
    main(sys.argv[1:])
