"""The shape of an Iceberg table, from its metadata.

Spark's Parquet reader finds columns by id, but selects statistics of row groups by name. Another column may have the name of a renamed or
dropped column now, and Spark would skip row groups by the wrong statistics. So `stored_schema` names a column `name_<id>` if another column
ever had its name, or if metadata lacks a schema. Then Spark finds no statistics and reads the row group.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from pyiceberg import types as t
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata

from rowmerge.iceberg.metadata.partition_values import ordering_of, partitioning_of
from rowmerge.iceberg.metadata.properties import COMMENT, DATA_PATH, IcebergSettings
from rowmerge.iceberg.metadata.types import columns_of, widens
from rowmerge.iceberg.metadata.updates import INITIAL_DEFAULTS, ROW_LINEAGE
from rowmerge.storage.store import Storage, absolute_location
from rowmerge.table.metadata.rules import DEFAULT, Rules, not_null_checks
from rowmerge.table.metadata.schema import FIELD_ID, Array, DataType, Field, Map, Primitive, Struct, held_types
from rowmerge.table.metadata.shape import Lineage, TableShape

ROW_ID, LAST_UPDATED_SEQUENCE_NUMBER = 2147483540, 2147483539
"""The field ids of the columns of row lineage (Iceberg spec, Reserved Field IDs)."""


def table_shape(name: str, storage: Storage, metadata: TableMetadata, schema: Schema) -> TableShape:
    """Return the shape of the table `name` with one of its schemas.

    Raises UnsupportedTableFeature for an unknown type or transform.
    """
    location = absolute_location(metadata.location)
    columns = columns_of(schema, name)
    stored = _stored_schema(metadata, columns)
    data_path = metadata.properties.get(DATA_PATH)
    return TableShape(
        name=name,
        location=location,
        data_location=f"{location}/data" if data_path is None else absolute_location(data_path),
        schema=columns,
        stored_schema=stored,
        by_field_id=True,
        partitioning=partitioning_of(metadata.spec(), schema, name),
        partition_values_in_files=True,
        settings=settings_of(metadata),
        filesystem_options=storage.configuration.filesystem_options(),
        row_lineage=_row_lineage(stored) if metadata.format_version >= ROW_LINEAGE else None,
        # Version 1 has no delete files: rows are copied, whatever the mode.
        supports_merge_on_read=metadata.format_version > 1,
        supports_initial_defaults=metadata.format_version >= INITIAL_DEFAULTS,
        can_widen=widens,
        parse_rules=partial(_rules, columns),
        parse_ordering=partial(ordering_of, metadata.sort_order(), schema, name),
    )


def settings_of(metadata: TableMetadata) -> IcebergSettings:
    """Return the settings of a table; its comment is not one of them."""
    return IcebergSettings({name: value for name, value in metadata.properties.items() if name != COMMENT})


def _rules(columns: Struct) -> Rules:
    defaults = {field.name: str(field.metadata[DEFAULT]) for field in columns if DEFAULT in field.metadata}
    return Rules(not_null_checks(columns), defaults=defaults)


def _row_lineage(stored: Struct) -> Lineage:
    """Return the two columns of the spec's Row Lineage. Readers find them by id; no other column of a file may have their names."""
    taken = {name.lower() for name in stored.names}
    row_id, changed_in = (
        Field(f"{name}_{id_}" if name in taken else name, Primitive("long"), True, {FIELD_ID: id_})
        for name, id_ in (("_row_id", ROW_ID), ("_last_updated_sequence_number", LAST_UPDATED_SEQUENCE_NUMBER))
    )
    return Lineage(row_id, changed_in)


def _stored_schema(metadata: TableMetadata, columns: Struct) -> Struct:
    """Return the columns under names that no other column had before: Spark finds columns by id, but filters row groups by name."""
    return _renamed(held_types(columns), 0, _names_in_files(metadata.schemas), complete=_all_schemas_known(metadata))


def _names_in_files(schemas: Sequence[Schema]) -> Mapping[tuple[int, str], set[int]]:
    """The ids that fields of one name had, by (id of the struct around, 0 for the table; name), in all schemas that are known."""
    found: dict[tuple[int, str], set[int]] = defaultdict(set)

    def visit(type_: t.IcebergType, around: int) -> None:
        match type_:
            case t.StructType():
                for field in type_.fields:
                    found[around, field.name.lower()].add(field.field_id)
                    visit(field.field_type, field.field_id)
            case t.ListType():
                visit(type_.element_type, type_.element_id)
            case t.MapType():
                visit(type_.key_type, type_.key_id)
                visit(type_.value_type, type_.value_id)

    for schema in schemas:
        visit(schema.as_struct(), 0)
    return found


def _all_schemas_known(metadata: TableMetadata) -> bool:
    """Whether none was removed: files may have been written with one that was."""
    ids = {schema.schema_id for schema in metadata.schemas}
    return ids == set(range(len(ids)))


def _renamed(columns: Struct, around: int, names: Mapping[tuple[int, str], set[int]], *, complete: bool) -> Struct:
    """The columns under names that no other field in the same place ever had. Ids of what lists and maps hold are not needed here."""
    fields = []
    for field in columns:
        id_ = int(field.metadata["parquet.field.id"])
        alone = complete and len(names.get((around, field.name.lower()), {id_})) == 1
        type_ = _renamed_inside(field.type, id_, names, complete=complete)
        fields.append(Field(field.name if alone else f"{field.name}_{id_}", type_, field.nullable, field.metadata))
    return Struct(tuple(fields))


def _renamed_inside(type_: DataType, around: int, names: Mapping[tuple[int, str], set[int]], *, complete: bool) -> DataType:
    match type_:
        case Struct():
            return _renamed(type_, around, names, complete=complete)
        case Array(element, contains_null):
            return Array(_renamed_inside(element, -1, names, complete=complete), contains_null)
        case Map(key, value, contains_null):
            inner = [_renamed_inside(part, -1, names, complete=complete) for part in (key, value)]
            return Map(inner[0], inner[1], contains_null)
    return type_
