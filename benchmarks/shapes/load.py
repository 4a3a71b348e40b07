"""Load the table and the sources of a cell: `python -m benchmarks.shapes.load FOLDER NAME SCALE`."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from pathlib import Path

from benchmarks.shapes.design import Cell, cell_named
from benchmarks.shapes.layout import SMALL_MERGES, partition_clause
from benchmarks.shapes.rows import write_small_source, write_source, write_table
from benchmarks.shapes.statements import SMALL_SOURCE, SOURCE
from benchmarks.tables import SCHEMA, Tables

ONE_FILE_PER_TASK = {"spark.sql.files.openCostInBytes": str(1 << 40), "spark.sql.files.minPartitionNum": "1"}


def load(folder: Path, name: str, scale: float) -> None:
    """Write the table of a cell, without deletion vectors, which some engines cannot read, and its sources.

    Args:
        folder: The folder of the tables of all engines (`Tables`). The sources are in its subfolder `sources`.
        name: The name of the cell.
        scale: The rows of the table, as a share of 5 million.
    """
    cell, tables, sources = replace(cell_named(name), scale=scale), Tables(folder), folder / "sources"
    for old in (tables.loaded_folder(cell.format, name), sources, folder / "rows"):
        shutil.rmtree(old, ignore_errors=True)
    for new in (sources, folder / "rows"):
        new.mkdir(parents=True)
    write_source(cell, sources / f"{SOURCE}.parquet")
    for number in range(SMALL_MERGES if cell.state == "20 merges" else 0):
        write_small_source(cell, number, sources / f"{SMALL_SOURCE.format(number=number)}.parquet")
    _fill(cell, tables, name, [str(file) for file in write_table(cell, folder / "rows")])
    shutil.rmtree(folder / "rows")


def _fill(cell: Cell, tables: Tables, name: str, files: list[str]) -> None:
    """Create the table. A partitioned table gets the rows of one file after another if it has small files, otherwise all at once."""
    import rowmerge

    place = tables.place(cell.format)
    session = rowmerge.connect(str(tables.live), spark_config=ONE_FILE_PER_TASK)
    session.sql(f"create schema if not exists {SCHEMA}")
    properties = "tblproperties ('rowmerge.write.mode' = 'copy-on-write')" if cell.format == "delta" else ""
    create = f"create table {SCHEMA}.{place.name} using {cell.format} {partition_clause(cell)} {properties} as select * from part"
    batches = [[file] for file in files] if cell.state == "small files" and cell.partitions != "none" else [files]
    for number, batch in enumerate(batches):
        session.spark.read.parquet(*batch).createOrReplaceTempView("part")
        session.sql(f"insert into {SCHEMA}.{place.name} select * from part" if number else create)
    session.close()
    loaded_folder = tables.loaded_folder(cell.format, name)
    loaded_folder.parent.mkdir(parents=True, exist_ok=True)
    place.rename(loaded_folder)


if __name__ == "__main__":
    load(Path(sys.argv[1]), sys.argv[2], float(sys.argv[3]))
