"""Deletion vectors of format version 3, in Puffin files (Iceberg spec, Deletion Vectors; Puffin spec, deletion-vector-v1)."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import CorruptLog
from rowmerge.iceberg.deletes.position_deletes import POS, referenced_path
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.deleted_rows import FRAME, deserialize, framed, serialize, unframed
from rowmerge.table.snapshots.files import Positions
from rowmerge.version import __version__

_MAGIC = b"PFA1"
_NO_FLAGS = bytes(4)


def read_deletion_vectors(storage: Storage, vectors: Sequence[ContentFile]) -> dict[str, Positions]:
    """The deleted rows by the absolute plain path of the data file that each vector goes for, several read at a time.

    Raises CorruptLog, StorageError.
    """
    paths = [_data_file(vector) for vector in vectors]
    return dict(zip(paths, map_concurrently(lambda vector: read_deletion_vector(storage, vector), vectors), strict=True))


def read_deletion_vector(storage: Storage, vector: ContentFile) -> Positions:
    """The deleted rows that one vector stands for. Raises CorruptLog, StorageError."""
    where = plain_path(vector.path)
    if vector.content_offset is None or vector.content_size is None or vector.content_size < FRAME:
        raise CorruptLog(where, "the manifest does not say where in it the deletion vector is")
    holder, below = located(storage, where)
    try:
        stored = holder.get_range(below, vector.content_offset, vector.content_size)
    except FileNotFoundError as error:
        raise CorruptLog(where, "the deletion vector's file is missing") from error
    data = unframed(stored, vector.content_size - FRAME, where, vector.content_offset)
    return deserialize(data, where, vector.records)


def write_deletion_vectors(storage: Storage, path: str, deleted: Sequence[tuple[ContentFile, Positions]]) -> list[ContentFile]:
    """Write all deleted rows of data files to one Puffin file at an absolute path, and return the entries for manifests.

    Raises StorageError.
    """
    content = bytearray(_MAGIC)
    blobs = []
    for data_file, positions in deleted:
        blob = framed(serialize(positions))
        blobs.append(_blob_metadata(data_file, offset=len(content), length=len(blob), cardinality=len(positions)))
        content += blob
    footer = json.dumps({"blobs": blobs, "properties": {"created-by": f"dbt-rowmerge {__version__}"}}).encode()
    content += _MAGIC + footer + struct.pack("<i", len(footer)) + _NO_FLAGS + _MAGIC
    holder, below = located(storage, path)
    holder.put(below, bytes(content))
    return [
        ContentFile(
            content=Content.POSITION_DELETES,
            path=path,
            records=len(positions),
            size=len(content),
            spec_id=data_file.spec_id,
            partition=data_file.partition,
            format="PUFFIN",
            referenced_data_file=data_file.path,
            content_offset=blob["offset"],
            content_size=blob["length"],
        )
        for (data_file, positions), blob in zip(deleted, blobs, strict=True)
    ]


def _blob_metadata(data_file: ContentFile, *, offset: int, length: int, cardinality: int) -> dict[str, Any]:
    """Return what the footer says of one deletion vector (Puffin spec, deletion-vector-v1)."""
    return {
        "type": "deletion-vector-v1",
        "fields": [POS],
        "snapshot-id": -1,
        "sequence-number": -1,
        "offset": offset,
        "length": length,
        "properties": {"referenced-data-file": data_file.path, "cardinality": str(cardinality)},
    }


def _data_file(vector: ContentFile) -> str:
    path = referenced_path(vector)
    if path is None:
        raise CorruptLog(plain_path(vector.path), "the manifest does not say which data file the deletion vector goes for")
    return path
