"""The scenarios: statements on TPC-H's lineitem, in a form that each engine's language can express."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

COLUMNS = (
    "l_orderkey", "l_partkey", "l_suppkey", "l_linenumber", "l_quantity", "l_extendedprice", "l_discount", "l_tax", "l_returnflag",
    "l_linestatus", "l_shipdate", "l_commitdate", "l_receiptdate", "l_shipinstruct", "l_shipmode", "l_comment",
)  # fmt: skip
TEXTS = ("l_returnflag", "l_linestatus", "l_shipinstruct", "l_shipmode", "l_comment")
HISTORY = ("scd_id", "valid_from", "valid_to")
"""What a table that keeps old rows (layout `history`) has besides."""
LHBENCH = ("key", "value", "value2", "partition")
SAME_KEY = "t.l_orderkey = s.l_orderkey and t.l_linenumber = s.l_linenumber"
MATCHED, NOT_MATCHED, NOT_MATCHED_BY_SOURCE = "MATCHED", "NOT MATCHED", "NOT MATCHED BY SOURCE"


@dataclass(frozen=True)
class Clause:
    """WHEN `match` [AND `condition`] THEN `action`. `values`: the assignments of an UPDATE; None for UPDATE SET *."""

    match: str
    action: str
    condition: str | None = None
    values: Mapping[str, str] | None = None


UPDATE, INSERT, DELETE = Clause(MATCHED, "UPDATE"), Clause(NOT_MATCHED, "INSERT"), Clause(MATCHED, "DELETE")


@dataclass(frozen=True)
class Merge:
    """MERGE INTO the table AS t USING `source` AS s ON `on`."""

    source: str
    clauses: tuple[Clause, ...] = (UPDATE, INSERT)
    on: str = SAME_KEY


@dataclass(frozen=True)
class Update:
    """UPDATE the table SET `values` WHERE `condition`."""

    values: Mapping[str, str]
    condition: str


@dataclass(frozen=True)
class DeleteInsert:
    """Delete the rows of the table whose keys are in `source`, and insert the rows of `source`. `on`: the same keys as a condition."""

    source: str
    keys: tuple[str, ...]
    on: str


@dataclass(frozen=True)
class Overwrite:
    """INSERT OVERWRITE with the rows of `source`, which replaces their partitions, or all rows of a table without partitions."""

    source: str


@dataclass(frozen=True)
class Query:
    """SELECT `select` FROM the table [WHERE `condition`], which returns one row."""

    select: str
    condition: str | None = None


@dataclass(frozen=True)
class Compact:
    """A compaction: it rewrites small files as large ones, and removes deleted rows from files."""


Step = Merge | Update | DeleteInsert | Overwrite | Query | Compact
READERS_OF_SOURCES = (Merge, DeleteInsert, Overwrite)
EVERYTHING = Query("count(*) as n, sum(l_quantity) as q, min(l_shipdate) as d, max(l_comment) as c")


@dataclass(frozen=True)
class Scenario:
    """Steps on a table of one layout, each measured separately.

    `in_row`: whether repetitions continue with the table of the previous one; `{n}` in a source's name is the repetition's number.
    `reads`: the columns that every engine must read for a change. `writes`: SQL over the source (s) or the table (t) for the rows that
    every engine must write. The lower bound reads and writes these, and the columns of queries. `preparation`: the steps that each engine
    runs on its table before the first repetition, which are not measured.
    """

    name: str
    title: str
    steps: Mapping[str, Step | tuple[Step, ...]]
    layout: str = "sorted"
    columns: tuple[str, ...] = COLUMNS
    in_row: bool = False
    reads: tuple[str, ...] = ("l_orderkey", "l_linenumber")
    writes: str | None = "select * from s"
    group: str = "lineitem"
    parameters: Mapping[str, float] = field(default_factory=dict)
    preparation: tuple[Step, ...] = ()


def _one(name: str, title: str, step: Step, **more: object) -> Scenario:
    return Scenario(name, title, {"": step}, **more)  # type: ignore[arg-type]


_OTHER = ("l_quantity", "l_extendedprice", "l_comment")
_DIFFERS = " or ".join(f"t.{name} <> s.{name}" for name in _OTHER)
_CDC = (
    Clause(MATCHED, "DELETE", "s.op = 'D'"),
    Clause(MATCHED, "UPDATE", "s.op = 'U'"),
    Clause(NOT_MATCHED, "INSERT", "s.op = 'I'"),
)
_MIRROR = (Clause(MATCHED, "UPDATE", _DIFFERS), INSERT, Clause(NOT_MATCHED_BY_SOURCE, "DELETE"))
_SNAPSHOT = (
    Clause(MATCHED, "UPDATE", "t.valid_to is null and s.change_type = 'update'", {"valid_to": "s.valid_to"}),
    Clause(NOT_MATCHED, "INSERT", "s.change_type = 'insert'"),
)
SMALL_MERGES = 20
_NEW_KEYS = "select * from s where l_orderkey & 8 <> 0"

LINEITEM = (
    _one("1", "upsert of 1 %, scattered keys", Merge("scattered_1")),
    _one("1u", "the same, table unsorted", Merge("scattered_1"), layout="unsorted"),
    _one("2", "upsert of 1 %, the newest keys", Merge("newest_1")),
    _one("3", "upsert of 10 %, scattered keys", Merge("scattered_10")),
    _one("3t", "upsert of a third, scattered keys", Merge("scattered_33")),
    _one("4", "insert-only merge of 1 %, half is there", Merge("insert_only_1", (INSERT,)), writes=_NEW_KEYS),
    _one("5", "delete by 1 % of the keys", Merge("keys_1", (DELETE,)), writes=None),
    _one("6", "changes: insert, update, delete", Merge("changes_1", _CDC), writes="select * from s where op <> 'D'"),
    _one(
        "7",
        "one column of 5 % by a predicate",
        Update({"l_discount": "l_discount + 0.01"}, "l_shipdate between date '1995-01-01' and date '1995-05-03'"),
        reads=COLUMNS,
        writes="select * from t where l_shipdate between date '1995-01-01' and date '1995-05-03'",
    ),
    _one("8", "a merge of 10 rows", Merge("few_{n}"), in_row=True),
    Scenario(
        "9",
        "20 small merges in a row, a full scan before and after compaction",
        {
            "20 merges": tuple(Merge(f"small_{n}") for n in range(SMALL_MERGES)),
            "scan": EVERYTHING,
            "compaction": Compact(),
            "scan, compacted": EVERYTHING,
        },
    ),
    _one(
        "10",
        "a step of a snapshot (SCD2), 1 % changed",
        Merge("snapshot_1", _SNAPSHOT, "t.scd_id = s.scd_id"),
        layout="history",
        columns=COLUMNS + HISTORY,
        reads=COLUMNS + HISTORY,  # a row with a new valid_to is rewritten with all its columns
    ),
    _one("11", "a source as large as the table", Merge("as_large")),
    _one(
        "12",
        "mirror: NOT MATCHED BY SOURCE DELETE",
        Merge("mirror", _MIRROR),
        reads=("l_orderkey", "l_linenumber", *_OTHER),
        writes="select * from s where l_comment like 'changed%' or l_orderkey & 8 <> 0",
    ),
    _one("13k", "SELECT of one key", Query("count(*) as n, sum(l_quantity) as q", "l_orderkey = 32135"), writes=None),
    _one(
        "13d",
        "SELECT of one day, table sorted by day",
        Query("count(*) as n, sum(l_quantity) as q", "l_shipdate = date '1995-01-17'"),
        layout="by_day",
        writes=None,
    ),
    _one(
        "13s",
        "full scan of 5,000 small files",
        EVERYTHING,
        layout="small_files",
        writes=None,
    ),
)


def _delta_case(kind: str, files: float, matched: float, new: float, clauses: tuple[Clause, ...]) -> Scenario:
    name = f"{kind} {files:g}/{matched:g}/{new:g}"
    source = f"delta_{files:g}_{matched:g}_{new:g}".replace(".", "")
    title = f"{kind}: {files:g} of the files, {matched:g} of their rows, {new:g} new"
    return _one(
        f"D {name}", title, Merge(source, clauses), group="delta", parameters={"files": files, "matched": matched, "new": new},
        writes=None if kind == "delete" else "select * from s" if kind == "upsert" else _NEW_KEYS,
    )  # fmt: skip


DELTA_CASES = (
    *(_delta_case("insert", 0.05, 0, new, (INSERT,)) for new in (0.05, 0.5, 1.0)),
    _delta_case("delete", 0.05, 0.05, 0, (DELETE,)),
    *(_delta_case("upsert", 0.05, matched, 0.1, (UPDATE, INSERT)) for matched in (0, 0.01, 0.1)),
    *(_delta_case("upsert", 0.05, matched, 0.001, (UPDATE, INSERT)) for matched in (0.5, 0.99, 1.0)),
    *(_delta_case("upsert", files, 0.01, 0.001, (UPDATE, INSERT)) for files in (0.5, 1.0)),
)
"""Delta Lake's own MergeBenchmark: how much of the files, of their rows, and of new rows a source has."""

_READS = {f"read {n}": Query("count(*) as n, sum(value) as v, max(value2) as w") for n in (1, 2, 3)}
LHBENCH_CASES = tuple(
    Scenario(
        f"L {permille / 10:g}",
        f"LHBench's merge micro-benchmark, source {permille / 10:g} %",
        {
            **{f"{label} before": step for label, step in _READS.items()},
            "merge": Merge(f"lhbench_{permille}", on="t.key = s.key and t.partition = s.partition"),
            **{f"{label} after": step for label, step in _READS.items()},
        },
        layout="lhbench",
        columns=LHBENCH,
        reads=("key",),  # a partition is a folder
        group="lhbench",
    )
    for permille in (10, 1)
)

SCENARIOS = {scenario.name: scenario for scenario in (*LINEITEM, *DELTA_CASES, *LHBENCH_CASES)}


def scenario_named(name: str) -> Scenario:
    """Return the scenario of a name. Names such as `shape-1-17` are cells of the grid, with the seed and the number of the cell."""
    if not name.startswith("shape-"):
        return SCENARIOS[name]
    from benchmarks.shapes.statements import scenario_of_name

    return scenario_of_name(name)


def steps_of(scenario: Scenario) -> Mapping[str, tuple[Step, ...]]:
    """Return the steps of each label."""
    return {label: step if isinstance(step, tuple) else (step,) for label, step in scenario.steps.items()}


def changes_rows(scenario: Scenario) -> bool:
    """Return whether the scenario changes rows, which are then compared."""
    return any(not isinstance(step, Query | Compact) for steps in steps_of(scenario).values() for step in steps)


def sources_of(scenario: Scenario, repetitions: int) -> list[str]:
    """Return the names of the sources that a scenario reads in this number of repetitions."""
    steps = (*scenario.preparation, *(step for steps in steps_of(scenario).values() for step in steps))
    merges = [step for step in steps if isinstance(step, READERS_OF_SOURCES)]
    numbers = range(repetitions) if scenario.in_row else range(1)
    return list(dict.fromkeys(merge.source.replace("{n}", str(n)) for merge in merges for n in numbers))
