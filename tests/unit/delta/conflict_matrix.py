"""The conflict matrix: every command as winner and as loser of a race, made by real commits on real files.

The table has three files: the ids 1 to 4 and 11 to 14 in partition `a`, 21 to 24 in `b`. A command works on the keys r and r + 100; r is
a row that exists, r + 100 one that does not. The loser's r is 3; the winner's r makes the relation of the two.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import deltalake
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.delta.commits.drop import Drop
from rowmerge.delta.maintenance.dropping import drop_table
from rowmerge.delta.snapshots.snapshot import DeltaSnapshot
from rowmerge.errors import (
    ChecksumMismatch,
    CommitConflict,
    ConcurrentAppend,
    ConcurrentDeleteDelete,
    ConcurrentDeleteRead,
    MetadataChanged,
    ProtocolChanged,
)
from rowmerge.storage.store import Storage
from rowmerge.table.commits.commit import commit
from rowmerge.table.commits.request import CommitRequest, Committed, Reads, Unknown
from rowmerge.table.metadata.partitioning import identities
from rowmerge.table.metadata.schema import Field, Primitive, Struct
from rowmerge.table.metadata.shape import TableDefinition
from rowmerge.table.snapshots.files import AddedFile, FileChanges, FileListing, Positions
from tests.support.delta_tables import Lake, committed, live_rows

LEVELS = ("WriteSerializable", "Serializable")
RELATIONS = {"other partition": 21, "same partition": 11, "same file": 1, "same rows": 3}
"""What winner and loser have in common at most, and the winner's r."""
LOSER = 3
FILES = {1: "a", 11: "a", 21: "b"}
"""The first id of each file, and its partition."""

Rows = list[tuple[int, str, str]]
"""Id, partition and last writer."""


def keys(r: int) -> tuple[int, int]:
    return r, r + 100


def file_of(r: int) -> int:
    return max(first for first in FILES if first <= r)


@dataclass(frozen=True)
class Command:
    """What a command makes of the rows, and of the files. `rewrites`: copy-on-write rather than a deletion vector."""

    name: str
    rows: Callable[[Rows, int, str], Rows]
    change: Callable[[Race, DeltaSnapshot, int, str, bool], CommitRequest]
    rewrites: bool = False


# ------------------------------------------------------------------ what commands make of rows


def _appended(rows: Rows, r: int, who: str) -> Rows:
    return [*rows, (r + 100, FILES[file_of(r)], who)]


def _inserted(rows: Rows, r: int, who: str) -> Rows:
    there = {row[0] for row in rows}
    return [*rows, *((key, FILES[file_of(r)], who) for key in keys(r) if key not in there)]


def _merged(rows: Rows, r: int, who: str) -> Rows:
    return _inserted(_updated(rows, r, who), r, who)


def _updated(rows: Rows, r: int, who: str) -> Rows:
    return [(id_, partition, who if id_ in keys(r) else writer) for id_, partition, writer in rows]


def _deleted(rows: Rows, r: int, who: str) -> Rows:
    return [row for row in rows if row[0] not in keys(r)]


def _overwritten(rows: Rows, r: int, who: str) -> Rows:
    return _appended([row for row in rows if row[1] != FILES[file_of(r)]], r, who)


def _replaced(rows: Rows, r: int, who: str) -> Rows:
    return _appended([], r, who)


def _unchanged(rows: Rows, r: int, who: str) -> Rows:
    return rows


# ------------------------------------------------------------------ what they make of files


@dataclass
class Race:
    """One table, and the hands that write its files."""

    lake: Lake
    paths: Mapping[int, str]
    properties: Mapping[str, str]

    def file(self, r: int, who: str, *ids: int) -> AddedFile:
        partition = FILES[file_of(r)]
        rows = pa.table({"id": pa.array(ids, pa.int64()), "who": pa.array([who] * len(ids), pa.string())})
        return self.lake.write(rows, f"p={partition}", {"p": partition})

    def append(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        return CommitRequest("WRITE", files=FileChanges((self.file(r, who, r + 100),)))

    def insert_only(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        """The row of r keeps its source row from being inserted."""
        reads = replace(self.looked_for(r), rows={self.paths[file_of(r)]: Positions([r - file_of(r)])})
        return CommitRequest("MERGE", files=FileChanges((self.file(r, who, r + 100),)), reads=reads)

    def merge(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        return self.by_row("MERGE", r, who, rewrites, [r, r + 100])

    def update(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        return self.by_row("UPDATE", r, who, rewrites, [r])

    def delete(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        return self.by_row("DELETE", r, who, rewrites, [])

    def by_row(self, operation: str, r: int, who: str, rewrites: bool, written: list[int]) -> CommitRequest:
        first = file_of(r)
        added = (self.file(r, who, *written),) if written else ()
        if rewrites:
            rest = self.file(r, "base", *(id_ for id_ in range(first, first + 4) if id_ != r))
            files = FileChanges((*added, rest), (self.paths[first],))
        else:
            files = FileChanges(added, deleted={self.paths[first]: Positions([r - first])})
        return CommitRequest(operation, files=files, reads=self.looked_for(r))

    def looked_for(self, r: int) -> Reads:
        """What a command that looks for the keys of r has read: files by their bounds, and of added files the rows themselves."""
        wanted = pa.array(keys(r), pa.int64())

        def may_match(listing: FileListing) -> pa.Array:
            low, high = (pc.struct_field(listing.rows[side].combine_chunks(), ["id"]) for side in ("lower", "upper"))
            hits = [pc.and_(pc.less_equal(low, key), pc.greater_equal(high, key)) for key in keys(r)]
            return pc.or_(*hits)

        def matching(files: FileListing) -> pa.Array:
            read = [pq.read_table(path[len("file://") :], partitioning=None)["id"] for path in files.paths]
            return pa.array([pc.any(pc.is_in(ids, value_set=wanted)).as_py() for ids in read], pa.bool_())

        return Reads(frozenset({self.paths[file_of(r)]}), may_match, ("id",), {}, matching)

    def overwrite(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        partition = FILES[file_of(r)]
        leaving = [path for first, path in self.paths.items() if FILES[first] == partition]

        def same_partition(listing: FileListing) -> pa.Array:
            return pc.equal(pc.struct_field(listing.partitions, ["p"]), partition)

        files = FileChanges((self.file(r, who, r + 100),), tuple(leaving))
        return CommitRequest("WRITE", files=files, reads=Reads(frozenset(leaving), same_partition))

    def replace(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        definition = TableDefinition(SCHEMA, identities(("p",)), self.properties)
        files = FileChanges((self.file(r, who, r + 100),), tuple(self.paths.values()))
        return CommitRequest("CREATE OR REPLACE TABLE AS SELECT", files=files, definition=definition, replace=True)

    def compact(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        first = file_of(r)
        files = FileChanges((self.file(r, "base", *range(first, first + 4)),), (self.paths[first],))
        return CommitRequest("OPTIMIZE", files=files, reads=Reads(frozenset({self.paths[first]})), data_change=False)

    def set_property(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        return CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={**base.settings.properties, "owner": who}))

    def upgrade(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        feature = {"winner": {"delta.checkpointPolicy": "v2"}, "loser": {"delta.feature.vacuumProtocolCheck": "supported"}}[who]
        return CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={**base.settings.properties, **feature}))


SCHEMA = Struct((Field("id", Primitive("long")), Field("who", Primitive("string")), Field("p", Primitive("string"))))
COMMANDS = (
    Command("append", _appended, Race.append),
    Command("insert-only merge", _inserted, Race.insert_only),
    Command("merge", _merged, Race.merge),
    Command("update", _updated, Race.update),
    Command("delete", _deleted, Race.delete),
    Command("copy-on-write", _updated, Race.update, rewrites=True),
    Command("overwrite", _overwritten, Race.overwrite),
    Command("replace", _replaced, Race.replace),
    Command("compaction", _unchanged, Race.compact),
    Command("metadata", _unchanged, Race.set_property),
    Command("protocol", _unchanged, Race.upgrade),
)
"""merge, update and delete mark rows in deletion vectors; `copy-on-write` is an update that rewrites its file, as all three would."""

# ------------------------------------------------------------------ what happens to the log


def _drop_and_create(race: Race) -> None:
    drop_table(Storage(str(race.lake.folder)), "s.t")
    committed(Lake(race.lake.folder, SCHEMA, ("p",)).create(properties=race.properties))


def clean_log(race: Race) -> None:
    """Clean the log as delta-rs does, after two commits that change no row."""
    for value in ("1", "2"):
        change = CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={**race.properties, "owner": value}))
        committed(race.lake.table.commit(race.lake.table.snapshot(), change))
    # The retention of a second is over.
    for file in race.lake.log.iterdir():
        os.utime(file, (time.time() - 2, time.time() - 2))
    theirs = deltalake.DeltaTable(str(race.lake.folder))
    theirs.create_checkpoint()
    theirs.cleanup_metadata()


MAINTENANCE: Mapping[str, tuple[Callable[[Race], None], Callable[[Rows], Rows]]] = {
    "drop and creation": (_drop_and_create, lambda rows: []),
    "cleanup of the log": (clean_log, list),
}
"""Winners that have no rows in common with anybody, and what they make of the rows."""
LAST_LOSERS = ("cleanup of the log", "drop")
"""Losers that are no commits on a version. They come last, because they end the log that the others race in."""
LOSERS = (*(command.name for command in COMMANDS), *LAST_LOSERS)
WINNERS = (*(command.name for command in COMMANDS), *MAINTENANCE)

# ------------------------------------------------------------------ races

RACES = [
    (winner, level, relation)
    for winner in WINNERS
    for level in LEVELS
    for relation in (RELATIONS if winner not in MAINTENANCE else ["same rows"])
]
"""Winner, isolation level and relation of each table in which all losers race."""


def begun(folder: Path, level: str) -> Race:
    """A new table."""
    lake = Lake(folder, SCHEMA, ("p",))
    properties = {"delta.isolationLevel": level, "delta.enableDeletionVectors": "true", "delta.logRetentionDuration": "interval 1 seconds"}
    race = Race(lake, {}, properties)
    files = {first: race.file(first, "base", *range(first, first + 4)) for first in FILES}
    committed(lake.create(*files.values(), properties=properties))
    return replace(race, paths={first: file.path for first, file in files.items()})


@dataclass(frozen=True)
class Ending:
    """How a race ended: the sign of the table, the rows that are there then, and those of winner, loser and of loser, winner."""

    sign: str
    rows: Rows
    in_order: Rows
    other_order: Rows


def endings(folder: Path, winner: str, level: str, relation: str) -> dict[str, Ending]:
    """By loser, how it ends. The winner commits; each loser, planned before, comes after it, and is taken out of the log again."""
    race, r = begun(folder, level), RELATIONS[relation]
    base = race.lake.table.snapshot()
    # Files that are needed are written before the winner comes, as statements do.
    losers = {command.name: command.change(race, base, LOSER, "loser", command.rewrites) for command in COMMANDS}
    drop = Drop(Storage(str(folder)), "s.t")
    if winner in MAINTENANCE:
        act, won = MAINTENANCE[winner]
        act(race)
    else:
        command = next(command for command in COMMANDS if command.name == winner)
        committed(race.lake.table.commit(base, command.change(race, base, r, "winner", command.rewrites)))
        won = lambda rows: command.rows(rows, r, "winner")  # noqa: E731
    before = [(id_, FILES[first], "base") for first in FILES for id_ in range(first, first + 4)]
    after, log = sorted(won(before)), set(race.lake.log.iterdir())
    found = {}
    for loser in COMMANDS:
        outcome = race.lake.table.commit(base, losers[loser.name])
        written = {path for path in race.lake.log.iterdir() if path not in log}
        if isinstance(outcome, Committed):
            other = sorted(won(loser.rows(before, LOSER, "loser")))
            found[loser.name] = Ending("+" if outcome.rebases else ".", rows_in(folder), sorted(loser.rows(after, LOSER, "loser")), other)
        elif isinstance(outcome, Unknown):
            # Its commit lies below a checkpoint, where no reader applies it.
            found[loser.name] = Ending("U", rows_in(folder), after, after)
        else:
            assert not written
            found[loser.name] = Ending(SIGNS[type(outcome.conflict)], after, after, after)
        for path in written:
            path.unlink()
    clean_log(replace(race, lake=Lake(folder, SCHEMA, ("p",))))
    found["cleanup of the log"] = Ending(".", rows_in(folder), after, after)
    outcome = commit(drop, Storage(str(folder)), FileChanges())
    is_dropped = isinstance(outcome, Committed)
    left = [] if is_dropped else after
    found["drop"] = Ending("." if is_dropped else SIGNS[type(outcome.conflict)], left if is_dropped else rows_in(folder), left, left)  # type: ignore[union-attr]
    assert Lake(folder).table.exists() is not is_dropped
    return found


def rows_in(folder: Path) -> Rows:
    """Return the rows of a table, no rows for a version that its checksum contradicts."""
    try:
        rows = live_rows(Lake(folder).table.snapshot())
    except ChecksumMismatch:
        return []
    return sorted((row["id"], row["p"], row["who"]) for row in rows.to_pylist())


SIGNS: dict[type[CommitConflict], str] = {
    ConcurrentAppend: "A",
    ConcurrentDeleteRead: "R",
    ConcurrentDeleteDelete: "D",
    MetadataChanged: "M",
    ProtocolChanged: "P",
}

# ------------------------------------------------------------------ what must come of them

WRITE_SERIALIZABLE = """
append             .... .... .... .... .... .... .... .... .... .... .... .... ....
insert-only merge  .... ...A ...A ...A ...A ...A .AAA .... .... .... .... .... ....
merge              .... ...A ..+A ..+A ..+A ..DA .AAA .... ..RR .... .... .... ....
update             .... ...A ..+A ..+A ..+A ..DA .AAA .... ..RR .... .... .... ....
delete             .... ...R ..+D ..+D ..+D ..DD .RRR .... ..RR .... .... .... ....
copy-on-write      .... ..AA ..AA ..AA ..AA ..AA .AAA .... ..RR .... .... .... ....
overwrite          .... .RRA .RRA .RRA .RRA .RRA .AAA .... .RRR .... .... .... ....
replace            .... RRRA RRRA RRRA RRRA RRRA RAAA .... RRRR .... .... .... ....
compaction         .... ..RR ..RR ..RR ..RR ..RR .RRR .... ..RR .... .... .... ....
metadata           MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM MMMM .... ....
protocol           PPPP PPPP PPPP PPPP PPPP PPPP PPPP PPPP PPPP PPPP PPPP .... ....
drop and creation  M M M M M M M M M M M . M
cleanup of the log M M M M M M M M M U U . .
"""
SERIALIZABLE = """
append             .... ...A ...A ...A ...A ...A .AAA .... .... .... .... .... ....
"""
"""The winner that makes a difference; all others end as under WriteSerializable."""


def expected(level: str, winner: str, relation: str) -> dict[str, str]:
    """Return by loser the sign of its race against the winner in this relation."""
    index = 0 if winner in MAINTENANCE else list(RELATIONS).index(relation)
    return {loser: signs[index] for loser, signs in expected_signs(level, winner).items()}


def expected_signs(level: str, winner: str) -> dict[str, str]:
    """Return by loser the signs of its races against the winner, one for each relation."""
    lines = {line[:19].strip(): line[19:].split() for line in WRITE_SERIALIZABLE.strip().splitlines()}
    if level == "Serializable":
        lines |= {line[:19].strip(): line[19:].split() for line in SERIALIZABLE.strip().splitlines()}
    return dict(zip(LOSERS, lines[winner], strict=True))


def tables() -> str:
    """The tables of docs/conflicts.md about Delta."""
    names = LOSERS
    found = []
    for level, winners in (("WriteSerializable (default)", WINNERS), ("Serializable", WINNERS[:1])):
        lines = [f"#### {level}", "", f"| first commit ↓ later statement → | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
        for winner in winners:
            cells = expected_signs(level.split()[0], winner)
            lines.append(f"| **{winner}** | {' | '.join(f'`{cells[loser]}`' for loser in names)} |")
        found.append("\n".join(lines))
    return "\n\n".join(found)
