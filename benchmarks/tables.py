"""The initial tables of all engines: loaded once for each format and layout, and restored by hard links between repetitions.

The metadata of an Iceberg table contain absolute paths, so the engines' folder has a fixed path. Delta tables get a new folder each time,
because engines cache versions by path.

Tables are deleted only between engines. For a minute after files were deleted, ext4 takes up to ten times longer to create one, because
it avoids their inodes.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    import rowmerge

SCHEMA, TABLE = "bench", "lineitem"
PARTITIONED = {"lhbench": "partition", "small_files": "part"}


class Tables:
    """The tables of one folder: `kept/<format>/<layout>` as loaded, and `live/bench/<name>`, where engines change them.

    `removed` contains the tables that engines no longer need, until `delete_removed`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live = folder / "live"
        self._numbers = count()

    def loaded_folder(self, format_: str, layout: str) -> Path:
        """Return the folder of a table as loaded."""
        return self.folder / "kept" / format_ / layout

    def place(self, format_: str) -> Path:
        """Return a folder for a new table, and remove the previous one."""
        self._remove(self.live / SCHEMA)
        number = next(self._numbers)
        place = self.live / SCHEMA / (TABLE if format_ == "iceberg" else f"{TABLE}_{number}")
        place.parent.mkdir(parents=True)
        return place

    def bring_back(self, format_: str, source_folder: Path) -> Path:
        """Copy a loaded table to the engines' folder. Data files are hard links, because no engine changes them in place."""
        place = self.place(format_)
        shutil.copytree(source_folder, place, copy_function=_shared)
        return place

    def set_aside_at(self, format_: str, layout: str) -> Path:
        """Return the folder of a table that an engine has prepared."""
        return self.folder / "prepared" / format_ / layout

    def set_aside(self, place: Path, format_: str, layout: str) -> Path:
        """Save a table that an engine has prepared while the engine's processes run, and return its folder."""
        prepared_folder = self.set_aside_at(format_, layout)
        self._remove(prepared_folder)
        prepared_folder.parent.mkdir(parents=True, exist_ok=True)
        place.rename(prepared_folder)
        return prepared_folder

    def delete_removed(self) -> None:
        """Delete the tables that engines no longer need."""
        shutil.rmtree(self.folder / "removed", ignore_errors=True)
        os.sync()  # otherwise, ext4 avoids the inodes of deleted files for five minutes instead of one

    def _remove(self, folder: Path) -> None:
        if folder.exists():
            (self.folder / "removed").mkdir(exist_ok=True)
            folder.rename(self.folder / "removed" / uuid4().hex)


def _shared(source: str, target: str) -> None:
    if source.endswith((".parquet", ".bin", ".puffin")):
        os.link(source, target)
    else:
        shutil.copy2(source, target)


def load(folder: Path, missing_tables: list[tuple[str, str, list[str]]]) -> None:
    """Write tables (format, layout, Parquet files of their rows) with one data file for each file and the engine's defaults."""
    import rowmerge

    tables = Tables(folder)
    session = rowmerge.connect(str(tables.live))
    for format_, layout, parts in missing_tables:
        place = tables.place(format_)
        session.sql(f"create schema if not exists {SCHEMA}")
        _fill(session, f"{SCHEMA}.{place.name}", format_, layout, parts)
        loaded_folder = tables.loaded_folder(format_, layout)
        loaded_folder.parent.mkdir(parents=True, exist_ok=True)
        place.rename(loaded_folder)
    session.close()


def _fill(session: rowmerge.Session, name: str, format_: str, layout: str, parts: list[str]) -> None:
    divided = f"partitioned by ({PARTITIONED[layout]})" if layout in PARTITIONED else ""
    # The tables have no deletion vectors, because some engines cannot write tables with them.
    properties = "tblproperties ('rowmerge.write.mode' = 'copy-on-write')" if format_ == "delta" else ""
    for number, part in enumerate(parts):
        session.spark.read.parquet(part).coalesce(1).createOrReplaceTempView("part")
        if number == 0:
            session.sql(f"create table {name} using {format_} {divided} {properties} as select * from part")
        else:
            session.sql(f"insert into {name} select * from part")


if __name__ == "__main__":
    load(Path(sys.argv[1]), json.load(sys.stdin))
