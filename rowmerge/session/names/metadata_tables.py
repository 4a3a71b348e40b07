"""Metadata tables in queries: `orders.files`, `analytics.orders.snapshots VERSION AS OF 3`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rowmerge.catalog import Catalog
from rowmerge.commands.names import TableName
from rowmerge.errors import PlanError
from rowmerge.session.names.pinned_snapshots import PinnedSnapshots
from rowmerge.session.names.resolver import NameResolver, ResolvedName
from rowmerge.spark.procedures.changelog import read_file_changes
from rowmerge.spark.types import frame_of
from rowmerge.sql import TableReference
from rowmerge.table.snapshots.metadata_tables import OF_ALL_VERSIONS, OF_ONE_VERSION
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHANGES = "changes"
"""The metadata table of Iceberg tables that contains rows of data files, and is no table of `MetadataTables`."""


def is_metadata_table(name: TableName) -> bool:
    """Return whether a name can be that of a metadata table: the name of a table, followed by `files`, `snapshots` or another one."""
    return len(name.parts) in (2, 3) and name.parts[-1].lower() in (*OF_ONE_VERSION, *OF_ALL_VERSIONS, _CHANGES)


@dataclass(frozen=True, eq=False)
class MetadataRead:
    """A read of a metadata table.

    `name`: the name in messages. `source`: the table, and `table` the name of its metadata table that is read. `snapshot`: the version that
    it describes.
    """

    name: str
    source: Table
    table: str
    snapshot: Snapshot

    def frame(self, spark: SparkSession, columns: Collection[str] | None) -> DataFrame:
        """Return the rows.

        Args:
            spark: The Spark session of the DataFrame.
            columns: Names that include those of the needed columns (`NeededColumns.names_of_table`), or None for all columns.

        Raises:
            CorruptLog: The metadata of the table are damaged or missing.
            StorageError: The metadata cannot be read.
        """
        if self.table == _CHANGES:
            return read_file_changes(spark, self.source, self.snapshot)
        rows = self.source.metadata_tables.read(self.table, self.snapshot, columns)
        return frame_of(spark, rows.rows, rows.columns)


def metadata_read(catalog: Catalog, table_name: ResolvedName, reference: TableReference, snapshots: PinnedSnapshots) -> MetadataRead:
    """Return the read of a metadata table, whose rows are not read yet.

    Args:
        catalog: The catalog of the table.
        table_name: The table before the last part of the name.
        reference: The reference in the statement, whose name `is_metadata_table`. It can have VERSION or TIMESTAMP AS OF.
        snapshots: The versions of tables that the statement reads.

    Raises:
        PlanError: The name is that of a view, the format lacks the metadata table, or the metadata table describes all versions.
    """
    relation, name = table_name.relation, reference.name.parts[-1].lower()
    if relation.kind == "view":
        raise PlanError(f"{relation} is a view, so it has no metadata table {name}. Name the table that the view reads.")
    table = catalog.open(relation.schema, relation.name)
    if name == _CHANGES and table.maintenance is None:
        problem = f"{relation} has no metadata table changes, because it is not an Iceberg table"
        raise PlanError(f"{problem}. Use table_changes('{relation}', 0).")
    if name not in (*table.metadata_tables.names, _CHANGES):
        alternatives = ", ".join(sorted(table.metadata_tables.names))
        raise PlanError(f"{relation} has no metadata table {name}, because it is not an Iceberg table. It has {alternatives}.")
    has_version = reference.has_time_travel or table_name.branch_or_tag is not None
    if has_version and name in (*OF_ALL_VERSIONS, _CHANGES):
        raise PlanError(f"{relation}.{name} describes all versions of the table. Leave the version, branch or tag out.")
    return MetadataRead(f"{relation}.{name}", table, name, snapshots.of_reference(table, table_name, reference))


def table_of(names: NameResolver, name: TableName, schema: str) -> ResolvedName | None:
    """Return the table or view that a metadata table describes: `orders` for `orders.files`. Return None if it does not exist.

    Args:
        names: The resolver of names.
        name: The name of the metadata table.
        schema: The schema of an unqualified table.
    """
    return names.resolve(TableName(name.parts[:-1]), schema)
