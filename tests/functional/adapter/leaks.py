"""A program that runs dbt and the engine with secrets in the profile, and writes everything that it shows to one file.

Its arguments are a project folder, the file, and the address of a store that rejects all requests.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO

from dbt.cli.main import dbtRunner
from pyspark.sql import SparkSession

import rowmerge

STATEMENTS = (
    "show create table main.{table}",
    "show tblproperties main.{table}",
    "describe extended main.{table}",
    "describe history main.{table}",
    "explain extended merge into main.{table} t using (select 1L as id) s on t.id = s.id when matched then delete",
    "explain select * from main.{table} where id > 1",
    "select * from main.missing",
    "set",
)
PAGES = ("jobs/", "stages/", "storage/", "environment/", "executors/", "SQL/", "StreamingQuery/")
RESOURCES = (
    "",
    "/environment",
    "/jobs",
    "/stages?details=true&withSummaries=true",
    "/allexecutors",
    "/sql?details=true&planDescription=true",
)


def main(project: Path, output: TextIO, store: str) -> None:
    """Run every command, statement and page, and write what it shows."""
    logging.basicConfig(level=logging.DEBUG, stream=output, force=True)  # an import of dbt has set a handler
    for command in ("debug", "seed", "build", "compile", "run-operation no_such_macro", "docs generate"):
        arguments = ["--log-level", "debug", "--log-level-file", "debug", "--print", *command.split()]
        result = dbtRunner().invoke([*arguments, "--project-dir", str(project), "--profiles-dir", str(project)])
        print(command, result.success, result.exception, result.result, file=output)
    target = json.loads((project / "target.json").read_text())
    spark = SparkSession.active()
    session = rowmerge.connect(target["warehouse"], spark=spark, storage_options=target["storage_options"], schema="main")
    for statement in STATEMENTS:
        for table in ("d", "i"):
            sql = statement.format(table=table)
            attempt(output, lambda text=sql: session.sql(text).collect())
    for location in ("s3://lake/x", "az://lake/x", "abfss://lake@acc.dfs.core.windows.net/x", "gs://lake/x"):
        attempt(output, lambda url=location: rowmerge.connect(url, spark=spark, storage_options=target["storage_options"]))
        attempt(output, lambda url=location: session.sql(f"select * from delta.`{url}`").collect())
        attempt(output, lambda url=location: session.sql(f"select * from read_files('{url}', format => 'parquet')").collect())
        attempt(output, lambda url=location: list(rowmerge.check_environment(url, storage_options=target["storage_options"])))
        for format_ in ("delta", "iceberg"):
            create = f"create table main.t_{location[:2]}_{format_} using {format_} location '{location}/t' as select id from range(3)"
            attempt(output, lambda text=create: session.sql(text))
    write_and_read_data_files(session, Path(target["warehouse"]), output)
    for catalog in target["catalogs"]:
        attempt(output, lambda settings=catalog: rowmerge.connect(catalog=settings, spark=spark).schemas())
        attempt(output, lambda settings=catalog: list(rowmerge.check_environment(catalog=settings)))
    for address in target["remotes"]:
        attempt(output, lambda url=address: rowmerge.connect(target["warehouse"], spark_config={"spark.remote": url}))
    write_pages(str(spark.sparkContext.uiWebUrl), output)
    print("complete", file=output)


def write_and_read_data_files(session: rowmerge.Session, warehouse: Path, output: TextIO) -> None:
    """Change tables whose metadata is on the disk, and whose data files are in a store that rejects all requests."""
    for scheme in ("az", "s3", "gs"):
        session.sql(f"create table w_{scheme} (id bigint) using iceberg tblproperties ('write.data.path' = '{scheme}://lake/data')")
        attempt(output, lambda table=f"w_{scheme}": session.sql(f"insert into {table} values (1)"))
        attempt(output, lambda table=f"w_{scheme}": session.sql(f"insert into {table} select id from range(0, 3000000, 1, 4)"))
        session.sql(f"create table r_{scheme} (id bigint) using delta")
        statistics = json.dumps({"numRecords": 3, "minValues": {"id": 1}, "maxValues": {"id": 3}, "nullCount": {"id": 0}})
        add = {"path": f"{scheme}://lake/data/f.parquet", "partitionValues": {}, "size": 1000, "modificationTime": 1, "dataChange": True}
        log = warehouse / "main" / f"r_{scheme}" / "_delta_log" / f"{1:020d}.json"
        log.write_text(json.dumps({"add": {**add, "stats": statistics}}) + "\n")
        for statement in (
            "select * from {table} where id > 1",
            "delete from {table} where id = 2",
            "merge into {table} t using (select 2L as id) s on t.id = s.id when matched then delete",
            "optimize {table}",
        ):
            sql = statement.format(table=f"r_{scheme}")
            attempt(output, lambda text=sql: session.sql(text).collect())


def attempt(output: TextIO, call: Callable[[], Any]) -> None:
    """Write the result of a call or its error with the traceback."""
    try:
        print(call(), file=output)
    except Exception as error:  # noqa: BLE001 - a leak may be in any error
        print(repr(error), traceback.format_exc(), file=output)


def write_pages(address: str, output: TextIO, pages: Sequence[str] = PAGES) -> None:
    """Write the pages and the resources of Spark's user interface.

    Args:
        address: The address of the user interface.
        output: The file for the pages.
        pages: The paths of the pages, beside those of queries and stages.
    """
    (application,) = json.loads(fetch(f"{address}/api/v1/applications"))
    resources = f"{address}/api/v1/applications/{application['id']}"
    executions = json.loads(fetch(f"{resources}/sql?length=1000"))
    stages = json.loads(fetch(f"{resources}/stages"))
    print(len(executions), "queries", len(stages), "stages", file=output)
    urls = [f"{address}/{page}" for page in pages]
    urls += [f"{resources}{resource}" for resource in RESOURCES]
    urls += [f"{address}/SQL/execution/?id={execution['id']}" for execution in executions]
    urls += [f"{address}/stages/stage/?id={stage['stageId']}&attempt={stage['attemptId']}" for stage in stages]
    for url in urls:
        print(url, fetch(url), file=output)


def fetch(url: str) -> str:
    """Return the content of a page."""
    with urllib.request.urlopen(url) as answer:
        return str(answer.read().decode())


if __name__ == "__main__":
    with open(sys.argv[2], "w") as file:
        main(Path(sys.argv[1]), file, sys.argv[3])
