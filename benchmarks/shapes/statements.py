"""The statement of a cell as a scenario of the benchmark, which each engine runs in its own language."""

from __future__ import annotations

from benchmarks.scenarios import DELETE, INSERT, NOT_MATCHED_BY_SOURCE, UPDATE, Clause, DeleteInsert, Merge, Overwrite, Scenario, Step
from benchmarks.shapes.design import Cell, cell_named
from benchmarks.shapes.layout import SMALL_MERGES, columns, key_columns

SOURCE, SMALL_SOURCE = "source", "small_{number}"
_CDC = (Clause("MATCHED", "DELETE", "s.op = 'D'"), Clause("MATCHED", "UPDATE", "s.op = 'U'"), Clause("NOT MATCHED", "INSERT", "s.op = 'I'"))
_HISTORY = (
    Clause("MATCHED", "UPDATE", "t.valid_to is null and s.change_type = 'update'", {"valid_to": "s.valid_to"}),
    Clause("NOT MATCHED", "INSERT", "s.change_type = 'insert'"),
)


def scenario_of(cell: Cell, name: str) -> Scenario:
    """Return the scenario that runs the statement of a cell once.

    Args:
        cell: The cell.
        name: The name of the scenario, which is also that of the layout of its table.
    """
    keys, names = key_columns(cell), columns(cell)
    merges = tuple(Merge(SMALL_SOURCE.format(number=number), on=_same_key(cell)) for number in range(SMALL_MERGES))
    reads, writes = _bounds(cell, keys, names)
    return Scenario(
        name,
        f"{cell.statement}, {cell.share} %",
        {"": _step(cell)},
        layout=name,
        columns=names,
        reads=reads,
        writes=writes,
        group="shapes",
        preparation=merges if cell.state == "20 merges" else (),
    )


def scenario_of_name(name: str) -> Scenario:
    """Return the scenario of the cell with a name, such as `shape-1-17`."""
    return scenario_of(cell_named(name), name)


def _same_key(cell: Cell) -> str:
    if cell.key == "nested":
        return "t.k1.id = s.k1.id and t.k1.kind = s.k1.kind"
    return " and ".join(f"t.{name} = s.{name}" for name in key_columns(cell))


def _step(cell: Cell) -> Step:
    on, differs = _same_key(cell), "t.v1 <> s.v1"
    match cell.statement:
        case "delete+insert":
            return DeleteInsert(SOURCE, key_columns(cell), on)
        case "insert_overwrite":
            return Overwrite(SOURCE)
        case "upsert":
            return Merge(SOURCE, (UPDATE, INSERT), on)
        case "update":
            return Merge(SOURCE, (Clause("MATCHED", "UPDATE", values={"v1": "t.v1 + s.v1"}),), on)
        case "delete":
            return Merge(SOURCE, (DELETE,), on)
        case "insert-only":
            return Merge(SOURCE, (INSERT,), on)
        case "cdc":
            return Merge(SOURCE, _CDC, on)
        case "mirror":
            return Merge(SOURCE, (Clause("MATCHED", "UPDATE", differs), INSERT, Clause(NOT_MATCHED_BY_SOURCE, "DELETE")), on)
        case _:
            return Merge(SOURCE, _HISTORY, on)


def _bounds(cell: Cell, keys: tuple[str, ...], names: tuple[str, ...]) -> tuple[tuple[str, ...], str | None]:
    """Return the columns that every engine must read, and SQL for the rows that it must write."""
    match cell.statement:
        case "update" | "scd2":
            return names, "select * from s"  # an updated row is written with all its columns
        case "delete":
            return keys, None
        case "cdc":
            return keys, "select * from s where op <> 'D'"
        case "insert-only":
            return keys, f"select * from s anti join t on {_same_key(cell)}"
        case "mirror":
            return (*keys, "v1"), f"select s.* from s left join t on {_same_key(cell)} where t.v1 is distinct from s.v1"
        case "insert_overwrite":
            return (), "select * from s"
        case _:
            return keys, "select * from s"
