"""Statements that keep a table in shape, carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.commands.maintenance import MaintenanceCommand, Vacuum
from rowmerge.session import answers
from rowmerge.session.binding import Binder
from rowmerge.session.results import StatementResult
from rowmerge.table.schema import Primitive
from rowmerge.table.snapshot import VacuumOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_CHECK = "spark.databricks.delta.retentionDurationCheck.enabled"
_RECORD = "spark.databricks.delta.vacuum.logging.enabled"


@dataclass(frozen=True)
class Maintenance:
    """Carries out VACUUM."""

    spark: SparkSession
    binder: Binder

    def run(self, command: MaintenanceCommand) -> StatementResult:
        """The answer of a command. Raises TableNotFound, and what the table raises."""
        return self._vacuum(command)

    def _vacuum(self, command: Vacuum) -> StatementResult:
        """The table's location, or with DRY RUN the files that would be deleted."""
        table = self.binder.table(command.target)
        options = VacuumOptions(command.retain_hours, command.dry_run, self._is_on(_CHECK), self._is_on(_RECORD))
        done = table.vacuum(options)
        paths = done.paths if command.dry_run else (table.location,)
        frame = answers.answer(self.spark, {"path": Primitive("string")}, [(path,) for path in paths])
        return StatementResult(frame, "VACUUM", None, done.version)

    def _is_on(self, name: str) -> bool:
        return str(self.spark.conf.get(name, "true")).strip().lower() == "true"
