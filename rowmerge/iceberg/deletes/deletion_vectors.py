"""Read and write deletion vectors of format version 3, in Puffin (Iceberg spec, Deletion Vectors; Puffin spec, deletion-vector-v1)."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass
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
_PROPERTIES = {"created-by": f"dbt-rowmerge {__version__}"}


def read_deletion_vectors(storage: Storage, vectors: Sequence[ContentFile]) -> dict[str, Positions]:
    """Read vectors concurrently; return deleted rows by the absolute plain path of the data file. Raises CorruptLog, StorageError."""
    paths = [_referenced_data_file(vector) for vector in vectors]
    return dict(zip(paths, map_concurrently(lambda vector: _read_deletion_vector(storage, vector), vectors), strict=True))


def _read_deletion_vector(storage: Storage, vector: ContentFile) -> Positions:
    """Return the deleted rows of one vector. Raises CorruptLog, StorageError."""
    path = plain_path(vector.path)
    if vector.content_offset is None or vector.content_size is None or vector.content_size < FRAME:
        raise CorruptLog(path, "the manifest does not say where in it the deletion vector is")
    file_storage, relative_path = located(storage, path)
    try:
        blob = file_storage.get_range(relative_path, vector.content_offset, vector.content_size)
    except FileNotFoundError as error:
        raise CorruptLog(path, "the deletion vector's file is missing") from error
    return deserialize(unframed(blob, vector.content_size - FRAME, path, vector.content_offset), path, vector.records)


def write_deletion_vectors(storage: Storage, path: str, deleted: Sequence[tuple[ContentFile, Positions]]) -> list[ContentFile]:
    """Write all deleted rows of data files as one Puffin file at an absolute path; return each vector's entry. Raises StorageError."""
    blobs = _build_blobs(deleted)
    footer = json.dumps({"blobs": [blob.metadata() for blob in blobs], "properties": _PROPERTIES}).encode()
    vectors = [blob.data for blob in blobs]
    puffin = b"".join([_MAGIC, *vectors, _MAGIC, footer, struct.pack("<i", len(footer)), _NO_FLAGS, _MAGIC])
    file_storage, relative_path = located(storage, path)
    file_storage.put(relative_path, puffin)
    return [blob.content_file(path, len(puffin)) for blob in blobs]


def _build_blobs(deleted: Sequence[tuple[ContentFile, Positions]]) -> list[_Blob]:
    """Return the deletion vector of each data file. The first one follows the magic bytes of the file, each other one the previous one."""
    blobs: list[_Blob] = []
    offset = len(_MAGIC)
    for data_file, positions in deleted:
        vector = framed(serialize(positions))
        blobs.append(_Blob(data_file, vector, len(positions), offset))
        offset += len(vector)
    return blobs


@dataclass(frozen=True)
class _Blob:
    """A deletion vector in a Puffin file; `cardinality` is its number of deleted rows."""

    data_file: ContentFile
    data: bytes
    cardinality: int
    offset: int

    def metadata(self) -> dict[str, Any]:
        """Return the blob's entry in the footer (Puffin spec, deletion-vector-v1)."""
        return {
            "type": "deletion-vector-v1",
            "fields": [POS],
            "snapshot-id": -1,
            "sequence-number": -1,
            "offset": self.offset,
            "length": len(self.data),
            "properties": {"referenced-data-file": self.data_file.path, "cardinality": str(self.cardinality)},
        }

    def content_file(self, path: str, size: int) -> ContentFile:
        return ContentFile(
            content=Content.POSITION_DELETES,
            path=path,
            records=self.cardinality,
            size=size,
            spec_id=self.data_file.spec_id,
            partition=self.data_file.partition,
            format="PUFFIN",
            referenced_data_file=self.data_file.path,
            content_offset=self.offset,
            content_size=len(self.data),
        )


def _referenced_data_file(vector: ContentFile) -> str:
    path = referenced_path(vector)
    if path is None:
        raise CorruptLog(plain_path(vector.path), "the manifest does not say which data file the deletion vector goes for")
    return path
