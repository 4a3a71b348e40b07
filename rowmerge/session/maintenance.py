"""Statements that keep a table in shape, carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.commands.maintenance import DropReference, MaintenanceCommand, Optimize, Reorg, Restore, SetReference, Vacuum
from rowmerge.commands.names import TableName
from rowmerge.commands.procedures import Call
from rowmerge.errors import PlanError
from rowmerge.execution.commit import CommitOptions
from rowmerge.execution.compaction import optimize, purge
from rowmerge.execution.restore import restore
from rowmerge.execution.result import RowCounts
from rowmerge.session import answers
from rowmerge.session.binding import Binder
from rowmerge.session.procedures import Procedures
from rowmerge.session.results import StatementResult
from rowmerge.table.maintenance import SnapshotReference
from rowmerge.table.schema import Primitive
from rowmerge.table.snapshot import Table, VacuumOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_RECORD = "spark.databricks.delta.vacuum.logging.enabled"


@dataclass(frozen=True)
class Maintenance:
    """Carries out VACUUM, OPTIMIZE, REORG, RESTORE and CALL."""

    spark: SparkSession
    binder: Binder
    options: CommitOptions

    def run(self, command: MaintenanceCommand) -> StatementResult:
        """The answer of a command. Raises TableNotFound, PlanError, CommitConflict and what the table raises."""
        match command:
            case Vacuum():
                return self._vacuum(command)
            case Optimize() | Reorg():
                return self._compact(command)
            case Restore():
                return self._restore(command)
            case SetReference() | DropReference():
                return self._refer(command)
            case Call():
                return Procedures(self.spark, self.binder, self.options).run(command)

    def _vacuum(self, command: Vacuum) -> StatementResult:
        """The table's location, or with DRY RUN the files that would be deleted."""
        table = self.binder.table(command.target)
        options = VacuumOptions(command.retain_hours, command.dry_run, self._is_on(_CHECK), self._is_on(_RECORD))
        done = table.vacuum(options)
        paths = done.paths if command.dry_run else (table.location,)
        frame = answers.answer(self.spark, {"path": Primitive("string")}, [(path,) for path in paths])
        changes = None if command.dry_run else RowCounts(files_removed=len(done.paths))
        return StatementResult(frame, "VACUUM", changes, done.version)

    def _compact(self, command: Optimize | Reorg) -> StatementResult:
        """The table's location, and what was written for what."""
        table = self.binder.table(command.target)
        condition = None if command.condition is None else command.condition.text
        compact = optimize if isinstance(command, Optimize) else purge
        result, compacted = compact(self.spark, table, condition, self.options)
        frame = answers.compaction_of(self.spark, table.location, compacted)
        return StatementResult.of(frame, type(command).__name__.upper(), result)

    def _restore(self, command: Restore) -> StatementResult:
        """Delta's counts of files and bytes."""
        timestamp = None if command.timestamp is None else self.binder.timestamp(command.timestamp.text)
        told = None if command.timestamp is None else command.timestamp.text.strip("'\"")
        table = self.binder.table(command.target)
        version = command.version if command.reference is None else _named(table, command.target, command.reference)
        parameters = {"version": version, "timestamp": told}
        result, counts = restore(table, parameters, version=version, timestamp=timestamp, options=self.options)
        frame = answers.answer(self.spark, {name: Primitive("long") for name in counts}, [tuple(counts.values())])
        return StatementResult.of(frame, "RESTORE", result)

    def _refer(self, command: SetReference | DropReference) -> StatementResult:
        """Branches and tags; nothing to answer."""
        table = self.binder.table(command.target)
        kind = "TAG" if command.tag else "BRANCH"
        if table.upkeep is None:
            raise PlanError(f"{command.target} is no Iceberg table, and has no branches and tags. Read older versions with VERSION AS OF.")
        if isinstance(command, DropReference):
            table.upkeep.drop_reference(command.name, tag=command.tag, if_exists=command.if_exists)
        else:
            ages = (command.max_age, command.min_snapshots, command.max_snapshot_age)
            reference = SnapshotReference(command.name, command.tag, command.version, *ages)
            table.upkeep.set_reference(reference, create=command.create, replace=command.replace, if_not_exists=command.if_not_exists)
        verb = "DROP" if isinstance(command, DropReference) else "CREATE"
        return StatementResult(answers.nothing(self.spark), f"{verb} {kind}", None, table.snapshot().version)

    def _is_on(self, name: str) -> bool:
        return str(self.spark.conf.get(name, "true")).strip().lower() == "true"


def _named(table: Table, name: TableName, reference: str) -> int:
    if table.upkeep is None:
        raise PlanError(f"{name} is no Iceberg table: it has no branches and tags. Write VERSION AS OF and a number.")
    return table.upkeep.named(reference)
