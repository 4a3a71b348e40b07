"""rowmerge on the PySpark with which it is installed."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyspark

import rowmerge
from benchmarks.engines.spark_sql import SETTINGS
from benchmarks.engines.sql import text_of
from benchmarks.scenarios import Query, Scenario, Step


class Rowmerge:
    """rowmerge. `mode`: auto, copy-on-write or merge-on-read."""

    ends = True

    def __init__(self, format_: str, mode: str) -> None:
        self.format, self._mode = format_, mode
        self._session: rowmerge.Session | None = None
        self._stages: Mapping[str, float] = {}

    @property
    def versions(self) -> Mapping[str, str]:
        return {"rowmerge": rowmerge.__version__, "PySpark": pyspark.__version__}

    def prepare(self, place: Path, layout: str) -> None:
        self._connect(place)
        properties = {"rowmerge.write.mode": self._mode}
        if self.format == "delta" and self._mode == "auto":
            # New tables have deletion vectors by default. The tables that are loaded for all engines have none.
            properties["delta.enableDeletionVectors"] = "true"
        listed = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
        self._sql(f"alter table {self._table} set tblproperties ({listed})")

    def open(self, place: Path, *, preload: bool) -> None:
        self._connect(place)
        if preload:
            self._sql(f"select count(*) from {self._table}")

    def source(self, name: str, path: Path) -> None:
        assert self._session is not None
        self._session.spark.read.parquet(str(path)).createOrReplaceTempView(name)

    def run(self, step: Step, scenario: Scenario) -> str | None:
        assert self._session is not None
        result = self._session.execute(text_of(step, scenario, self._table, f"optimize {self._table}"))
        self._stages = result.seconds
        if isinstance(step, Query):
            return " | ".join(str(value) for value in result.frame.collect()[0])
        return None

    def plan(self, step: Step, scenario: Scenario) -> None:
        pass

    def stages(self) -> Mapping[str, float]:
        return self._stages

    def _connect(self, place: Path) -> None:
        """Open a session without cached tables on the running Spark."""
        spark: dict[str, Any] = {"spark_config": SETTINGS} if self._session is None else {"spark": self._session.spark}
        self._session = rowmerge.connect(str(place.parent.parent), **spark)
        self._table = f"{place.parent.name}.{place.name}"

    def _sql(self, text: str) -> None:
        assert self._session is not None
        self._session.sql(text).collect()
