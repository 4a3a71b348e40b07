"""Count the files that each engine opens for each shape, and compare the rows of all engines."""

from __future__ import annotations

import json
import shutil
import sys
from dataclasses import asdict, dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from benchmarks.reads.opened import data_files, opened_files
from benchmarks.reads.process import OURS, EngineProcess, Places, engine_process
from benchmarks.reads.shapes import TARGET, Shape, shapes
from benchmarks.reads.tables import Size, create_tables, drop, folders_of
from benchmarks.reads.worker import SCHEMA

ENGINES = (
    ("ours-before", "delta"),
    ("ours", "delta"),
    ("delta-spark", "delta"),
    ("ours-before", "iceberg"),
    ("ours", "iceberg"),
    ("iceberg-spark", "iceberg"),
)
"""The engines with the format of their tables."""


@dataclass
class Count:
    """The result of a shape in one engine. `files`: the files in the folders of its tables; `opened`: those that were opened."""

    shape: str
    group: str
    engine: str
    format: str
    files: int
    opened: int | None = None
    digest: str | None = None
    rows: int | None = None
    error: str | None = None


@dataclass
class Counts:
    """All counts of a run, with its size and the versions of the engines."""

    size: dict[str, int]
    versions: dict[str, str] = field(default_factory=dict)
    counts: list[Count] = field(default_factory=list)

    def of(self, shape: str, group: str, engine: str, format_: str) -> Count | None:
        key = (shape, group, engine, format_)
        return next((count for count in self.counts if (count.shape, count.group, count.engine, count.format) == key), None)

    def disagreements(self) -> list[str]:
        """Return sentences about the shapes for which engines returned different rows, or failed."""
        digests: dict[tuple[str, str], dict[str, list[str]]] = {}
        for count in self.counts:
            if count.digest is not None:
                by_digest = digests.setdefault((count.group, count.shape), {})
                by_digest.setdefault(count.digest, []).append(f"{count.engine} ({count.format})")
        differ = [f"{shape}: rows differ: {by_digest}" for (_, shape), by_digest in digests.items() if len(by_digest) > 1]
        return differ + [f"{count.shape}: {count.engine} ({count.format}) failed: {count.error}" for count in self.counts if count.error]

    def gaps(self) -> list[str]:
        """Return a line for each shape for which rowmerge opened more files than the better of its peers."""
        lines = []
        for shape in dict.fromkeys((count.group, count.shape) for count in self.counts):
            opened = {(c.engine, c.format): c.opened for c in self.counts if (c.group, c.shape) == shape}
            peers = [value for (engine, _), value in opened.items() if engine not in OURS and value is not None]
            own = [value for (engine, _), value in opened.items() if engine == "ours" and value is not None]
            if peers and own and max(own) > min(peers):
                listed = ", ".join(f"{engine} {format_} {value}" for (engine, format_), value in opened.items())
                lines.append(f"{shape[0]} / {shape[1]}: {listed}")
        return lines

    def write(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(asdict(self), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")

    @classmethod
    def read(cls, path: Path) -> Counts:
        fields = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**fields, "counts": [Count(**count) for count in fields["counts"]]})


def count_files(places: Places, size: Size, engines: list[tuple[str, str]], groups: str, out: Path) -> Counts:
    """Run shapes on these engines, and return the counts, with those of other engines from an earlier run.

    Args:
        places: The folders.
        size: The size of the tables.
        engines: The engines with the formats of their tables.
        groups: A pattern of the groups of shapes.
        out: The JSON file, which is written after each engine.
    """
    chosen = [shape for shape in shapes(size) if fnmatch(shape.group, groups)]
    create_tables(places, size, [text for shape in chosen for text in (shape.statement, *shape.setup)])
    result = Counts.read(out) if out.exists() else Counts(asdict(size))
    replaced = {shape.group for shape in chosen}
    result.counts = [count for count in result.counts if (count.engine, count.format) not in engines or count.group not in replaced]
    for engine_name, format_ in engines:
        with engine_process(places, engine_name, format_) as engine:
            result.versions |= engine.versions
            for shape in chosen:
                if format_ in shape.formats and engine_name not in shape.rejected_by:
                    result.counts.append(_count(places, engine, shape))
                    print(result.counts[-1], file=sys.stderr, flush=True)
        result.write(out)
    return result


def _count(places: Places, engine: EngineProcess, shape: Shape) -> Count:
    result = Count(shape.name, shape.group, engine.engine, engine.format, 0)
    with _target(places, engine, shape):
        for statement in shape.setup:
            engine.require(statement.replace("{format}", engine.format))
        statement = shape.statement.replace("{format}", engine.format)
        if "{past}" in statement:
            statement = statement.replace("{past}", _past(places, engine.format))
        folders = folders_of(places, engine.format, "".join([*shape.setup, statement]), outputs=(TARGET,))
        result.files = len(data_files(folders))
        with opened_files(folders) as paths:
            answer = engine.run(statement)
        result.opened, result.error = (None, answer["error"]) if "error" in answer else (len(paths), None)
        if result.error is None and not shape.creates_target:
            result.rows, result.digest = answer["rows"], None if shape.any_rows else answer["digest"]
        if result.error is None and shape.creates_target:
            answer = engine.require(f"select * from {SCHEMA}.{TARGET}")
            result.rows, result.digest = answer["rows"], answer["digest"]
    return result


class _target:  # noqa: N801 - a context manager
    """Drop the table that a shape creates, before and after it."""

    def __init__(self, places: Places, engine: EngineProcess, shape: Shape) -> None:
        self._engine, self._creates = engine, shape.creates_target
        self._folder = places.warehouse(engine.format) / SCHEMA / TARGET

    def __enter__(self) -> None:
        self._drop()

    def __exit__(self, *error: Any) -> None:
        self._drop()

    def _drop(self) -> None:
        if self._creates:
            drop(self._engine, TARGET)
            shutil.rmtree(self._folder, ignore_errors=True)


def _past(places: Places, format_: str) -> str:
    """Return the clause for the first version with rows of the table `versions`."""
    if format_ == "delta":
        return "version as of 0"
    folder = places.warehouse(format_) / SCHEMA / "versions" / "metadata"
    newest = max(folder.glob("v*.metadata.json"), key=lambda path: int(path.name[1:].split(".")[0]))
    snapshots: list[dict[str, Any]] = json.loads(newest.read_text())["snapshots"]
    return f"version as of {min(snapshots, key=lambda snapshot: snapshot['sequence-number'])['snapshot-id']}"
