"""The choice of the way of execution."""

from __future__ import annotations

import importlib
import pkgutil
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from rowmerge.execution import ways
from rowmerge.execution.ways import selection, way as way_module
from rowmerge.execution.ways.key_matches import why_needs_values
from rowmerge.execution.ways.way import ExecutionResult, NotApplicable, Reason, RowChangeRequest, Way
from rowmerge.spark.writing.write_output import WriteOutput
from rowmerge.table.snapshots.files import AddedFile


def test_every_module_with_a_way_is_listed_once_under_its_own_name() -> None:
    modules = [importlib.import_module(f"{ways.__name__}.{info.name}") for info in pkgutil.iter_modules(ways.__path__)]
    names = [module.__name__.rpartition(".")[2] for module in modules if hasattr(module, "WAY")]
    assert sorted(way.name for way in selection.WAYS) == sorted(names)


def test_the_last_way_applies_to_every_statement_and_always_runs() -> None:
    last = selection.WAYS[-1]
    assert last.rejection_reason(None) is None and last.fallback_condition == ""  # type: ignore[arg-type]


def test_files_of_an_abandoned_way_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data_file = tmp_path / "part-0.parquet"
    data_file.write_bytes(b"rows")
    runs: list[str] = []
    result = ExecutionResult(*[None] * 5)  # type: ignore[arg-type]

    def way(name: str, reason: str | None, outcome: ExecutionResult | NotApplicable) -> Way:
        def run(_: RowChangeRequest) -> ExecutionResult | NotApplicable:
            runs.append(name)
            return outcome

        return Way(name, lambda _: None if reason is None else Reason(reason), run)

    in_vain = NotApplicable(Reason("a key stands twice"), WriteOutput([AddedFile(f"file://{data_file}", 4, 1)]))
    listed = way("first", "no source", result), way("second", None, in_vain), way("third", None, result), way("fourth", None, result)
    monkeypatch.setattr(selection, "WAYS", listed)
    planned: Any = SimpleNamespace(plan=SimpleNamespace(operation="MERGE", table="t"))
    snapshot: Any = SimpleNamespace(shape=SimpleNamespace(filesystem_options={}))
    request = RowChangeRequest(None, snapshot, planned, lambda _: nullcontext())  # type: ignore[arg-type]
    assert selection.execute(request) is result
    assert runs == ["second", "third"]
    assert not data_file.exists()


def test_the_clauses_of_a_statement_are_analysed_once_for_all_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    analysed: list[object] = []

    def keys_decide(plan: object) -> bool:
        analysed.append(plan)
        return True

    monkeypatch.setattr(way_module, "keys_decide", keys_decide)
    plan: Any = SimpleNamespace(metadata_columns=(), clauses=(), on=SimpleNamespace(keys=("id",), keys_alone=True), of=lambda _: ())
    snapshot: Any = SimpleNamespace(shape=SimpleNamespace(change_data_location=None))
    request = RowChangeRequest(None, snapshot, SimpleNamespace(plan=plan), lambda _: nullcontext())  # type: ignore[arg-type]
    assert [why_needs_values(request), why_needs_values(request)] == [None, None]
    assert analysed == [plan]
