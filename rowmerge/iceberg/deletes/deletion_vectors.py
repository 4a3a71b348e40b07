"""Read and write deletion vectors in Puffin files (`deletion-vector-v1` in the Puffin specification of Iceberg)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import CorruptLog
from rowmerge.iceberg.deletes.position_deletes import POS, referenced_path
from rowmerge.iceberg.deletes.puffin import blob_offsets, encode_puffin
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.deleted_rows import (
    FRAME_BYTES,
    deserialize_deletion_vector,
    frame_deletion_vector,
    serialize,
    unframe_deletion_vector,
)
from rowmerge.table.snapshots.files import Positions


def read_deletion_vectors(storage: Storage, vectors: Sequence[ContentFile]) -> dict[str, Positions]:
    """Return the deleted positions of each data file, by absolute path. Read vectors concurrently.

    A deletion vector is a bitmap of the positions of deleted rows in one data file. It is a blob of a Puffin file.

    Args:
        storage: The store that contains the table.
        vectors: The file entries of the deletion vectors, at most one for each data file.

    Raises:
        CorruptLog: An entry lacks the path of its data file or its offset in the Puffin file, or the file is missing or malformed.
        StorageError: The store fails.
    """
    paths = [_referenced_data_file(vector) for vector in vectors]
    return dict(zip(paths, map_concurrently(lambda vector: _read_deletion_vector(storage, vector), vectors), strict=True))


def _read_deletion_vector(storage: Storage, vector: ContentFile) -> Positions:
    """Return the positions of the deleted rows in one deletion vector. Raises CorruptLog, StorageError.

    The manifest contains the offset and length of the blob in the Puffin file. So one range request suffices, and the footer is not read.
    """
    path = plain_path(vector.path)
    if vector.content_offset is None or vector.content_size is None or vector.content_size < FRAME_BYTES:
        raise CorruptLog(path, "the manifest does not contain the position of the deletion vector in the file")
    file_storage, relative_path = located(storage, path)
    try:
        blob = file_storage.get_range(relative_path, vector.content_offset, vector.content_size)
    except FileNotFoundError as error:
        raise CorruptLog(path, "the file of the deletion vector does not exist") from error
    # The bitmap in the blob is framed by its length, magic bytes and a checksum.
    bitmap = unframe_deletion_vector(blob, vector.content_size - FRAME_BYTES, path, vector.content_offset)
    return deserialize_deletion_vector(bitmap, path, vector.records)


def write_deletion_vectors(storage: Storage, path: str, deleted_rows: Sequence[tuple[ContentFile, Positions]]) -> list[ContentFile]:
    """Write one Puffin file with a deletion vector for each data file.

    Args:
        storage: The store that contains the table.
        path: The absolute path of the Puffin file.
        deleted_rows: Pairs of a data file and the positions of all its deleted rows.

    Returns:
        A file entry for each deletion vector, in the order of `deleted_rows`.

    Raises:
        StorageError: The store fails.
    """
    blobs = [frame_deletion_vector(serialize(positions)) for _, positions in deleted_rows]
    vectors = [
        ContentFile(
            content=Content.POSITION_DELETES,
            path=path,
            records=len(positions),
            size=0,  # The size of the file depends on the footer, which contains the other values. It is set at the end.
            spec_id=data_file.spec_id,
            partition=data_file.partition,
            format="PUFFIN",
            referenced_data_file=data_file.path,
            content_offset=offset,
            content_size=len(blob),
        )
        for (data_file, positions), blob, offset in zip(deleted_rows, blobs, blob_offsets(blobs), strict=True)
    ]
    puffin, _ = encode_puffin(blobs, [_blob_metadata(vector) for vector in vectors])
    file_storage, relative_path = located(storage, path)
    file_storage.put(relative_path, puffin)
    return [replace(vector, size=len(puffin)) for vector in vectors]


def _blob_metadata(vector: ContentFile) -> dict[str, Any]:
    """Return the footer entry of a deletion vector ("BlobMetadata" in the Puffin specification).

    The specification requires -1 for the snapshot id and the sequence number. The commit assigns both after the file is written.
    """
    return {
        "type": "deletion-vector-v1",
        "fields": [POS],
        "snapshot-id": -1,
        "sequence-number": -1,
        "properties": {"referenced-data-file": vector.referenced_data_file, "cardinality": str(vector.records)},
    }


def _referenced_data_file(vector: ContentFile) -> str:
    """Return the absolute path of the data file whose rows a deletion vector deletes. Raises CorruptLog if the entry lacks this path."""
    path = referenced_path(vector)
    if path is None:
        raise CorruptLog(plain_path(vector.path), "the manifest does not contain the data file of the deletion vector")
    return path
