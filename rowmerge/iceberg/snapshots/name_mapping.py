"""Data files without field ids, such as files of Hive that a table imports ("Column Projection" in the Iceberg specification)."""

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
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.partitioning import identity_columns
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Array, DataType, Field, Map, Struct, stored_types
from rowmerge.table.metadata.shape import TableShape
from rowmerge.table.snapshots.files import FileLayout

_ID = b"PARQUET:field_id"
_TAIL = 8
"""The bytes at the end of a Parquet file: the footer's length, and `PAR1`."""
_Names = Mapping[int, Sequence[str]]
_schemas: Cache[pa.Schema] = Cache(10_000)
"""The columns of files by path and size."""
_WITHOUT_PARTITION_COLUMNS = "data files without partition columns from before the partitioning was changed"
_REWRITE = "Write its files again with an engine that reads such files (the procedure rewrite_data_files of Iceberg on Spark)."


def file_layouts(
    storage: Storage, shape: TableShape, entries: Mapping[str, Entry], mapping: NameMapping, spec_id: int
) -> tuple[FileLayout, ...]:
    """Return the layouts of data files of a table with a name mapping, at least one. Files with equal layouts are in one layout.

    The Parquet footer shows whether a file has field ids. Without them, readers find columns by the names in the mapping. A missing
    identity partition column has the partition value of the file ("Column Projection" in the Iceberg specification).

    Args:
        storage: The storage of the table.
        shape: The columns and partition fields of the table.
        entries: The manifest entries of the data files, by absolute path.
        mapping: The property `schema.name-mapping.default`.
        spec_id: The id of the current partition spec.

    Raises:
        MissingDataFile: A file does not exist.
        CorruptLog: A file has no valid Parquet footer.
        UnsupportedTableFeature: A file of another partition spec lacks a partition column.
        StorageError: The store fails.
    """
    schemas = map_concurrently(lambda entry: _read_schema(storage, shape.name, entry), list(entries.values()))
    schemas_without_ids = {path: schema for path, schema in zip(entries, schemas, strict=True) if not _has_field_ids(schema)}
    layouts = _layouts_by_names(shape, schemas_without_ids, _names_by_id(mapping))
    for layout in layouts:
        # A reader fills a missing column with a partition value of the current spec, and files of another spec may have no such value.
        has_other_spec = any(entries[path].file.spec_id != spec_id for path in layout.paths)
        if layout.missing_columns and has_other_spec:
            raise UnsupportedTableFeature(shape.name, _WITHOUT_PARTITION_COLUMNS, action="read", advice=_REWRITE)
    paths_with_ids = tuple(path for path in entries if path not in schemas_without_ids)
    # A table without data files has one layout without paths, because readers need at least one.
    if not layouts or paths_with_ids:
        layouts.append(FileLayout(paths_with_ids, shape.stored_schema, by_field_id=True, missing_columns=()))
    return tuple(layouts)


def _has_field_ids(schema: pa.Schema) -> bool:
    return any((field.metadata or {}).get(_ID) for field in schema)


def _layouts_by_names(shape: TableShape, schemas: Mapping[str, pa.Schema], names_by_id: _Names) -> list[FileLayout]:
    """Return the layouts of files without field ids. `schemas`: the Arrow schema of each file by path."""
    columns, partition_columns = stored_types(shape.schema), identity_columns(shape.partitioning)
    paths_by_layout: dict[FileLayout, list[str]] = defaultdict(list)
    for path, schema in schemas.items():
        paths_by_layout[_layout_by_names(columns, partition_columns, schema, names_by_id)].append(path)
    return [replace(layout, paths=tuple(paths)) for layout, paths in paths_by_layout.items()]


def _layout_by_names(columns: Struct, partition_columns: Collection[str], schema: pa.Schema, names_by_id: _Names) -> FileLayout:
    """Return the layout, without paths, of files whose Parquet schema has no field ids. `columns`: the table's, with stored types."""
    stored_columns = _stored_columns(columns, schema, names_by_id)
    column_pairs = zip(columns, stored_columns, strict=True)
    missing_columns = [column.name for column, stored_column in column_pairs if schema.get_field_index(stored_column.name) < 0]
    missing_partition_columns = tuple(name for name in missing_columns if name in partition_columns)
    return FileLayout((), stored_columns, by_field_id=False, missing_columns=missing_partition_columns)


def _read_schema(storage: Storage, table: str, entry: Entry) -> pa.Schema:
    """Return the Arrow schema of a Parquet file. Cache it, so that its footer is not read again."""
    path, size = plain_path(entry.file.path), entry.file.size
    schema = _schemas.get((path, size))
    if schema is not None:
        return schema
    try:
        schema = pq.read_metadata(pa.BufferReader(_read_footer(storage, path, size))).schema.to_arrow_schema()
    except FileNotFoundError as error:
        raise MissingDataFile(table, path) from error
    except (OSError, pa.ArrowException) as error:
        raise CorruptLog(path, f"it has no Parquet footer ({error})") from error
    _schemas.put((path, size), schema, weight=1)
    return schema


def _read_footer(storage: Storage, path: str, size: int) -> bytes:
    """Return the footer of a Parquet file. The last bytes of the file have the length of the footer, so this makes two requests."""
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
    """Return columns under their names in a file. A column that the file lacks gets a name that no file has.

    `file_fields`: the columns of the file, or the fields of a struct in it. `names`: the names in the name mapping, by field id.
    """
    return Struct(tuple(_stored_column(column, file_fields, names) for column in columns))


def _stored_column(column: Field, file_fields: pa.Schema | pa.StructType, names: _Names) -> Field:
    """Return a column, or a nested field, under the first of its mapped names that a file has."""
    field_id = int(column.metadata[FIELD_ID])
    metadata = {INITIAL: column.metadata[INITIAL]} if INITIAL in column.metadata else {}
    name = next((mapped_name for mapped_name in names.get(field_id, ()) if file_fields.get_field_index(mapped_name) >= 0), None)
    if name is None:
        return Field(f"__rowmerge_missing_{field_id}", column.type, True, metadata)
    return Field(name, _stored_type(column.type, file_fields.field(name).type, names), True, metadata)


def _stored_type(type_: DataType, file_type: pa.DataType, names: _Names) -> DataType:
    """Return a type with the names that a file has for its nested fields. `file_type`: the Arrow type in the file."""
    match type_:
        case Struct() if pa.types.is_struct(file_type):
            return _stored_columns(type_, file_type, names)
        case Array(element, contains_null) if pa.types.is_list(file_type) or pa.types.is_large_list(file_type):
            return Array(_stored_type(element, file_type.value_type, names), contains_null)
        case Map(key, value, contains_null) if pa.types.is_map(file_type):
            return Map(_stored_type(key, file_type.key_type, names), _stored_type(value, file_type.item_type, names), contains_null)
    return type_
