"""Descriptions of tables and views, made from metadata alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rowmerge.catalog import Catalog, Relation
from rowmerge.table.metadata.partitioning import PartitionField, SortField
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import Field
from rowmerge.table.snapshots.snapshot import Snapshot


@dataclass(frozen=True)
class RelationDescription:
    """The columns of a relation, and facts about it.

    `modified`: milliseconds since the epoch. `records`: rows, None if unknown. `size`: bytes. `files`: data files. `deleted`: deleted
    rows that data files still hold. `text`: a view's query. A view has no `records`, `files` and `deleted`.
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


def describe(catalog: Catalog, relation: Relation, location: str) -> RelationDescription:
    """Describe a view by its definition, a table by its newest snapshot. `location`: the folder of a view."""
    if relation.kind == "view":
        view = catalog.view(relation.schema, relation.name)
        return RelationDescription(
            relation,
            view.columns.fields,
            location,
            properties=view.properties,
            comment=view.comment,
            version=view.version,
            modified=view.modified,
            text=view.sql,
        )
    return describe_snapshot(relation, catalog.open(relation.schema, relation.name).snapshot())


def describe_snapshot(relation: Relation, snapshot: Snapshot) -> RelationDescription:
    """Describe one version of a table."""
    listing = snapshot.files()
    has_counts = listing.records.null_count == 0
    deleted = listing.total_deleted
    return RelationDescription(
        relation,
        snapshot.schema.fields,
        snapshot.shape.location,
        snapshot.partition_columns,
        snapshot.shape.partitioning,
        snapshot.shape.ordering,
        snapshot.settings.properties,
        snapshot.description,
        snapshot.version,
        snapshot.timestamp,
        listing.total_records - deleted if has_counts else None,
        listing.total_size,
        rules=snapshot.shape.rules,
        files=len(listing),
        deleted=deleted,
    )
