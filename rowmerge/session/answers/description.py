"""Descriptions of tables and views, derived only from metadata."""

from __future__ import annotations

from rowmerge.catalog import Catalog
from rowmerge.table.metadata.copied_files import RESERVED
from rowmerge.table.relations import Relation, RelationDescription
from rowmerge.table.snapshots.files import FileListing
from rowmerge.table.snapshots.snapshot import Snapshot


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
