"""CREATE TABLE … SHALLOW CLONE, carried out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.catalog import Catalog
from rowmerge.commands.definitions import CloneTable
from rowmerge.errors import AlreadyExists, PlanError
from rowmerge.execution.clone import Clone
from rowmerge.execution.commit import CommitOptions
from rowmerge.session import answers
from rowmerge.session.binding import Binder
from rowmerge.session.results import StatementResult
from rowmerge.table.schema import Primitive
from rowmerge.table.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class Clones:
    """Makes tables of the files of others."""

    spark: SparkSession
    catalog: Catalog
    binder: Binder

    def run(self, command: CloneTable, options: CommitOptions) -> StatementResult:
        """Delta's counts of files and bytes. Raises TableNotFound, VersionNotFound, AlreadyExists, PlanError, and as `Clone.run`."""
        schema, name = self.binder.locate(command.name)
        shown, existing = f"{schema}.{name}", self.catalog.relation(schema, name)
        if existing is not None and command.if_not_exists:
            return StatementResult(answers.nothing(self.spark), "CLONE")
        if existing is not None and existing.kind == "view":
            raise AlreadyExists(f"{shown} is a view. Drop it with DROP VIEW, or choose another name.")
        source_schema, source_name = self.binder.locate(command.source)
        source = self._source(command)
        format_ = self._format(source_schema, source_name)
        if existing is not None and existing.format != format_:
            raise PlanError(
                f"{shown} has the format {existing.format}, and a clone of {command.source} has {format_}. Drop the table first."
            )
        table = self.catalog.open(schema, name) if existing else self.catalog.table_at(schema, name, format_, command.location)
        if table.location == source.location:
            raise PlanError(
                f"{shown} would be a clone of itself. Give the clone another name; older versions come back with RESTORE TABLE."
            )
        clone = Clone(table, shown, source, f"{source_schema}.{source_name}", command.properties, options)
        result = clone.run(or_replace=command.or_replace)
        if command.location is not None and existing is None:
            self.catalog.register(schema, name, format_, command.location)
        frame = answers.answer(self.spark, {name: Primitive("long") for name in clone.counts}, [tuple(clone.counts.values())])
        return StatementResult.of(frame, "CLONE", result)

    def _source(self, command: CloneTable) -> Snapshot:
        """The version that is cloned. Raises TableNotFound, TableError for a view, VersionNotFound."""
        table = self.binder.table(command.source)
        if command.timestamp is not None:
            return table.snapshot_at(timestamp=self.binder.timestamp(command.timestamp.text))
        if command.reference is None:
            return table.snapshot_at(version=command.version)
        if table.upkeep is None:
            raise PlanError(f"{command.source} is no Iceberg table: it has no branches and tags. Write VERSION AS OF and a number.")
        return table.snapshot_at(version=table.upkeep.named(command.reference))

    def _format(self, schema: str, name: str) -> str:
        relation = self.catalog.relation(schema, name)
        assert relation is not None
        assert relation.format is not None
        return relation.format
