"""Conflict matrix: every command as winner and as loser of a race, with real commits and files.

The table has three files: the ids 1 to 4 and 11 to 14 in partition `a`, 21 to 24 in `b`. A command works on the keys r and r + 100: r is an
existing row, r + 100 a missing one. The loser's r is 3; the winner's r sets how far the two overlap.
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
"""The largest overlap of winner and loser, and the winner's r."""
LOSER = 3
FILES = {1: "a", 11: "a", 21: "b"}
"""First id of each file, and its partition."""

Rows = list[tuple[int, str, str]]
"""Id, partition and last writer."""


def keys(r: int) -> tuple[int, int]:
    return r, r + 100


def file_of(r: int) -> int:
    return max(first for first in FILES if first <= r)


@dataclass(frozen=True)
class Command:
    """A command with its effect on rows and on files. `rewrites`: it writes copy-on-write instead of a deletion vector."""

    name: str
    rows: Callable[[Rows, int, str], Rows]
    change: Callable[[Race, DeltaSnapshot, int, str, bool], CommitRequest]
    rewrites: bool = False


# ------------------------------------------------------------------ effect of commands on rows


def _append_row(rows: Rows, r: int, who: str) -> Rows:
    return [*rows, (r + 100, FILES[file_of(r)], who)]


def _insert_missing_rows(rows: Rows, r: int, who: str) -> Rows:
    existing_ids = {row[0] for row in rows}
    return [*rows, *((key, FILES[file_of(r)], who) for key in keys(r) if key not in existing_ids)]


def _merge_rows(rows: Rows, r: int, who: str) -> Rows:
    return _insert_missing_rows(_update_rows(rows, r, who), r, who)


def _update_rows(rows: Rows, r: int, who: str) -> Rows:
    return [(id_, partition, who if id_ in keys(r) else writer) for id_, partition, writer in rows]


def _delete_rows(rows: Rows, r: int, who: str) -> Rows:
    return [row for row in rows if row[0] not in keys(r)]


def _overwrite_partition(rows: Rows, r: int, who: str) -> Rows:
    return _append_row([row for row in rows if row[1] != FILES[file_of(r)]], r, who)


def _replace_rows(rows: Rows, r: int, who: str) -> Rows:
    return _append_row([], r, who)


def _keep_rows(rows: Rows, r: int, who: str) -> Rows:
    return rows


# ------------------------------------------------------------------ effect of commands on files


@dataclass
class Race:
    """A table and the methods that write its files."""

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
        """Return an insert of the missing key. The matched row r keeps its source row from being inserted."""
        reads = replace(self.looked_for(r), rows={self.paths[file_of(r)]: Positions([r - file_of(r)])})
        return CommitRequest("MERGE", files=FileChanges((self.file(r, who, r + 100),)), reads=reads)

    def merge(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        return self.by_row("MERGE", r, who, rewrites, [r, r + 100])

    def update(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        return self.by_row("UPDATE", r, who, rewrites, [r])

    def delete(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        return self.by_row("DELETE", r, who, rewrites, [])

    def by_row(self, operation: str, r: int, who: str, rewrites: bool, row_ids: list[int]) -> CommitRequest:
        first = file_of(r)
        added = (self.file(r, who, *row_ids),) if row_ids else ()
        if rewrites:
            unmatched = self.file(r, "base", *(id_ for id_ in range(first, first + 4) if id_ != r))
            files = FileChanges((*added, unmatched), (self.paths[first],))
        else:
            files = FileChanges(added, deleted={self.paths[first]: Positions([r - first])})
        return CommitRequest(operation, files=files, reads=self.looked_for(r))

    def looked_for(self, r: int) -> Reads:
        """Return the reads of a command that searches the keys of r: files by their bounds, and the rows of added files."""
        searched_keys = pa.array(keys(r), pa.int64())

        def may_match(listing: FileListing) -> pa.Array:
            low, high = (pc.struct_field(listing.rows[side].combine_chunks(), ["id"]) for side in ("lower", "upper"))
            hits = [pc.and_(pc.less_equal(low, key), pc.greater_equal(high, key)) for key in keys(r)]
            return pc.or_(*hits)

        def matching(files: FileListing) -> pa.Array:
            read = [pq.read_table(path[len("file://") :], partitioning=None)["id"] for path in files.paths]
            return pa.array([pc.any(pc.is_in(ids, value_set=searched_keys)).as_py() for ids in read], pa.bool_())

        return Reads(frozenset({self.paths[file_of(r)]}), may_match, ("id",), {}, matching)

    def overwrite(self, base: DeltaSnapshot, r: int, who: str, rewrites: bool) -> CommitRequest:
        partition = FILES[file_of(r)]
        replaced = [path for first, path in self.paths.items() if FILES[first] == partition]

        def same_partition(listing: FileListing) -> pa.Array:
            return pc.equal(pc.struct_field(listing.partitions, ["p"]), partition)

        files = FileChanges((self.file(r, who, r + 100),), tuple(replaced))
        return CommitRequest("WRITE", files=files, reads=Reads(frozenset(replaced), same_partition))

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
    Command("append", _append_row, Race.append),
    Command("insert-only merge", _insert_missing_rows, Race.insert_only),
    Command("merge", _merge_rows, Race.merge),
    Command("update", _update_rows, Race.update),
    Command("delete", _delete_rows, Race.delete),
    Command("copy-on-write", _update_rows, Race.update, rewrites=True),
    Command("overwrite", _overwrite_partition, Race.overwrite),
    Command("replace", _replace_rows, Race.replace),
    Command("compaction", _keep_rows, Race.compact),
    Command("metadata", _keep_rows, Race.set_property),
    Command("protocol", _keep_rows, Race.upgrade),
)
"""merge, update and delete write deletion vectors; `copy-on-write` is an update that rewrites its file, which stands for all three."""

# ------------------------------------------------------------------ changes of the log


def _drop_and_create(race: Race) -> None:
    drop_table(Storage(str(race.lake.folder)), "s.t")
    committed(Lake(race.lake.folder, SCHEMA, ("p",)).create(properties=race.properties))


def clean_log(race: Race) -> None:
    """Clean the log as delta-rs does, after two commits that change no row."""
    for value in ("1", "2"):
        change = CommitRequest("SET TBLPROPERTIES", definition=TableDefinition(properties={**race.properties, "owner": value}))
        committed(race.lake.table.commit(race.lake.table.snapshot(), change))
    # Let the retention of one second expire.
    for file in race.lake.log.iterdir():
        os.utime(file, (time.time() - 2, time.time() - 2))
    delta_rs_table = deltalake.DeltaTable(str(race.lake.folder))
    delta_rs_table.create_checkpoint()
    delta_rs_table.cleanup_metadata()


MAINTENANCE: Mapping[str, tuple[Callable[[Race], None], Callable[[Rows], Rows]]] = {
    "drop and creation": (_drop_and_create, lambda rows: []),
    "cleanup of the log": (clean_log, list),
}
"""Winners without rows in common with other commands, and their effect on the rows."""
LAST_LOSERS = ("cleanup of the log", "drop")
"""Losers that are not commits on a version. They run last, because they end the log in which the others race."""
LOSERS = (*(command.name for command in COMMANDS), *LAST_LOSERS)
WINNERS = (*(command.name for command in COMMANDS), *MAINTENANCE)

# ------------------------------------------------------------------ races

RACES = [
    (winner, level, relation)
    for winner in WINNERS
    for level in LEVELS
    for relation in (RELATIONS if winner not in MAINTENANCE else ["same rows"])
]
"""Winner, isolation level and relation of each table on which all losers race."""


def create_race(folder: Path, level: str) -> Race:
    """Create the table of a race."""
    lake = Lake(folder, SCHEMA, ("p",))
    properties = {"delta.isolationLevel": level, "delta.enableDeletionVectors": "true", "delta.logRetentionDuration": "interval 1 seconds"}
    race = Race(lake, {}, properties)
    files = {first: race.file(first, "base", *range(first, first + 4)) for first in FILES}
    committed(lake.create(*files.values(), properties=properties))
    return replace(race, paths={first: file.path for first, file in files.items()})


@dataclass(frozen=True)
class Ending:
    """The outcome of a race: its sign, the rows of the table, and the rows that either serial order would give."""

    sign: str
    rows: Rows
    in_order: Rows
    other_order: Rows


def endings(folder: Path, winner: str, level: str, relation: str) -> dict[str, Ending]:
    """Return the outcome of the race by loser.

    The winner commits, then each loser, planned earlier, commits and is removed from the log.
    """
    race, r = create_race(folder, level), RELATIONS[relation]
    base = race.lake.table.snapshot()
    # Write the losers' files before the winner commits, as statements do.
    losers = {command.name: command.change(race, base, LOSER, "loser", command.rewrites) for command in COMMANDS}
    drop = Drop(Storage(str(folder)), "s.t")
    if winner in MAINTENANCE:
        act, apply_winner = MAINTENANCE[winner]
        act(race)
    else:
        command = next(command for command in COMMANDS if command.name == winner)
        committed(race.lake.table.commit(base, command.change(race, base, r, "winner", command.rewrites)))
        apply_winner = lambda rows: command.rows(rows, r, "winner")  # noqa: E731
    initial_rows = [(id_, FILES[first], "base") for first in FILES for id_ in range(first, first + 4)]
    winner_rows, initial_log_files = sorted(apply_winner(initial_rows)), set(race.lake.log.iterdir())
    results = {}
    for loser in COMMANDS:
        outcome = race.lake.table.commit(base, losers[loser.name])
        new_log_files = {path for path in race.lake.log.iterdir() if path not in initial_log_files}
        if isinstance(outcome, Committed):
            loser_first_rows = sorted(apply_winner(loser.rows(initial_rows, LOSER, "loser")))
            results[loser.name] = Ending(
                "+" if outcome.rebases else ".", rows_in(folder), sorted(loser.rows(winner_rows, LOSER, "loser")), loser_first_rows
            )
        elif isinstance(outcome, Unknown):
            # The commit lies below a checkpoint, so readers do not apply it.
            results[loser.name] = Ending("U", rows_in(folder), winner_rows, winner_rows)
        else:
            assert not new_log_files
            results[loser.name] = Ending(SIGNS[type(outcome.conflict)], winner_rows, winner_rows, winner_rows)
        for path in new_log_files:
            path.unlink()
    clean_log(replace(race, lake=Lake(folder, SCHEMA, ("p",))))
    results["cleanup of the log"] = Ending(".", rows_in(folder), winner_rows, winner_rows)
    outcome = commit(drop, Storage(str(folder)), FileChanges())
    is_dropped = isinstance(outcome, Committed)
    rows = [] if is_dropped else winner_rows
    results["drop"] = Ending("." if is_dropped else SIGNS[type(outcome.conflict)], rows if is_dropped else rows_in(folder), rows, rows)  # type: ignore[union-attr]
    assert Lake(folder).table.exists() is not is_dropped
    return results


def rows_in(folder: Path) -> Rows:
    """Return the rows of a table; no rows for a version that contradicts its checksum."""
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

# ------------------------------------------------------------------ expected outcomes

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
"""The only winner with other outcomes than under WriteSerializable."""


def expected(level: str, winner: str, relation: str) -> dict[str, str]:
    """Return the sign of the race by loser, for a winner in this relation."""
    index = 0 if winner in MAINTENANCE else list(RELATIONS).index(relation)
    return {loser: signs[index] for loser, signs in expected_signs(level, winner).items()}


def expected_signs(level: str, winner: str) -> dict[str, str]:
    """Return the signs of the races by loser, one for each relation."""
    lines = {line[:19].strip(): line[19:].split() for line in WRITE_SERIALIZABLE.strip().splitlines()}
    if level == "Serializable":
        lines |= {line[:19].strip(): line[19:].split() for line in SERIALIZABLE.strip().splitlines()}
    return dict(zip(LOSERS, lines[winner], strict=True))


def tables() -> str:
    """Return the Delta tables of docs/conflicts.md."""
    names = LOSERS
    parts = []
    for level, winners in (("WriteSerializable (default)", WINNERS), ("Serializable", WINNERS[:1])):
        lines = [f"#### {level}", "", f"| first commit ↓ later statement → | {' | '.join(names)} |", "| --- |" + " --- |" * len(names)]
        for winner in winners:
            cells = expected_signs(level.split()[0], winner)
            lines.append(f"| **{winner}** | {' | '.join(f'`{cells[loser]}`' for loser in names)} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)
