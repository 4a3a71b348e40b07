"""The processes of the engines, from the side that sends them statements."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.reads.worker import MARK

ROOT = Path(__file__).resolve().parents[2]
OURS = ("ours", "ours-before")
TITLES = {
    "ours": "rowmerge",
    "ours-before": "rowmerge before",
    "delta-spark": "Delta on Spark",
    "iceberg-spark": "Iceberg on Spark",
    "parquet": "plain Parquet",
    "delta-rs": "delta-rs",
    "duckdb": "DuckDB",
}


@dataclass(frozen=True)
class Places:
    """The folders of a run: `tables` with a warehouse for each format, `peers` with jars, `earlier` an earlier checkout."""

    tables: Path
    peers: Path
    earlier: Path | None = None

    def warehouse(self, format_: str) -> Path:
        """Return the warehouse of a format's tables."""
        return self.tables / format_

    def below(self, name: str) -> Places:
        """Return the same places with the tables in a subfolder."""
        return replace(self, tables=(self.tables / name).resolve())


class EngineProcess:
    """An engine in its own process."""

    def __init__(self, places: Places, engine: str, format_: str, files: dict[str, list[str]] | None = None) -> None:
        """Start the engine on the tables of a format. `files`: the Parquet files of each table, for plain Parquet."""
        self.engine, self.format = engine, format_
        python = places.peers / "python" / "bin" / "python" if engine.endswith("-spark") else Path(sys.executable)
        roots = [places.earlier, ROOT] if engine == "ours-before" and places.earlier else [ROOT]
        paths = {"PYTHONPATH": os.pathsep.join(str(root) for root in roots), "ROWMERGE_CACHE": os.devnull, "TZ": "UTC"}
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 - it is closed with the process
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": self._errors}
        command = [str(python), "-m", "benchmarks.reads.worker"]
        folder = tempfile.gettempdir()
        self._process = subprocess.Popen(command, **pipes, text=True, env={**os.environ, **paths}, cwd=folder)
        job = {"engine": engine, "warehouse": str(places.warehouse(format_)), "peers": str(places.peers), "format": format_, "files": files}
        self.versions: dict[str, str] = self._ask(job)["versions"]

    def run(self, statement: str) -> dict[str, Any]:
        """Return the worker's answer for a statement: `seconds`, `rows` and `digest`, or `error`."""
        return self._ask(statement)

    def require(self, statement: str) -> dict[str, Any]:
        """Run a statement that must succeed. Raises RuntimeError with the engine's message if it fails."""
        answer = self.run(statement)
        if "error" in answer:
            raise RuntimeError(f"{self.engine} failed in {statement}: {answer['error']}")
        return answer

    def close(self) -> None:
        self._process.communicate("")
        self._errors.close()

    def _ask(self, message: Any) -> dict[str, Any]:
        assert self._process.stdin is not None and self._process.stdout is not None
        self._process.stdin.write(f"{json.dumps(message)}\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith(MARK):
                answer: dict[str, Any] = json.loads(line[len(MARK) :])
                return answer
        self._errors.seek(0)
        raise RuntimeError(f"The process of {self.engine} ended: {self._errors.read()[-2000:]}")


@contextmanager
def engine_process(places: Places, engine: str, format_: str, files: dict[str, list[str]] | None = None) -> Iterator[EngineProcess]:
    """Yield an engine that ends with the block."""
    process = EngineProcess(places, engine, format_, files)
    try:
        yield process
    finally:
        process.close()
