"""The list of a snapshot's data files as the engine sees it: absolute paths, typed partition values, bounds."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform
from pyiceberg.types import UUIDType

from rowmerge.errors import CorruptLog
from rowmerge.iceberg.manifests.bounds import file_bounds
from rowmerge.iceberg.manifests.content import Entry
from rowmerge.iceberg.metadata.locations import plain_path
from rowmerge.iceberg.metadata.partition_values import key_of, value_type
from rowmerge.iceberg.snapshots.live_files import LiveFiles, ManifestFiles
from rowmerge.parquet.uuids import uuid_texts
from rowmerge.table.metadata.schema import Decimal, Field, Primitive, Struct, arrow_type
from rowmerge.table.snapshots.files import OF_UUIDS, SOURCE, TRANSFORM, FileListing, file_listing


def list_files(
    files: LiveFiles, entries: Sequence[Entry], schema: Schema, columns: Struct, spec: PartitionSpec, wanted: Collection[str] = ()
) -> FileListing:
    """These entries as `rowmerge.table.snapshots.files.file_listing` says, with bounds of the top-level columns asked for.

    `partition` holds the values of the table's current partition fields, and is null for a file of another spec.
    Raises CorruptLog, StorageError.
    """
    fields = [field for field in columns if field.name in wanted and isinstance(field.type, Primitive | Decimal)]
    keys = [(key_of(spec, schema, index), value_type(schema, part)) for index, part in enumerate(spec.fields)]
    partition = pa.struct([pa.field(*key, metadata=_told(schema, part)) for key, part in zip(keys, spec.fields, strict=True)])
    bounds = pa.struct([(field.name, arrow_type(field.type)) for field in fields])
    shape = file_listing(partition, bounds, pa.struct([(field.name, pa.int64()) for field in fields]))
    if not entries:
        return FileListing(shape.empty_table())
    parts = files.data_parts if entries is files.data else [ManifestFiles(tuple(entries))]
    batches = []
    for part in parts:
        sides = [_known(part, _key(schema, field), partial(_bounds, part.entries, schema, field)) for field in fields]
        length = len(part.entries)
        found = [
            *_known(part, "files", partial(_files, part.entries)),
            _deleted(files, part.entries),
            _known(part, ("partition", spec.spec_id, str(partition)), partial(_partition_values, part, spec, partition)),
            _struct([lower for lower, _, _ in sides], bounds, length),
            _struct([upper for _, upper, _ in sides], bounds, length),
            _struct([nulls for _, _, nulls in sides], shape.field("nulls").type, length),
        ]
        batches.append(pa.RecordBatch.from_arrays(found, schema=shape))
    return FileListing(pa.Table.from_batches(batches, schema=shape))


def _known(part: ManifestFiles, key: Hashable, make: Callable[[], Any]) -> Any:
    """What was made of a manifest's files before; otherwise it is made now."""
    if key not in part.known:
        part.known[key] = make()
    return part.known[key]


def _key(schema: Schema, field: Field) -> Hashable:
    """What the bounds of a column depend on."""
    found = schema.find_field(field.name)
    return "bounds", found.field_id, str(found.field_type)


def _files(entries: Sequence[Entry]) -> list[pa.Array]:
    """Paths, sizes and numbers of rows."""
    return [
        pa.array([plain_path(entry.file.path) for entry in entries], pa.string()),
        pa.array([entry.file.size for entry in entries], pa.int64()),
        pa.array([entry.file.records for entry in entries], pa.int64()),
    ]


def _told(schema: Schema, part: PartitionField) -> dict[bytes, bytes] | None:
    """What a listing says of a partition field that is a bucket of a top-level column."""
    top = next((field for field in schema.fields if field.field_id == part.source_id), None)
    if top is None or not isinstance(part.transform, BucketTransform):
        return None
    told = {SOURCE: top.name.encode(), TRANSFORM: str(part.transform).encode()}
    return {**told, OF_UUIDS: b"true"} if isinstance(top.field_type, UUIDType) else told


def _deleted(files: LiveFiles, entries: Sequence[Entry]) -> pa.Array:
    """Rows that delete files take away. How many equality deletes take is not known before the rows are read: one at least."""
    if not files.deletes:
        return pa.array(np.zeros(len(entries), np.int64))
    return pa.array([files.deleted_count(entry) + (1 if files.equality_deletes_of(entry) else 0) for entry in entries], pa.int64())


def _partition_values(part: ManifestFiles, spec: PartitionSpec, type_: pa.StructType) -> pa.StructArray:
    entries = part.entries
    if not type_.num_fields:
        return _struct([], type_, len(entries))
    known = np.array([entry.file.spec_id == spec.spec_id for entry in entries])
    rows = [entry.file.partition if there else (None,) * type_.num_fields for entry, there in zip(entries, known, strict=True)]
    try:
        children = [_values([row[index] for row in rows], field.type) for index, field in enumerate(type_)]
    except (ArithmeticError, TypeError, ValueError, pa.ArrowException) as error:
        raise CorruptLog(
            part.path or plain_path(entries[0].file.path), f"a partition value has another type than its field ({error})"
        ) from error
    return pa.StructArray.from_arrays(children, fields=list(type_), mask=pa.array(~known))


def _values(stored: Sequence[Any], type_: pa.DataType) -> pa.Array:
    """Partition values as the engine has them; those of a uuid are stored as bytes."""
    if pa.types.is_string(type_) and any(isinstance(value, bytes) for value in stored):
        return uuid_texts(pa.array(stored, pa.binary(16)))
    return pa.array(stored, type_)


def _bounds(entries: Sequence[Entry], schema: Schema, field: Field) -> tuple[pa.Array, pa.Array, pa.Array]:
    """Lower and upper bounds and null counts of one column."""
    found = schema.find_field(field.name)
    lower, upper = file_bounds([entry.file for entry in entries], found.field_id, found.field_type)
    return lower, upper, pa.array([entry.file.null_counts.get(found.field_id) for entry in entries], pa.int64())


def _struct(children: Sequence[Any], type_: pa.StructType, length: int) -> pa.StructArray:
    if not type_.num_fields:
        return pa.Array.from_buffers(type_, length, [None], children=[])
    return pa.StructArray.from_arrays(list(children), fields=list(type_))
