"""Descriptions of tables and views, derived only from metadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowmerge.catalog import Catalog, Relation
from rowmerge.table.metadata.copied_files import RESERVED
from rowmerge.table.metadata.partitioning import PartitionField, SortField
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Field
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class RelationDescription:
    """The columns, statistics and settings of a relation.

    `modified`: the time of the last change in milliseconds since the epoch. `records`: the number of rows, or None if it is unknown.
    `size`: the total size of all data files in bytes. `files`: the number of data files. `deleted`: the number of deleted rows that data
    files still contain. `text`: the query of a view, or None for a table. For a view, `records`, `files` and `deleted` are None.
    """

    relation: Relation
    columns: tuple[Field, ...]
    location: str
    partition_columns: tuple[str, ...] = ()
    partitioning: tuple[PartitionField, ...] = ()
    ordering: tuple[SortField, ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None
    version: int | None = None
    modified: int = 0
    records: int | None = None
    size: int = 0
    text: str | None = None
    rules: Rules = field(default_factory=Rules)
    files: int | None = None
    deleted: int | None = None


def describe(catalog: Catalog, relation: Relation) -> RelationDescription:
    """Return the description of a view, or of a table's newest version.

    Args:
        catalog: The catalog with the relation.
        relation: The table or view.
    """
    if relation.kind == "view":
        view = catalog.view(relation.schema, relation.name)
        return RelationDescription(
            relation,
            view.columns.fields,
            catalog.location_of(relation.schema, relation.name),
            properties=view.properties,
            comment=view.comment,
            version=view.version,
            modified=view.modified,
            text=view.sql,
        )
    return describe_snapshot(relation, catalog.open(relation.schema, relation.name).snapshot())


def describe_snapshot(relation: Relation, snapshot: Snapshot) -> RelationDescription:
    """Return the description of one version of a table.

    Args:
        relation: The table, whose name and format the description contains.
        snapshot: The version of the table.
    """
    files = snapshot.files()
    shape = snapshot.shape
    return RelationDescription(
        relation,
        snapshot.schema.fields,
        shape.location,
        partition_columns=snapshot.partition_columns,
        partitioning=shape.partitioning,
        ordering=shape.ordering,
        properties={name: value for name, value in snapshot.settings.properties.items() if not name.startswith(RESERVED)},
        comment=snapshot.description,
        version=snapshot.version,
        modified=snapshot.timestamp,
        records=row_count(files),
        size=files.total_size,
        rules=shape.rules,
        files=len(files),
        deleted=files.total_deleted,
    )


def row_count(files: FileListing) -> int | None:
    """Return the number of live rows in the data files, or None if the metadata lack the row count of a file."""
    return None if files.records.null_count else files.live_rows
