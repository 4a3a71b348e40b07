"""Replace the paths of data files in position-delete files and in Puffin files with deletion vectors."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.deletes.puffin import encode_puffin

_PATH = "file_path"
_REFERENCED = "referenced-data-file"
_TAIL = 12
"""The bytes of a Puffin file after the description of its blobs: the length of the description, flags, and magic bytes."""


def with_new_paths(data: bytes, path: str, format_: str, new_path: Callable[[str], str]) -> bytes:
    """Return the bytes of a delete file with other paths of data files. The rows and their order stay.

    Args:
        data: The bytes of the file.
        path: The path of the delete file in messages.
        format_: The format of the file in the manifest.
        new_path: Returns the new path of a data file.

    Raises:
        CorruptLog: The file is damaged.
        UnsupportedTableFeature: The file is neither a Parquet nor a Puffin file.
    """
    try:
        match format_.upper():
            case "PARQUET":
                return _parquet_with_new_paths(data, new_path)
            case "PUFFIN":
                return _puffin_with_new_paths(data, new_path)
    except (pa.ArrowException, ValueError, LookupError, struct.error) as error:
        raise CorruptLog(path, f"it is not a valid delete file ({error})") from error
    advice = "Rewrite it with CALL system.rewrite_position_delete_files(table => …, options => map('rewrite-all', 'true'))."
    raise UnsupportedTableFeature(path, f"position deletes in the format {format_}", action="copy", advice=advice)


def _parquet_with_new_paths(data: bytes, new_path: Callable[[str], str]) -> bytes:
    """Return a position-delete file in which each distinct path is replaced once."""
    rows = pq.read_table(pa.BufferReader(data))
    index = rows.schema.get_field_index(_PATH)
    paths = rows.column(index).combine_chunks().cast(pa.string()).dictionary_encode()
    new_paths = pa.array([new_path(path) for path in paths.dictionary.to_pylist()], pa.string())
    rows = rows.set_column(index, rows.schema.field(index), pc.take(new_paths, paths.indices).cast(rows.schema.field(index).type))
    buffer = io.BytesIO()
    pq.write_table(rows, buffer, compression="zstd", store_schema=False)
    return buffer.getvalue()


def _puffin_with_new_paths(data: bytes, new_path: Callable[[str], str]) -> bytes:
    """Return a Puffin file with the same blobs in the same places, and a footer with the new paths."""
    (length,) = struct.unpack("<i", data[-_TAIL : 4 - _TAIL])
    blobs = sorted(json.loads(data[-_TAIL - length : -_TAIL])["blobs"], key=lambda blob: blob["offset"])
    for blob in blobs:
        properties = blob.get("properties", {})
        if _REFERENCED in properties:
            blob["properties"] = {**properties, _REFERENCED: new_path(properties[_REFERENCED])}
    rewritten, _ = encode_puffin([data[blob["offset"] : blob["offset"] + blob["length"]] for blob in blobs], blobs)
    return rewritten
