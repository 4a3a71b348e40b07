"""A program that runs statements with secrets on a Spark of another process, and writes everything that it shows to one file.

It reads one JSON object from standard input, because a command line is public. `connections` has the arguments of `rowmerge.connect`.
`is_existing` says whether the program starts Spark itself. `ui` is the address of a user interface in another process, and `pages` has
its further pages.
"""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any, TextIO

from pyspark.sql import SparkSession

import rowmerge
from tests.functional.adapter.leaks import PAGES, attempt, write_pages

STATEMENTS = (
    "create table {table} using {format} as select id, id % 7 as k from range(1000)",
    "merge into {table} t using (select id, 9 as k from range(0, 2000, 3)) s on t.id = s.id "
    "when matched then update set * when not matched then insert *",
    "select count(*), sum(a.k) from {table} a join {table} b on a.id = b.id",
    "explain extended select * from {table} where k > 1",
    "explain merge into {table} t using (select 1L as id) s on t.id = s.id when matched then delete",
    "describe extended {table}",
    "show create table {table}",
    "select raise_error(concat('row ', k)) from {table} where k = 9",
    "select no_such_column from {table}",
    "set",
)
MISSING_BUCKET = ("select * from delta.`s3://missing/t`", "select * from read_files('s3://missing/t', format => 'parquet')")


def main(configuration: dict[str, Any], output: TextIO) -> None:
    """Run each statement in each connection, and write what it returns, the pages, and all command lines of this machine."""
    logging.basicConfig(level=logging.DEBUG, stream=output, force=True)  # an import of dbt has set a handler
    config = configuration["spark_config"]
    spark = SparkSession.builder.config(map=config).getOrCreate() if configuration["is_existing"] else None
    for number, arguments in enumerate(configuration["connections"]):
        place = {"spark": spark} if spark is not None else {"spark_config": config}
        session = rowmerge.connect(**arguments, **place)
        session.sql(f"create schema s{number}")
        # The keys of a catalog are not for other buckets. For those, clients would ask the metadata service of AWS.
        formats, others = (("iceberg",), ()) if "catalog" in arguments else (("delta", "iceberg"), MISSING_BUCKET)
        for format_ in formats:
            for statement in (*STATEMENTS, *others):
                sql = statement.format(table=f"s{number}.{format_}_table", format=format_)
                attempt(output, lambda text=sql, run=session.sql: (text, run(text).collect()))
    ui = configuration["ui"] or session.spark.sparkContext.uiWebUrl
    write_pages(ui, output, (*PAGES, *configuration["pages"]))
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        attempt(output, lambda process=path: process.read_text().split("\0"))
    print("complete", file=output)


if __name__ == "__main__":
    settings = json.load(sys.stdin)
    with open(settings["output"], "w") as file:
        main(settings, file)
