"""Data files without field ids, such as files imported from a Hive table ("Column Projection" in the Iceberg specification)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.name_mapping import MappedField, NameMapping

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import CorruptLog, MissingDataFile, UnsupportedTableFeature
from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.metadata.locations import located
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Array, DataType, Field, Map, Struct, stored_types
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import FileLayout

_ID = b"PARQUET:field_id"
_TAIL = 8
"""The number of bytes after the footer of a Parquet file: the length of the footer, and `PAR1`."""
_Names = Mapping[int, Sequence[str]]
_schema_cache: Cache[pa.Schema] = Cache(10_000)
"""The schemas of up to 10,000 data files, by path and size."""
_WITHOUT_PARTITION_COLUMNS = "data files of an earlier partition spec that do not contain the partition columns"
_REWRITE = (
    "Rewrite its data files with an engine that reads such files, for example with the procedure rewrite_data_files of Iceberg on Spark."
)


def file_layouts(
    storage: Storage,
    shape: TableShape,
    entries: Mapping[str, Entry],
    other_paths: Sequence[str],
    mapping: NameMapping,
    spec_id: int,
    identity_columns: Mapping[int, Collection[str]],
) -> tuple[FileLayout, ...]:
    """Return the layouts of the data files of a table with a name mapping. Return at least one layout.

    A layout describes a group of files with equal columns: their names and types, and the partition columns that the files lack.

    The Parquet footer shows whether a file has field ids. If not, readers find columns by the names in the mapping. If the file lacks an
    identity partition column of its partition spec, its partition value is used ("Column Projection" in the Iceberg specification).

    Args:
        storage: The store that contains the table.
        shape: The columns and partition fields of the table.
        entries: The manifest entries of the data files, by absolute path.
        other_paths: The paths of data files that are not in the snapshot, such as those of a concurrent commit.
        mapping: The name mapping, from the property `schema.name-mapping.default`.
        spec_id: The id of the current partition spec.
        identity_columns: The columns that are partition fields without a transform, by the id of the partition spec.

    Raises:
        MissingDataFile: A file does not exist.
        CorruptLog: A file does not have a valid Parquet footer.
        UnsupportedTableFeature: A file of another partition spec lacks a partition column.
        StorageError: The store fails.
    """
    sizes = {**{path: entry.file.size for path, entry in entries.items()}, **dict.fromkeys(other_paths)}
    schemas = map_concurrently(lambda file: _read_schema(storage, shape.name, *file), list(sizes.items()))
    schemas_without_ids = {path: schema for path, schema in zip(sizes, schemas, strict=True) if not _has_field_ids(schema)}
    spec_ids = {path: entries[path].file.spec_id if path in entries else spec_id for path in schemas_without_ids}
    partition_columns = {path: identity_columns[spec_ids[path]] for path in schemas_without_ids}
    layouts = _layouts_by_names(shape, schemas_without_ids, partition_columns, _names_by_id(mapping))
    for layout in layouts:
        _check_missing_columns(layout, shape.name, spec_ids, spec_id)
    paths_with_ids = tuple(path for path in sizes if path not in schemas_without_ids)
    # A table without data files has one layout without paths, because readers need at least one.
    if not layouts or paths_with_ids:
        layouts.append(FileLayout(paths_with_ids, shape.stored_schema, by_field_id=True, missing_columns=()))
    return tuple(layouts)


def _check_missing_columns(layout: FileLayout, table: str, spec_ids: Mapping[str, int], spec_id: int) -> None:
    """Check that readers can fill the missing columns with partition values of the current spec. Files of other specs may lack them."""
    has_other_spec = any(spec_ids[path] != spec_id for path in layout.paths)
    if layout.missing_columns and has_other_spec:
        raise UnsupportedTableFeature(table, _WITHOUT_PARTITION_COLUMNS, action="read", advice=_REWRITE)


def _has_field_ids(schema: pa.Schema) -> bool:
    return any((field.metadata or {}).get(_ID) for field in schema)


def _layouts_by_names(
    shape: TableShape, schemas: Mapping[str, pa.Schema], partition_columns: Mapping[str, Collection[str]], names_by_id: _Names
) -> list[FileLayout]:
    """Return the layouts of files without field ids.

    `schemas`: the Arrow schema of each file, by path. `partition_columns`: the identity partition columns of each file, by path.
    """
    columns = stored_types(shape.schema)
    paths_by_layout: dict[FileLayout, list[str]] = defaultdict(list)
    for path, schema in schemas.items():
        paths_by_layout[_layout_by_names(columns, partition_columns[path], schema, names_by_id)].append(path)
    return [replace(layout, paths=tuple(paths)) for layout, paths in paths_by_layout.items()]


def _layout_by_names(columns: Struct, partition_columns: Collection[str], schema: pa.Schema, names_by_id: _Names) -> FileLayout:
    """Return the layout, without paths, for a Parquet schema without field ids. `columns`: the table's columns with their stored types."""
    stored_columns = _stored_columns(columns, schema, names_by_id)
    column_pairs = zip(columns, stored_columns, strict=True)
    missing_columns = [column.name for column, stored_column in column_pairs if schema.get_field_index(stored_column.name) < 0]
    missing_partition_columns = tuple(name for name in missing_columns if name in partition_columns)
    return FileLayout((), stored_columns, by_field_id=False, missing_columns=missing_partition_columns)


def _read_schema(storage: Storage, table: str, path: str, size: int | None) -> pa.Schema:
    """Return the Arrow schema of a Parquet file. Cache the schema, so that the footer is not read again. `size`: None if it is unknown."""
    schema = _schema_cache.get((path, size))
    if schema is not None:
        return schema
    try:
        if size is None:
            path_storage, relative_path = located(storage, path)
            size = path_storage.size_of(relative_path)
        schema = pq.read_metadata(pa.BufferReader(_read_footer(storage, path, size))).schema.to_arrow_schema()
    except FileNotFoundError as error:
        raise MissingDataFile(table, path) from error
    except (OSError, pa.ArrowException) as error:
        raise CorruptLog(path, f"it has no valid Parquet footer ({error})") from error
    _schema_cache.put((path, size), schema, weight=1)
    return schema


def _read_footer(storage: Storage, path: str, size: int) -> bytes:
    """Return the footer of a Parquet file. This takes two requests, because the length of the footer is at the end of the file."""
    path_storage, relative_path = located(storage, path)
    tail = path_storage.get_range(relative_path, size - _TAIL, _TAIL)
    length = int.from_bytes(tail[:4], "little") + _TAIL
    return path_storage.get_range(relative_path, size - length, length)


def _names_by_id(fields: Sequence[MappedField] | NameMapping) -> dict[int, Sequence[str]]:
    """Return the names that a name mapping gives to each field id, at any depth."""
    names: dict[int, Sequence[str]] = {}
    for field in fields:
        if field.field_id is not None:
            names[field.field_id] = field.names
        names |= _names_by_id(field.fields)
    return names


def _stored_columns(columns: Struct, file_fields: pa.Schema | pa.StructType, names: _Names) -> Struct:
    """Return the columns with their names in a file. A column that is not in the file gets a name that no file contains.

    `file_fields`: the columns of the file, or the fields of a struct in it. `names`: the names in the name mapping, by field id.
    """
    return Struct(tuple(_stored_column(column, file_fields, names) for column in columns))


def _stored_column(column: Field, file_fields: pa.Schema | pa.StructType, names: _Names) -> Field:
    """Return a column, or a nested field, with the first of its mapped names that the file contains."""
    field_id = int(column.metadata[FIELD_ID])
    metadata = {INITIAL: column.metadata[INITIAL]} if INITIAL in column.metadata else {}
    name = next((mapped_name for mapped_name in names.get(field_id, ()) if file_fields.get_field_index(mapped_name) >= 0), None)
    if name is None:
        return Field(f"__rowmerge_missing_{field_id}", column.type, True, metadata)
    return Field(name, _stored_type(column.type, file_fields.field(name).type, names), True, metadata)


def _stored_type(type_: DataType, file_type: pa.DataType, names: _Names) -> DataType:
    """Return a type whose nested fields have their names in a file. `file_type`: the Arrow type in the file."""
    match type_:
        case Struct() if pa.types.is_struct(file_type):
            return _stored_columns(type_, file_type, names)
        case Array(element, contains_null) if pa.types.is_list(file_type) or pa.types.is_large_list(file_type):
            return Array(_stored_type(element, file_type.value_type, names), contains_null)
        case Map(key, value, contains_null) if pa.types.is_map(file_type):
            return Map(_stored_type(key, file_type.key_type, names), _stored_type(value, file_type.item_type, names), contains_null)
    return type_
