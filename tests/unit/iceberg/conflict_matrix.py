"""The conflict matrix of Iceberg tables: the races of tests/unit/delta/conflict_matrix.py, and those that only Iceberg knows.

The table has that one's three files, an older snapshot without the row 31 of partition `c`, and one position-delete file, of another
engine, that takes the rows 4 and 14 out of two files. Losers that are no statements of ours (rollback, expiry …) are winners only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
from pyiceberg.table.snapshots import Operation
from pyiceberg.table.update import (
    RemovePropertiesUpdate,
    RemoveSnapshotsUpdate,
    SetPropertiesUpdate,
    UpgradeFormatVersionUpdate,
)

from rowmerge.errors import CommitConflict, ConcurrentAppend, ConcurrentDeleteDelete, ConcurrentDeleteRead, MetadataChanged, VersionNotFound
from rowmerge.iceberg import DirectoryOperations, IcebergTable
from rowmerge.iceberg.commits.drop import Drop
from rowmerge.iceberg.maintenance.dropping import drop_table
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.refs import MAIN, point_branch_at
from rowmerge.iceberg.metadata.updates import next_row_id
from rowmerge.iceberg.snapshots.live_files import scope_of
from rowmerge.parquet.data_files import PartitionedWriter
from rowmerge.spark.writing.write import write_spec
from rowmerge.storage.store import Put, Storage
from rowmerge.table.commits.commit import commit
from rowmerge.table.commits.request import CommitRequest, Committed, Conflicted, Reads
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges, Positions
from rowmerge.table.snapshots.snapshot import Snapshot
from tests.support.delta_tables import committed, live_rows
from tests.unit.delta import conflict_matrix as delta
from tests.unit.delta.conflict_matrix import FILES, LOSER, RELATIONS, SCHEMA, Command, Ending, Rows, file_of
from tests.unit.iceberg.foreign_commits import commit_files, deletes_of_many

GONE = (4, 14)
"""Rows that the table has lost before."""
BEFORE = [(id_, FILES[first], "base") for first in FILES for id_ in range(first, first + 4) if id_ not in GONE]
EXTRA = (31, "c", "base")


@dataclass
class Race(delta.Race):
    """The same hands on an Iceberg table. `older`: the snapshot before the newest."""

    older: int = 0

    def file(self, r: int, who: str, *ids: int) -> AddedFile:
        return written(self.lake.table.snapshot(), FILES[file_of(r)], who, ids)

    def by_row(self, operation: str, r: int, who: str, rewrites: bool, into: list[int]) -> CommitRequest:
        first = file_of(r)
        added = (self.file(r, who, *into),) if into else ()
        gone = Positions(id_ - first for id_ in GONE if first <= id_ < first + 4)
        if rewrites:
            rest = self.file(r, "base", *(id_ for id_ in range(first, first + 4) if id_ != r and id_ not in GONE))
            files = FileChanges((*added, rest), (self.paths[first],))
        else:
            files = FileChanges(added, deleted={self.paths[first]: gone | Positions([r - first])})
        return CommitRequest(operation, files=files, reads=self.looked_for(r))

    def compact(self, base: Snapshot, r: int, who: str, rewrites: bool) -> CommitRequest:  # type: ignore[override]
        first = file_of(r)
        files = FileChanges((self.file(r, "base", *(id_ for id_ in range(first, first + 4) if id_ not in GONE)),), (self.paths[first],))
        return CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset({self.paths[first]})), data_change=False)

    def replace(self, base: Snapshot, r: int, who: str, rewrites: bool) -> CommitRequest:  # type: ignore[override]
        definition = TableDefinition(SCHEMA, identities(("p",)), self.properties)
        paths = base.files().paths
        files = FileChanges((self.file(r, who, r + 100),), tuple(paths))
        return CommitRequest("CREATE OR REPLACE TABLE AS SELECT", files=files, definition=definition, replace=True)

    def restore(self, base: Snapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        wanted = self.lake.table.snapshot_at(version=self.older)
        every = frozenset(base.files().paths)
        return CommitRequest("RESTORE", reads=Reads(every, lambda listing: pa.array([True] * len(listing))), restored=wanted)  # type: ignore[arg-type]


def written(snapshot: Snapshot, partition: str, who: str, ids: tuple[int, ...]) -> AddedFile:
    writer = PartitionedWriter(write_spec(snapshot.shape))
    columns = {"id": pa.array(ids, pa.int64()), "who": pa.array([who] * len(ids)), "p": pa.array([partition] * len(ids))}
    writer.write(pa.table(columns))
    (file,) = writer.close()
    return AddedFile(file.path, file.size, file.records, file.partition, file.lower, file.upper, file.nulls)


def _restored(rows: Rows, r: int, who: str) -> Rows:
    return list(BEFORE)


BY_NAME = {command.name: command for command in delta.COMMANDS}
_OTHERS = {
    "compaction": Command("compaction", BY_NAME["compaction"].rows, Race.compact),  # type: ignore[arg-type]
    "replace": Command("replace", BY_NAME["replace"].rows, Race.replace),  # type: ignore[arg-type]
    "metadata": Command("definition", BY_NAME["metadata"].rows, delta.Race.set_property),
    "protocol": Command("restore", _restored, Race.restore),  # type: ignore[arg-type]
}
COMMANDS = tuple(_OTHERS.get(command.name, command) for command in delta.COMMANDS)

# ------------------------------------------------------------------ what only others do


def _rewrite_deletes(race: Race) -> None:
    """The delete file of two data files becomes two."""
    live = race.lake.table.snapshot().live  # type: ignore[attr-defined]
    (shared,) = live.deletes
    storage = race.lake.table._operations.storage  # type: ignore[attr-defined]
    apart = [deletes_of_many(storage, {race.paths[first]: [3]}, *_partition(race)) for first in (1, 11)]
    commit_files(race.lake.table._operations, Operation.REPLACE, apart, [plain_path(shared.file.path)])  # type: ignore[attr-defined]


def _expire(race: Race) -> None:
    _update(race, RemoveSnapshotsUpdate(snapshot_ids=[race.older]))


def _roll_back(race: Race) -> None:
    _update(race, point_branch_at(race.lake.table._operations.current().metadata, MAIN, race.older))  # type: ignore[attr-defined]


def _back_and_forward(race: Race) -> None:
    newest = race.lake.table.snapshot().version
    _roll_back(race)
    _update(race, point_branch_at(race.lake.table._operations.current().metadata, MAIN, newest))  # type: ignore[attr-defined]


def _update(race: Race, *updates: object) -> None:
    operations = race.lake.table._operations  # type: ignore[attr-defined]
    current = operations.current()
    assert current is not None
    assert operations.commit(current, updates) is Put.CREATED


def _partition(race: Race) -> tuple[int, tuple[str]]:
    return race.lake.table.snapshot().metadata.default_spec_id, ("a",)  # type: ignore[attr-defined]


def _drop_and_create(race: Race) -> None:
    table = race.lake.table
    drop_table(table._operations.storage, "s.t")  # type: ignore[attr-defined]
    definition = TableDefinition(SCHEMA, identities(("p",)), race.properties, None)
    committed(opened(Path(table.location.removeprefix("file://"))).create(definition, CommitRequest("CREATE TABLE")))


def clean_metadata(race: Race) -> None:
    """Replace the metadata often enough that the file of every earlier version is deleted, and end with the same properties."""
    table = race.lake.table
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    for _ in range(2):
        _update(race, SetPropertiesUpdate(updates=properties))
        _update(race, RemovePropertiesUpdate(removals=list(properties)))
    assert not Path(table.location.removeprefix("file://"), "metadata/v1.metadata.json").exists()


MAINTENANCE: Mapping[str, tuple[Callable[[Race], None], Callable[[Rows], Rows]]] = {
    "rewrite of delete files": (_rewrite_deletes, list),
    "expiry": (_expire, list),
    "rollback": (_roll_back, lambda rows: list(BEFORE)),
    "back and forward": (_back_and_forward, list),
    "drop and creation": (_drop_and_create, lambda rows: []),
    "cleanup of metadata": (clean_metadata, list),
}
"""Winners, which have no rows in common with anybody, and what they make of the rows."""
LOSERS = (*(command.name for command in COMMANDS), "cleanup of metadata", "drop")
"""The last two are no commits on a version. They come last, because they end the metadata that the others race in."""

# ------------------------------------------------------------------ races


@dataclass
class Place:
    """Where a table lies."""

    table: IcebergTable


def opened(folder: Path) -> IcebergTable:
    return IcebergTable(DirectoryOperations(Storage(str(folder)), "s.t"), "s.t")


def begun(folder: Path, level: str, format_version: int = 2) -> Race:
    """A new table, raised to a format version when it has its delete file."""
    table = opened(folder)
    properties = {f"write.{operation}.isolation-level": level for operation in ("merge", "update", "delete")}
    committed(table.create(TableDefinition(SCHEMA, identities(("p",)), properties, None), CommitRequest("CREATE TABLE")))
    race = Race(Place(table), {}, properties)  # type: ignore[arg-type]
    files = {first: race.file(first, "base", *range(first, first + 4)) for first in FILES}
    committed(table.commit(table.snapshot(), CommitRequest("WRITE", files=FileChanges(tuple(files.values())))))
    race = replace(race, paths={first: file.path for first, file in files.items()})
    shared = deletes_of_many(table._operations.storage, {race.paths[first]: [3] for first in (1, 11)}, *_partition(race))
    older = commit_files(table._operations, Operation.DELETE, [shared])
    extra = written(table.snapshot(), "c", "base", (31,))
    committed(table.commit(table.snapshot(), CommitRequest("WRITE", files=FileChanges((extra,)))))
    if format_version > 2:
        _update(race, UpgradeFormatVersionUpdate(format_version=format_version))
    return replace(race, older=older)


def endings(folder: Path, winner: str, level: str, relation: str, format_version: int = 2) -> dict[str, Ending]:
    """By loser, how it ends. The winner commits once; each loser, planned before, comes after it, and its metadata is taken away again."""
    race, r = begun(folder, level, format_version), RELATIONS[relation]
    table, metadata = race.lake.table, folder / "metadata"
    base, before = table.snapshot(), [*BEFORE, EXTRA]
    # Files that are needed are written before the winner comes, as statements do.
    losers = {command.name: command.change(race, base, LOSER, "loser", command.rewrites) for command in COMMANDS}  # type: ignore[arg-type]
    drop = Drop(DirectoryOperations(Storage(str(folder)), "s.t"), "s.t")
    if winner in MAINTENANCE:
        act, rows_after = MAINTENANCE[winner]
        act(race)
        won: Callable[[Rows], Rows] = rows_after
    else:
        command = next(known for known in COMMANDS if known.name == winner)
        committed(table.commit(base, command.change(race, base, r, "winner", command.rewrites)))  # type: ignore[arg-type]
        won = lambda rows: command.rows(rows, r, "winner")  # noqa: E731
    kept, after, found = set(metadata.iterdir()), sorted(won(before)), {}
    hint = (metadata / "version-hint.text").read_bytes()
    for loser in COMMANDS:
        try:
            outcome = table.commit(base, losers[loser.name])
        except VersionNotFound:
            found[loser.name] = Ending("V", after, after, after)
            continue
        if isinstance(outcome, Committed):
            rows = rows_in(folder)
            check_vectors_and_ids(opened(folder))
            other = sorted(won(loser.rows(before, LOSER, "loser")))
            found[loser.name] = Ending("+" if outcome.rebases else ".", rows, sorted(loser.rows(after, LOSER, "loser")), other)
        else:
            assert isinstance(outcome, Conflicted), outcome
            assert not {path for path in metadata.iterdir() if path.name.endswith(".json")} - kept
            found[loser.name] = Ending(SIGNS[type(outcome.conflict)], after, after, after)
        for path in set(metadata.iterdir()) - kept:
            path.unlink()
        (metadata / "version-hint.text").write_bytes(hint)
    clean_metadata(replace(race, lake=Place(opened(folder))))  # type: ignore[arg-type]
    found["cleanup of metadata"] = Ending(".", rows_in(folder), after, after)
    outcome = commit(drop, Storage(str(folder)), FileChanges())
    is_dropped = isinstance(outcome, Committed)
    left = [] if is_dropped else after
    sign = "." if is_dropped else SIGNS[type(outcome.conflict)]  # type: ignore[union-attr]
    found["drop"] = Ending(sign, [] if is_dropped else rows_in(folder), left, left)
    assert opened(folder).exists() is not is_dropped
    return found


def rows_in(folder: Path) -> Rows:
    return sorted((row["id"], row["p"], row["who"]) for row in live_rows(opened(folder).snapshot()).to_pylist())


def check_vectors_and_ids(table: IcebergTable) -> None:
    """A data file has one vector at most, and no two files give a row one id."""
    live, metadata = table.snapshot().live, table.snapshot().metadata
    marked = [scope_of(delete) for delete in live.deletes if delete.file.format == "PUFFIN"]
    assert len(marked) == len(set(marked))
    ids = [id_ for e in live.data if (first := e.file.first_row_id) is not None for id_ in range(first, first + e.file.records)]
    assert len(ids) == len(set(ids)) and all(id_ < (next_row_id(metadata) or 0) for id_ in ids)


SIGNS: dict[type[CommitConflict], str] = {
    ConcurrentAppend: "A",
    ConcurrentDeleteRead: "R",
    ConcurrentDeleteDelete: "D",
    MetadataChanged: "M",
}

# ------------------------------------------------------------------ what must come of them

SERIALIZABLE = """
append                  .... ...A ...A ...A ...A ...A .AAA .... .... .... AAAA .... ....
insert-only merge       .... ...A ...A ...A ...A ...A .AAA .... .... .... AAAA .... ....
merge                   .... ...A ..+A ..+A ..+A ..DA .AAA .... ..RR .... AAAA .... ....
update                  .... ...A ..+A ..+A ..+A ..DA .AAA .... ..RR .... AAAA .... ....
delete                  .... ...R ..+D ..+D ..+D ..DD .RRR .... ..RR .... RRRR .... ....
copy-on-write           .... ..AA ..AA ..AA ..AA ..AA .AAA .... ..RR .... AAAA .... ....
overwrite               .... .RRA .RRA .RRA .RRA .RRA .AAA .... .RRR .... AAAA .... ....
replace                 MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM .... ....
compaction              .... .... ..RR ..RR ..RR ..RR .RRR .... ..RR .... .... .... ....
definition              MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM .... ....
restore                 MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM .... ....
rewrite of delete files . . . . . . . . . . . . .
expiry                  . . . . . . . . . . V . .
rollback                M M M M M M M M M M M . .
back and forward        . . . . . . . . . . . . .
drop and creation       M M M M M M M M M M M . M
cleanup of metadata     . . . . . . . . . . . . .
"""
SNAPSHOT = """
append                  .... .... .... .... .... .... .AAA .... .... .... AAAA .... ....
update                  .... ...R ..+D ..+D ..+D ..DD .AAA .... ..RR .... AAAA .... ....
copy-on-write           .... ..RR ..RR ..RR ..RR ..RR .AAA .... ..RR .... AAAA .... ....
overwrite               .... .RRR .RRR .RRR .RRR .RRR .AAA .... .RRR .... AAAA .... ....
"""
"""The winners that make a difference; all others end as under serializable."""
OTHERS = (*(line[:24].strip() for line in SNAPSHOT.strip().splitlines()), "insert-only merge")
"""Those, and one that makes none for the sake of a rule of its own."""
WINNERS = (*(command.name for command in COMMANDS), *MAINTENANCE)


RACES = [
    (winner, level, format_version, relation)
    for level, format_version, winners in (
        ("serializable", 2, WINNERS),
        ("snapshot", 2, OTHERS),
        ("serializable", 3, ("append", "merge", "delete", "compaction")),
    )
    for winner in winners
    for relation in (RELATIONS if winner not in MAINTENANCE else ["same rows"])
]
"""Winner, isolation level, format version and relation of each table in which all losers race."""


def expected(level: str, winner: str, relation: str) -> dict[str, str]:
    """Return by loser the sign of its race against the winner in this relation."""
    index = 0 if winner in MAINTENANCE else list(RELATIONS).index(relation)
    return {loser: signs[index] for loser, signs in expected_signs(level, winner).items()}


def expected_signs(level: str, winner: str) -> dict[str, str]:
    """Return by loser the signs of its races against the winner, one for each relation that the winner runs in."""
    lines = {line[:24].strip(): line[24:].split() for line in SERIALIZABLE.strip().splitlines()}
    if level == "snapshot":
        lines |= {line[:24].strip(): line[24:].split() for line in SNAPSHOT.strip().splitlines()}
    return dict(zip(LOSERS, lines[winner], strict=True))


def tables() -> str:
    """The tables of docs/conflicts.md about Iceberg."""
    names = LOSERS
    found = []
    for level, winners in (("serializable (default)", WINNERS), ("snapshot", OTHERS[:-1])):
        lines = [f"#### {level}", "", f"| first commit ↓ later statement → | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
        for winner in winners:
            cells = expected_signs(level.split()[0], winner)
            lines.append(f"| **{winner}** | {' | '.join(f'`{cells[loser]}`' for loser in names)} |")
        found.append("\n".join(lines))
    return "\n\n".join(found)
