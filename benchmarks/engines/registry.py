"""The engines by name: how to create each one, with which Python, and whether its packages are installed."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path

from benchmarks.engines.engine import Engine
from benchmarks.engines.spark_sql import WORKERS, use_workers
from benchmarks.tables import Tables


@dataclass(frozen=True)
class Peers:
    """The folder that `make bench-peers` fills: `jars`, and `python` with the PySpark that the jars require."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "python" / "bin" / "python"

    def jars(self, name: str) -> list[Path]:
        """Return the jars of one peer. Spark has the others."""
        return sorted(jar for jar in (self.folder / "jars").glob("*.jar") if jar.name.startswith(name))


@dataclass(frozen=True)
class Entry:
    """An engine. `needs`: prefixes of the jars or Python packages that it requires; `make` runs in the engine's process."""

    title: str
    format: str
    make: Callable[[Tables, Peers], Engine]
    jar: str | None = None
    package: str | None = None

    def missing(self, peers: Peers) -> str | None:
        """Return the reason why the engine cannot run, or None."""
        if self.jar is not None and (not peers.jars(self.jar) or not peers.python.exists()):
            return f"there is no {self.jar} in {peers.folder}; `make bench-peers` brings it"
        if self.package is not None and find_spec(self.package) is None:
            return f"the package {self.package} is not installed"
        return None

    def python(self, peers: Peers) -> str:
        return sys.executable if self.jar is None else str(peers.python)


def _ours(format_: str, mode: str) -> Entry:
    def make(tables: Tables, peers: Peers) -> Engine:
        from benchmarks.engines.ours import Rowmerge

        return Rowmerge(format_, mode)

    return Entry(f"rowmerge, {format_.title()}, {mode}", format_, make)


def _delta(vectors: bool) -> Entry:
    def make(tables: Tables, peers: Peers) -> Engine:
        from benchmarks.engines.delta_spark import DeltaSpark

        return DeltaSpark(peers.jars("delta-"), vectors=vectors)

    return Entry(f"Delta on Spark, {'deletion vectors' if vectors else 'copy-on-write'}", "delta", make, jar="delta-spark")


def _iceberg(mode: str) -> Entry:
    def make(tables: Tables, peers: Peers) -> Engine:
        from benchmarks.engines.iceberg_spark import IcebergSpark

        return IcebergSpark(peers.jars("iceberg-"), tables.live, mode)

    return Entry(f"Iceberg on Spark, {mode}", "iceberg", make, jar="iceberg-spark-runtime")


def _delta_rs(tables: Tables, peers: Peers) -> Engine:
    from benchmarks.engines.delta_rs import DeltaRs

    return DeltaRs()


def _limit(name: str, format_: str = "delta") -> Entry:
    def make(tables: Tables, peers: Peers) -> Engine:
        from benchmarks.engines.limit import ArrowLimit, SparkLimit

        return ArrowLimit(format_) if name == "pyarrow" else SparkLimit(format_)

    return Entry(f"the limit, bare {name} jobs", format_, make)


def _on_workers(entry: Entry) -> Entry:
    """Return an engine whose tasks run on a standalone cluster instead of in the process of the driver."""

    def make(tables: Tables, peers: Peers) -> Engine:
        use_workers()
        return entry.make(tables, peers)

    return replace(entry, title=f"{entry.title}, {WORKERS} workers", make=make)


_LOCAL = {
    "ours": _ours("delta", "auto"),
    "ours-cow": _ours("delta", "copy-on-write"),
    "ours-mor": _ours("delta", "merge-on-read"),
    "ours-iceberg": _ours("iceberg", "auto"),
    "ours-iceberg-cow": _ours("iceberg", "copy-on-write"),
    "ours-iceberg-mor": _ours("iceberg", "merge-on-read"),
    "delta-rs": Entry("delta-rs", "delta", _delta_rs, package="deltalake"),
    "delta-spark": _delta(vectors=False),
    "delta-spark-dv": _delta(vectors=True),
    "iceberg-spark-cow": _iceberg("copy-on-write"),
    "iceberg-spark-mor": _iceberg("merge-on-read"),
    "limit-spark": _limit("Spark"),
    "limit-spark-iceberg": _limit("Spark", "iceberg"),
    "limit-arrow": _limit("pyarrow"),
}
ON_WORKERS = ("ours", "ours-iceberg-mor", "delta-spark-dv", "iceberg-spark-mor")
ENGINES = {**_LOCAL, **{f"workers-{name}": _on_workers(_LOCAL[name]) for name in ON_WORKERS}}
