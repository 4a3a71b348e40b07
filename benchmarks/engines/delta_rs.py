"""delta-rs: Rust, in one process."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, QueryBuilder

from benchmarks.engines.sql import text_of
from benchmarks.scenarios import Clause, Compact, DeleteInsert, Merge, Overwrite, Query, Scenario, Step, Update


class DeltaRs:
    format = "delta"
    ends = True

    def __init__(self) -> None:
        self._sources: dict[str, Path] = {}
        self._place: Path | None = None
        self._table: DeltaTable | None = None

    @property
    def versions(self) -> Mapping[str, str]:
        return {"delta-rs": deltalake.__version__}

    def prepare(self, place: Path, layout: str) -> None:
        pass

    def open(self, place: Path, *, preload: bool) -> None:
        self._place, self._table = place, DeltaTable(str(place)) if preload else None

    def source(self, name: str, path: Path) -> None:
        self._sources[name] = path

    def run(self, step: Step, scenario: Scenario) -> str | None:
        if self._table is None:
            self._table = DeltaTable(str(self._place))
        else:
            self._table.update_incremental()
        match step:
            case Merge():
                self._merge(step, scenario)
            case Update():
                self._table.update(updates=dict(step.values), predicate=step.condition)
            case DeleteInsert() | Overwrite():
                raise NotImplementedError(f"delta-rs has no single statement for {type(step).__name__}")
            case Compact():
                self._table.optimize.compact()
            case Query():
                query = QueryBuilder().register("t", self._table).execute(text_of(step, scenario, "t", ""))
                row = pa.table(query.read_all()).to_pylist()[0]
                return " | ".join(str(value) for value in row.values())
        return None

    def plan(self, step: Step, scenario: Scenario) -> None:
        pass

    def stages(self) -> Mapping[str, float]:
        return {}

    def _merge(self, step: Merge, scenario: Scenario) -> None:
        source = pq.read_table(self._sources[step.source])
        assert self._table is not None
        merger = self._table.merge(source, predicate=step.on, source_alias="s", target_alias="t")
        for clause in step.clauses:
            values = dict(clause.values or {column: f"s.{column}" for column in scenario.columns})
            match clause:
                case Clause(match="MATCHED", action="UPDATE"):
                    merger = merger.when_matched_update(values, predicate=clause.condition)
                case Clause(match="MATCHED", action="DELETE"):
                    merger = merger.when_matched_delete(predicate=clause.condition)
                case Clause(match="NOT MATCHED", action="INSERT"):
                    merger = merger.when_not_matched_insert(values, predicate=clause.condition)
                case Clause(action="DELETE"):
                    merger = merger.when_not_matched_by_source_delete(predicate=clause.condition)
        merger.execute()
