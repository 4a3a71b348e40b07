"""Data files without field ids, which Hive and Spark wrote before a table registered them (Iceberg spec, Column Projection)."""

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
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Array, DataType, Field, Map, Struct
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
    storage: Storage, table: str, entries: Mapping[str, Entry], columns: Struct, ordinary: FileLayout, mapping: NameMapping, spec_id: int
) -> tuple[FileLayout, ...]:
    """Return how data files store a table's columns: files with field ids as `ordinary` says, others under the names of the mapping.

    `entries`: the files by path. If a file without ids lacks an identity partition column, which `ordinary` names, the column has the
    file's partition value, and the file must have the spec `spec_id`.
    Raises MissingDataFile, CorruptLog, StorageError, UnsupportedTableFeature.
    """
    schemas = map_concurrently(lambda entry: _read_schema(storage, table, entry), list(entries.values()))
    schemas_without_ids = {path: schema for path, schema in zip(entries, schemas, strict=True) if not _has_field_ids(schema)}
    names_by_id = _names_by_id(mapping)
    paths_by_layout: dict[FileLayout, list[str]] = defaultdict(list)
    for path, schema in schemas_without_ids.items():
        stored_columns = _stored_columns(columns, schema, names_by_id)
        missing_columns = _missing_columns(columns, stored_columns, schema, ordinary.missing_columns)
        if missing_columns and entries[path].file.spec_id != spec_id:
            raise UnsupportedTableFeature(table, _WITHOUT_PARTITION_COLUMNS, action="read", advice=_REWRITE)
        layout = FileLayout((), stored_columns, by_field_id=False, missing_columns=missing_columns)
        paths_by_layout[layout].append(path)
    layouts = [replace(layout, paths=tuple(paths)) for layout, paths in paths_by_layout.items()]
    paths_with_ids = tuple(path for path in entries if path not in schemas_without_ids)
    if paths_with_ids or not layouts:
        layouts.append(FileLayout(paths_with_ids, ordinary.stored, by_field_id=True, missing_columns=()))
    return tuple(layouts)


def _has_field_ids(schema: pa.Schema) -> bool:
    return any((field.metadata or {}).get(_ID) for field in schema)


def _missing_columns(columns: Struct, stored: Struct, schema: pa.Schema, candidates: Collection[str]) -> tuple[str, ...]:
    """Return those candidates that a file with this schema lacks."""
    missing = (column.name for column, field in zip(columns, stored, strict=True) if schema.get_field_index(field.name) < 0)
    return tuple(name for name in missing if name in candidates)


def _read_schema(storage: Storage, table: str, entry: Entry) -> pa.Schema:
    """Return the columns of a Parquet file. Read its footer once per process."""
    path, size = plain_path(entry.file.path), entry.file.size
    schema = _schemas.get((path, size))
    if schema is not None:
        return schema
    try:
        footer = pa.BufferReader(_read_footer(storage, path, size))
        schema = pq.read_metadata(footer).schema.to_arrow_schema()
    except FileNotFoundError as error:
        raise MissingDataFile(table, path) from error
    except (OSError, pa.ArrowException) as error:
        raise CorruptLog(path, f"it has no Parquet footer ({error})") from error
    _schemas.put((path, size), schema, weight=1)
    return schema


def _read_footer(storage: Storage, path: str, size: int) -> bytes:
    path_storage, relative_path = located(storage, path)
    tail = path_storage.get_range(relative_path, size - _TAIL, _TAIL)
    length = int.from_bytes(tail[:4], "little") + _TAIL
    return path_storage.get_range(relative_path, size - length, length)


def _names_by_id(fields: Sequence[MappedField] | NameMapping) -> dict[int, Sequence[str]]:
    """Return the names of mapped fields at any depth, by field id."""
    names: dict[int, Sequence[str]] = {}
    for field in fields:
        if field.field_id is not None:
            names[field.field_id] = field.names
        names |= _names_by_id(field.fields)
    return names


def _stored_columns(columns: Struct, stored: pa.Schema | pa.StructType, names: _Names) -> Struct:
    """Return columns under the names that a file has for them. A column that the file lacks gets a name that no file has."""
    return Struct(tuple(_stored_column(column, stored, names) for column in columns))


def _stored_column(column: Field, stored: pa.Schema | pa.StructType, names: _Names) -> Field:
    field_id = int(column.metadata[FIELD_ID])
    metadata = {INITIAL: column.metadata[INITIAL]} if INITIAL in column.metadata else {}
    name = next((mapped for mapped in names.get(field_id, ()) if stored.get_field_index(mapped) >= 0), None)
    if name is None:
        return Field(f"__rowmerge_missing_{field_id}", column.type, True, metadata)
    return Field(name, _stored_type(column.type, stored.field(name).type, names), True, metadata)


def _stored_type(type_: DataType, stored: pa.DataType, names: _Names) -> DataType:
    match type_:
        case Struct() if pa.types.is_struct(stored):
            return _stored_columns(type_, stored, names)
        case Array(element, contains_null) if pa.types.is_list(stored) or pa.types.is_large_list(stored):
            return Array(_stored_type(element, stored.value_type, names), contains_null)
        case Map(key, value, contains_null) if pa.types.is_map(stored):
            return Map(_stored_type(key, stored.key_type, names), _stored_type(value, stored.item_type, names), contains_null)
    return type_
