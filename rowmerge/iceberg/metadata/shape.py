"""The shape of an Iceberg table, from its metadata.

Spark's Parquet reader finds columns by id, but looks up the statistics of row groups by name. If a column reuses the name of a renamed or
dropped column, Spark would skip row groups based on the wrong statistics. So `stored_schema` names a column `name_<id>` if another column
ever had its name, or if the metadata does not contain all schemas. Then Spark finds no statistics and reads the row group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from pyiceberg import types as t
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.metadata.partition_values import ordering_of, partitioning_of
from rowmerge.iceberg.metadata.properties import IcebergSettings
from rowmerge.iceberg.metadata.registry import COMMENT
from rowmerge.iceberg.metadata.types import can_widen, columns_of, identifier_paths, nested_fields
from rowmerge.iceberg.metadata.updates import INITIAL_DEFAULTS, ROW_LINEAGE
from rowmerge.storage.store import Storage, absolute_location
from rowmerge.table.metadata.rules import DEFAULT, Rules, not_null_checks
from rowmerge.table.metadata.schema import FIELD_ID, DataType, Field, Primitive, Struct, convert_parts, stored_types
from rowmerge.table.metadata.shape import Lineage, TableShape

ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER = 2147483540, 2147483539
"""The field ids of the row lineage columns ("Reserved Field IDs" in the Iceberg specification)."""
_IN_CONTAINER = -1
"""The parent id of fields inside lists and maps. Spark does not push filters down to these fields, so their names need not be unique."""


def table_shape(
    name: str, storage: Storage, metadata: TableMetadata, schema: Schema, write_properties: Mapping[str, str] | None = None
) -> TableShape:
    """Return the shape of a table: everything that writers of its data files need, such as columns, folders and settings.

    Args:
        name: The name of the table in messages.
        storage: The store that contains the table.
        metadata: The metadata of the table.
        schema: The schema to use: the current schema of the table, or an older one.
        write_properties: Properties that override those of the table in this statement, or None.

    Raises:
        UnsupportedTableFeature: A column has an unknown type, or a partition field has an unknown transform.
    """
    location = absolute_location(metadata.location)
    columns, settings = columns_of(schema, name), settings_of(metadata, write_properties)
    stored_columns = _stored_columns(metadata, columns)
    return TableShape(
        name=name,
        location=location,
        data_location=f"{location}/data" if settings.data_path is None else absolute_location(settings.data_path),
        schema=columns,
        stored_schema=stored_columns,
        by_field_id=True,
        partitioning=partitioning_of(metadata.spec(), schema, name),
        partition_values_in_files=True,
        settings=settings,
        filesystem_options=storage.filesystem_options,
        row_lineage=_row_lineage(stored_columns) if metadata.format_version >= ROW_LINEAGE else None,
        kind_of_deletes="deletion vector" if metadata.format_version >= ROW_LINEAGE else "position delete file",
        # Format version 1 has no delete files, so every change rewrites data files.
        supports_merge_on_read=metadata.format_version > 1,
        supports_initial_defaults=metadata.format_version >= INITIAL_DEFAULTS,
        can_widen=can_widen,
        identifiers=identifier_paths(schema),
        # These two are parsed on first use, which is a write, so that an error in them does not prevent reads.
        parse_rules=partial(_row_rules, columns),
        parse_ordering=partial(ordering_of, metadata.sort_order(), schema, name),
    )


def settings_of(metadata: TableMetadata, write_properties: Mapping[str, str] | None = None) -> IcebergSettings:
    """Return the settings in the table properties. The comment is a property, but not a setting.

    Args:
        metadata: The metadata of the table.
        write_properties: Properties that override those of the table, or None.
    """
    properties = {name: value for name, value in metadata.properties.items() if name != COMMENT.name}
    return IcebergSettings({**properties, **(write_properties or {})})


def _row_rules(columns: Struct) -> Rules:
    """Return the rules that apply to each written row: the NOT NULL constraints and the default values of the columns."""
    defaults = {field.name: str(field.metadata[DEFAULT]) for field in columns if DEFAULT in field.metadata}
    return Rules(not_null_checks(columns), defaults=defaults)


def _row_lineage(stored_columns: Struct) -> Lineage:
    """Return the two columns of row lineage ("Row Lineage" in the Iceberg specification)."""
    row_id = _lineage_column("_row_id", ROW_ID, stored_columns)
    return Lineage(row_id, _lineage_column("_last_updated_sequence_number", LAST_UPDATED_SEQUENCE_NUMBER, stored_columns))


def _lineage_column(name: str, field_id: int, stored_columns: Struct) -> Field:
    """Return a column that readers find by id. The name contains the id if a stored column already has the name."""
    return Field(f"{name}_{field_id}" if stored_columns.find(name) else name, Primitive("long"), True, {FIELD_ID: field_id})


def _stored_columns(metadata: TableMetadata, columns: Struct) -> Struct:
    """Return the columns with names that no other column had before, because Spark filters row groups by column name."""
    schema_ids = {schema.schema_id for schema in metadata.schemas}
    has_all_schemas = schema_ids == set(range(len(schema_ids)))  # Otherwise, data files may have columns of a removed schema.
    return _FieldNames(_ids_by_name(metadata.schemas), has_all_schemas).stored_columns(stored_types(columns), 0)


def _ids_by_name(schemas: Sequence[Schema]) -> Mapping[tuple[int, str], set[int]]:
    """Return the field ids that each name has in any schema, by (parent field id, lower-case name). The parent id of a column is 0."""
    ids_by_name: dict[tuple[int, str], set[int]] = defaultdict(set)
    for schema in schemas:
        for parent_id, field in _fields_with_parent(schema.as_struct(), 0):
            ids_by_name[parent_id, field.name.lower()].add(field.field_id)
    return ids_by_name


def _fields_with_parent(type_: t.IcebergType, parent_id: int) -> Iterator[tuple[int, t.NestedField]]:
    """Yield (id of the parent field, field) for each field in a type, at any depth."""
    for field in nested_fields(type_):
        yield parent_id, field
        yield from _fields_with_parent(field.field_type, field.field_id)


@dataclass(frozen=True)
class _FieldNames:
    """The field ids that each field name has in any schema of a table. They decide the names of columns in data files.

    `has_all_schemas`: whether the metadata contains every schema that the table has ever had.
    """

    ids_by_name: Mapping[tuple[int, str], set[int]]
    has_all_schemas: bool

    def stored_columns(self, columns: Struct, parent_id: int) -> Struct:
        """Return the fields of a struct under their stored names: `name_<id>` if another field with the same parent had the name."""
        return Struct(tuple(self._stored_field(field, parent_id) for field in columns))

    def _stored_field(self, field: Field, parent_id: int) -> Field:
        """Return a field under its stored name, which differs from its name if another field with the same parent ever had this name."""
        field_id = int(field.metadata[FIELD_ID])
        ids_of_name = self.ids_by_name.get((parent_id, field.name.lower()), {field_id})
        name = field.name if self.has_all_schemas and len(ids_of_name) == 1 else f"{field.name}_{field_id}"
        return Field(name, self._stored_type(field.type, field_id), field.nullable, field.metadata)

    def _stored_type(self, type_: DataType, parent_id: int) -> DataType:
        return convert_parts(
            type_, lambda struct: self.stored_columns(struct, parent_id), lambda _, part: self._stored_type(part, _IN_CONTAINER)
        )
