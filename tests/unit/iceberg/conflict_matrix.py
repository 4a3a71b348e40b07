"""Conflict matrix of Iceberg tables: the races of tests/unit/delta/conflict_matrix.py, and those that exist only in Iceberg.

The table has the same three files, and an older snapshot without the row 31 of partition `c`. One position-delete file of another engine
deletes the rows 4 and 14 of two files. Changes without a statement in rowmerge, such as rollback and expiry, are winners only.
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
from rowmerge.parquet.file_writers import PartitionedWriter
from rowmerge.spark.writing.specs import write_spec
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

DELETED_IDS = (4, 14)
"""Rows deleted before the race."""
INITIAL_ROWS = [(id_, FILES[first], "base") for first in FILES for id_ in range(first, first + 4) if id_ not in DELETED_IDS]
EXTRA = (31, "c", "base")


@dataclass
class Race(delta.Race):
    """The race of the Delta matrix on an Iceberg table. `older`: the snapshot before the newest one."""

    older: int = 0

    def file(self, r: int, who: str, *ids: int) -> AddedFile:
        return write_file(self.lake.table.snapshot(), FILES[file_of(r)], who, ids)

    def by_row(self, operation: str, r: int, who: str, rewrites: bool, into: list[int]) -> CommitRequest:
        first = file_of(r)
        added = (self.file(r, who, *into),) if into else ()
        deleted = Positions(id_ - first for id_ in DELETED_IDS if first <= id_ < first + 4)
        if rewrites:
            unmatched = self.file(r, "base", *(id_ for id_ in range(first, first + 4) if id_ != r and id_ not in DELETED_IDS))
            files = FileChanges((*added, unmatched), (self.paths[first],))
        else:
            files = FileChanges(added, deleted={self.paths[first]: deleted | Positions([r - first])})
        return CommitRequest(operation, files=files, reads=self.looked_for(r))

    def compact(self, base: Snapshot, r: int, who: str, rewrites: bool) -> CommitRequest:  # type: ignore[override]
        first = file_of(r)
        files = FileChanges(
            (self.file(r, "base", *(id_ for id_ in range(first, first + 4) if id_ not in DELETED_IDS)),), (self.paths[first],)
        )
        return CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset({self.paths[first]})), data_change=False)

    def replace(self, base: Snapshot, r: int, who: str, rewrites: bool) -> CommitRequest:  # type: ignore[override]
        definition = TableDefinition(SCHEMA, identities(("p",)), self.properties)
        paths = base.files().paths
        files = FileChanges((self.file(r, who, r + 100),), tuple(paths))
        return CommitRequest("CREATE OR REPLACE TABLE AS SELECT", files=files, definition=definition, replace=True)

    def restore(self, base: Snapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        older_snapshot = self.lake.table.snapshot_at(version=self.older)
        every = frozenset(base.files().paths)
        return CommitRequest("RESTORE", reads=Reads(every, lambda listing: pa.array([True] * len(listing))), restored=older_snapshot)  # type: ignore[arg-type]


def write_file(snapshot: Snapshot, partition: str, who: str, ids: tuple[int, ...]) -> AddedFile:
    writer = PartitionedWriter(write_spec(snapshot.shape))
    columns = {"id": pa.array(ids, pa.int64()), "who": pa.array([who] * len(ids)), "p": pa.array([partition] * len(ids))}
    writer.write(pa.table(columns))
    (file,) = writer.close()
    return AddedFile(file.path, file.size, file.records, file.partition, file.lower, file.upper, file.nulls)


def _restored(rows: Rows, r: int, who: str) -> Rows:
    return list(INITIAL_ROWS)


BY_NAME = {command.name: command for command in delta.COMMANDS}
_OTHERS = {
    "compaction": Command("compaction", BY_NAME["compaction"].rows, Race.compact),  # type: ignore[arg-type]
    "replace": Command("replace", BY_NAME["replace"].rows, Race.replace),  # type: ignore[arg-type]
    "metadata": Command("definition", BY_NAME["metadata"].rows, delta.Race.set_property),
    "protocol": Command("restore", _restored, Race.restore),  # type: ignore[arg-type]
}
COMMANDS = tuple(_OTHERS.get(command.name, command) for command in delta.COMMANDS)

# ------------------------------------------------------------------ changes of other engines


def _rewrite_deletes(race: Race) -> None:
    """Replace the delete file of two data files by two delete files."""
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
    committed(open_table(Path(table.location.removeprefix("file://"))).create(definition, CommitRequest("CREATE TABLE")))


def clean_metadata(race: Race) -> None:
    """Commit often enough to delete the metadata of all earlier versions, and end with the same properties."""
    table = race.lake.table
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    for _ in range(2):
        _update(race, SetPropertiesUpdate(updates=properties))
        _update(race, RemovePropertiesUpdate(removals=list(properties)))
    assert not Path(table.location.removeprefix("file://"), "metadata/v1.metadata.json").exists()


MAINTENANCE: Mapping[str, tuple[Callable[[Race], None], Callable[[Rows], Rows]]] = {
    "rewrite of delete files": (_rewrite_deletes, list),
    "expiry": (_expire, list),
    "rollback": (_roll_back, lambda rows: list(INITIAL_ROWS)),
    "back and forward": (_back_and_forward, list),
    "drop and creation": (_drop_and_create, lambda rows: []),
    "cleanup of metadata": (clean_metadata, list),
}
"""Winners without rows in common with other commands, and their effect on the rows."""
LOSERS = (*(command.name for command in COMMANDS), "cleanup of metadata", "drop")
"""The last two are not commits on a version. They run last, because they end the metadata in which the others race."""

# ------------------------------------------------------------------ races


@dataclass
class Place:
    """A holder of a table."""

    table: IcebergTable


def open_table(folder: Path) -> IcebergTable:
    return IcebergTable(DirectoryOperations(Storage(str(folder)), "s.t"), "s.t")


def create_race(folder: Path, level: str, format_version: int = 2) -> Race:
    """Create the table of a race, upgraded to a format version after its delete file exists."""
    table = open_table(folder)
    properties = {f"write.{operation}.isolation-level": level for operation in ("merge", "update", "delete")}
    committed(table.create(TableDefinition(SCHEMA, identities(("p",)), properties, None), CommitRequest("CREATE TABLE")))
    race = Race(Place(table), {}, properties)  # type: ignore[arg-type]
    files = {first: race.file(first, "base", *range(first, first + 4)) for first in FILES}
    committed(table.commit(table.snapshot(), CommitRequest("WRITE", files=FileChanges(tuple(files.values())))))
    race = replace(race, paths={first: file.path for first, file in files.items()})
    shared = deletes_of_many(table._operations.storage, {race.paths[first]: [3] for first in (1, 11)}, *_partition(race))
    older = commit_files(table._operations, Operation.DELETE, [shared])
    extra = write_file(table.snapshot(), "c", "base", (31,))
    committed(table.commit(table.snapshot(), CommitRequest("WRITE", files=FileChanges((extra,)))))
    if format_version > 2:
        _update(race, UpgradeFormatVersionUpdate(format_version=format_version))
    return replace(race, older=older)


def endings(folder: Path, winner: str, level: str, relation: str, format_version: int = 2) -> dict[str, Ending]:
    """Return the outcome of the race by loser.

    The winner commits, then each loser, planned earlier, commits and its metadata is removed.
    """
    race, r = create_race(folder, level, format_version), RELATIONS[relation]
    table, metadata = race.lake.table, folder / "metadata"
    base, initial_rows = table.snapshot(), [*INITIAL_ROWS, EXTRA]
    # Write the losers' files before the winner commits, as statements do.
    losers = {command.name: command.change(race, base, LOSER, "loser", command.rewrites) for command in COMMANDS}  # type: ignore[arg-type]
    drop = Drop(DirectoryOperations(Storage(str(folder)), "s.t"), "s.t")
    if winner in MAINTENANCE:
        act, rows_after = MAINTENANCE[winner]
        act(race)
        apply_winner: Callable[[Rows], Rows] = rows_after
    else:
        command = next(other for other in COMMANDS if other.name == winner)
        committed(table.commit(base, command.change(race, base, r, "winner", command.rewrites)))  # type: ignore[arg-type]
        apply_winner = lambda rows: command.rows(rows, r, "winner")  # noqa: E731
    original_files, winner_rows, results = set(metadata.iterdir()), sorted(apply_winner(initial_rows)), {}
    initial_hint = (metadata / "version-hint.text").read_bytes()
    for loser in COMMANDS:
        try:
            outcome = table.commit(base, losers[loser.name])
        except VersionNotFound:
            results[loser.name] = Ending("V", winner_rows, winner_rows, winner_rows)
            continue
        if isinstance(outcome, Committed):
            rows = rows_in(folder)
            check_vectors_and_ids(open_table(folder))
            other = sorted(apply_winner(loser.rows(initial_rows, LOSER, "loser")))
            results[loser.name] = Ending("+" if outcome.rebases else ".", rows, sorted(loser.rows(winner_rows, LOSER, "loser")), other)
        else:
            assert isinstance(outcome, Conflicted), outcome
            assert not {path for path in metadata.iterdir() if path.name.endswith(".json")} - original_files
            results[loser.name] = Ending(SIGNS[type(outcome.conflict)], winner_rows, winner_rows, winner_rows)
        for path in set(metadata.iterdir()) - original_files:
            path.unlink()
        (metadata / "version-hint.text").write_bytes(initial_hint)
    clean_metadata(replace(race, lake=Place(open_table(folder))))  # type: ignore[arg-type]
    results["cleanup of metadata"] = Ending(".", rows_in(folder), winner_rows, winner_rows)
    outcome = commit(drop, Storage(str(folder)), FileChanges())
    is_dropped = isinstance(outcome, Committed)
    rows = [] if is_dropped else winner_rows
    sign = "." if is_dropped else SIGNS[type(outcome.conflict)]  # type: ignore[union-attr]
    results["drop"] = Ending(sign, [] if is_dropped else rows_in(folder), rows, rows)
    assert open_table(folder).exists() is not is_dropped
    return results


def rows_in(folder: Path) -> Rows:
    return sorted((row["id"], row["p"], row["who"]) for row in live_rows(open_table(folder).snapshot()).to_pylist())


def check_vectors_and_ids(table: IcebergTable) -> None:
    """Assert that a data file has at most one vector and that row ids are unique."""
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

# ------------------------------------------------------------------ expected outcomes

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
"""The only winners with other outcomes than under serializable."""
OTHERS = (*(line[:24].strip() for line in SNAPSHOT.strip().splitlines()), "insert-only merge")
"""These winners, and one without a difference that covers another rule."""
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
"""Winner, isolation level, format version and relation of each table on which all losers race."""


def expected(level: str, winner: str, relation: str) -> dict[str, str]:
    """Return the sign of the race by loser, for a winner in this relation."""
    index = 0 if winner in MAINTENANCE else list(RELATIONS).index(relation)
    return {loser: signs[index] for loser, signs in expected_signs(level, winner).items()}


def expected_signs(level: str, winner: str) -> dict[str, str]:
    """Return the signs of the races by loser, one for each relation of the winner."""
    lines = {line[:24].strip(): line[24:].split() for line in SERIALIZABLE.strip().splitlines()}
    if level == "snapshot":
        lines |= {line[:24].strip(): line[24:].split() for line in SNAPSHOT.strip().splitlines()}
    return dict(zip(LOSERS, lines[winner], strict=True))


def tables() -> str:
    """Return the Iceberg tables of docs/conflicts.md."""
    names = LOSERS
    parts = []
    for level, winners in (("serializable (default)", WINNERS), ("snapshot", OTHERS[:-1])):
        lines = [f"#### {level}", "", f"| first commit ↓ later statement → | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
        for winner in winners:
            cells = expected_signs(level.split()[0], winner)
            lines.append(f"| **{winner}** | {' | '.join(f'`{cells[loser]}`' for loser in names)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
