"""Data files without field ids, as Hive and Spark wrote them before a table took them in (Iceberg spec, Column Projection)."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.table.name_mapping import MappedField, NameMapping

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import CorruptLog, MissingDataFile, UnsupportedTableFeature
from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.rules import INITIAL
from rowmerge.table.metadata.schema import FIELD_ID, Array, DataType, Field, Map, Struct
from rowmerge.table.snapshots.files import FileLayout

_ID = b"PARQUET:field_id"
_TAIL = 8
_Names = Mapping[int, Sequence[str]]
_footers: dict[tuple[str, int], pa.Schema] = {}
_KEPT_FOOTERS = 10_000


def layouts(
    storage: Storage, table: str, entries: Mapping[str, Entry], columns: Struct, ordinary: FileLayout, mapping: NameMapping, spec_id: int
) -> tuple[FileLayout, ...]:
    """How these data files, by their paths, hold a table's columns: `ordinary`, or under the names that the mapping knows them by.

    An identity partition column that such a file lacks has the file's partition value; the partitioning must be `spec_id` then. Raises
    MissingDataFile, CorruptLog, StorageError, UnsupportedTableFeature.
    """
    read = map_concurrently(lambda entry: _schema_of(storage, table, entry), list(entries.values()))
    schemas = dict(zip(entries, read, strict=True))
    names = dict(_names(mapping))
    together: dict[tuple[Struct, tuple[str, ...]], list[str]] = defaultdict(list)
    with_ids = []
    for path, found in schemas.items():
        if any((field.metadata or {}).get(_ID) for field in found):
            with_ids.append(path)
            continue
        stored = _stored(columns, found, names)
        missing = tuple(field.name for field, held in zip(columns, stored, strict=True) if found.get_field_index(held.name) < 0)
        outside = tuple(name for name in missing if name in ordinary.outside)
        if outside and entries[path].file.spec_id != spec_id:
            advice = "Write its files again with an engine that reads such files (the procedure rewrite_data_files of Iceberg on Spark)."
            told = "data files without partition columns from before the partitioning was changed"
            raise UnsupportedTableFeature(table, told, action="read", advice=advice)
        together[stored, outside].append(path)
    found_layouts = [FileLayout(tuple(paths), stored, False, outside) for (stored, outside), paths in together.items()]
    if with_ids or not found_layouts:
        found_layouts.append(FileLayout(tuple(with_ids), ordinary.stored, True, ()))
    return tuple(found_layouts)


def _schema_of(storage: Storage, table: str, entry: Entry) -> pa.Schema:
    """The columns of a Parquet file, from its footer, which is kept."""
    path, size = plain_path(entry.file.path), entry.file.size
    if (path, size) not in _footers:
        holder, below = located(storage, path)
        try:
            tail = holder.get_range(below, size - _TAIL, _TAIL)
            length = int.from_bytes(tail[:4], "little") + _TAIL
            footer = holder.get_range(below, size - length, length)
            schema = pq.read_metadata(pa.BufferReader(footer)).schema.to_arrow_schema()
        except FileNotFoundError as error:
            raise MissingDataFile(table, path) from error
        except (OSError, pa.ArrowException) as error:
            raise CorruptLog(path, f"it has no Parquet footer ({error})") from error
        if len(_footers) >= _KEPT_FOOTERS:
            _footers.clear()
        _footers[path, size] = schema
    return _footers[path, size]


def _names(fields: Sequence[MappedField] | NameMapping) -> list[tuple[int, Sequence[str]]]:
    """The names by which fields are known, by their ids, at any depth."""
    found: list[tuple[int, Sequence[str]]] = []
    for field in fields:
        if field.field_id is not None:
            found.append((field.field_id, field.names))
        found += _names(field.fields)
    return found


def _stored(columns: Struct, found: pa.Schema | pa.StructType, names: _Names) -> Struct:
    """The columns under the names that a file has for them; under one that no file has, where it lacks them."""
    held = []
    for field in columns:
        id_ = int(field.metadata[FIELD_ID])
        known = [name for name in names.get(id_, ()) if found.get_field_index(name) >= 0]
        name = known[0] if known else f"__rowmerge_missing_{id_}"
        type_ = _inside(field.type, found.field(name).type, names) if known else field.type
        kept = {key: field.metadata[key] for key in (INITIAL,) if key in field.metadata}
        held.append(Field(name, type_, True, kept))
    return Struct(tuple(held))


def _inside(type_: DataType, found: pa.DataType, names: _Names) -> DataType:
    match type_:
        case Struct() if pa.types.is_struct(found):
            return _stored(type_, found, names)
        case Array(element, contains_null) if pa.types.is_list(found) or pa.types.is_large_list(found):
            return Array(_inside(element, found.value_type, names), contains_null)
        case Map(key, value, contains_null) if pa.types.is_map(found):
            return Map(_inside(key, found.key_type, names), _inside(value, found.item_type, names), contains_null)
    return type_
