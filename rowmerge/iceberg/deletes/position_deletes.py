"""Read and write position-delete files, which name the deleted rows of data files (Iceberg spec, Position Delete Files)."""

from __future__ import annotations

import io
from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import orc
from pyiceberg.conversions import to_bytes
from pyiceberg.types import LongType

from rowmerge.concurrency import map_concurrently
from rowmerge.errors import CorruptLog, UnsupportedTableFeature
from rowmerge.iceberg.avro.files import read_avro
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.iceberg.metadata.locations import located, plain_path
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage
from rowmerge.table.snapshots.files import Positions

FILE_PATH, POS = 2147483546, 2147483545
"""The field ids of the two columns."""

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(FILE_PATH)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POS)}),
    ]
)
_NAMES = {FILE_PATH: "file_path", POS: "pos"}
_BATCH_ROWS = 1_000_000
_CACHED_BYTES = 128 * 1024 * 1024
_ENTRY_OVERHEAD = 100
"""The bytes that Python's objects of one data file take in the cache, besides the path and the bitmap."""
_cache: Cache[Mapping[str, Positions]] = Cache(_CACHED_BYTES)


def write_position_deletes(storage: Storage, path: str, data_file: ContentFile, positions: Positions) -> ContentFile:
    """Write all deleted rows of a data file as Parquet to an absolute path, and return the file's `ContentFile`. Raises StorageError.

    Lower and upper bound of the paths are equal, which tells readers that the file applies to this data file alone.
    """
    assert positions, "there are deleted rows"
    rows = np.fromiter(positions, dtype=np.int64, count=len(positions))
    parquet = _encode_parquet(data_file.path, rows)
    file_storage, relative_path = located(storage, path)
    file_storage.put(relative_path, parquet)
    path_bound = data_file.path.encode()
    return ContentFile(
        content=Content.POSITION_DELETES,
        path=path,
        records=len(rows),
        size=len(parquet),
        spec_id=data_file.spec_id,
        partition=data_file.partition,
        lower={FILE_PATH: path_bound, POS: to_bytes(LongType(), int(rows[0]))},
        upper={FILE_PATH: path_bound, POS: to_bytes(LongType(), int(rows[-1]))},
        split_offsets=_row_group_offsets(parquet),
        referenced_data_file=data_file.path,
    )


def _encode_parquet(data_file: str, rows: np.ndarray[Any, Any]) -> bytes:
    batch_paths = pa.repeat(data_file, min(len(rows), _BATCH_ROWS))  # Arrow's text arrays hold up to 2 GiB, which it does not check
    paths = pa.chunked_array([batch_paths.slice(0, len(rows) - start) for start in range(0, len(rows), _BATCH_ROWS)])
    table = pa.Table.from_arrays([paths, pa.array(rows)], schema=_SCHEMA)
    stream = io.BytesIO()
    options: dict[str, Any] = {"compression": "zstd", "version": "2.6", "store_schema": False, "row_group_size": _BATCH_ROWS}
    pq.write_table(table, stream, use_dictionary=["file_path"], **options)
    return stream.getvalue()


def _row_group_offsets(parquet: bytes) -> tuple[int, ...]:
    footer = pq.read_metadata(pa.BufferReader(parquet))
    first_columns = [footer.row_group(index).column(0) for index in range(footer.num_row_groups)]
    return tuple(column.dictionary_page_offset or column.data_page_offset for column in first_columns)


def referenced_path(deletes: ContentFile) -> str | None:
    """Return the absolute plain path of the data file that deletes apply to, or None if they may apply to several."""
    if deletes.referenced_data_file is not None:
        return plain_path(deletes.referenced_data_file)
    lower, upper = deletes.lower.get(FILE_PATH), deletes.upper.get(FILE_PATH)
    return plain_path(lower.decode()) if lower is not None and lower == upper else None


def read_position_deletes(storage: Storage, files: Sequence[ContentFile]) -> dict[str, Positions]:
    """Return the deleted rows in position-delete files, by the absolute plain path of the data file.

    Several files are read concurrently. Raises CorruptLog, UnsupportedTableFeature for an unknown file format, StorageError.
    """
    positions: dict[str, Positions] = defaultdict(Positions)
    for file_positions in map_concurrently(lambda file: read_position_delete_file(storage, file), files):
        for path, deleted in file_positions.items():
            positions[path] |= deleted
    return positions


def read_position_delete_file(storage: Storage, file: ContentFile) -> Mapping[str, Positions]:
    """Return the deleted rows in one file. The result is cached: do not change it. Raises what `read_position_deletes` does."""
    path = plain_path(file.path)
    cache_key = (path, file.size)
    positions = _cache.get(cache_key)
    if positions is None:
        positions = _read_file(storage, path, file.format)
        sizes = [len(data_file) + _ENTRY_OVERHEAD + len(rows.serialize()) for data_file, rows in positions.items()]
        _cache.put(cache_key, positions, sum(sizes))
    return positions


def _read_file(storage: Storage, path: str, format: str) -> dict[str, Positions]:
    file_storage, relative_path = located(storage, path)
    try:
        return _collect_positions(_decode_batches(file_storage.get(relative_path), path, format))
    except FileNotFoundError as error:
        raise CorruptLog(path, "the delete file is missing") from error
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise CorruptLog(path, f"it is no file of position deletes ({type(error).__name__}: {reason})") from error


def _collect_positions(batches: Iterable[pa.RecordBatch]) -> dict[str, Positions]:
    """Return the positions in batches by the plain path of their data file."""
    positions: dict[str, Positions] = {}
    cached_plain_path = cache(plain_path)
    for batch in batches:
        batch_positions = batch.column("pos").to_numpy(zero_copy_only=False)
        for data_file, rows in _group_by_path(batch.column("file_path"), batch_positions):
            positions.setdefault(cached_plain_path(data_file), Positions()).update(Positions(array("Q", rows.tobytes())))
    return positions


def _decode_batches(data: bytes, path: str, format: str) -> Iterator[pa.RecordBatch]:
    """Yield batches with the columns `file_path` and `pos`. Raises UnsupportedTableFeature for an unknown file format."""
    match format:
        case "PARQUET":
            parquet = pq.ParquetFile(pa.BufferReader(data), read_dictionary=["file_path"])
            yield from parquet.iter_batches(batch_size=_BATCH_ROWS, columns=_SCHEMA.names)
        case "ORC":
            table = orc.ORCFile(pa.BufferReader(data)).read(columns=_SCHEMA.names)
            yield from table.to_batches(max_chunksize=_BATCH_ROWS)
        case "AVRO":
            yield from _decode_avro(data, path).to_batches()
        case _:
            advice = "Rewrite the table's delete files with the engine that wrote them, in Parquet."
            raise UnsupportedTableFeature(path, f"{format.lower()} delete files", action="read", advice=advice)


def _decode_avro(data: bytes, path: str) -> pa.Table:
    records = read_avro(data, path, _NAMES).records
    return pa.Table.from_pylist([{"file_path": record["file_path"], "pos": record["pos"]} for record in records], schema=_SCHEMA)


def _group_by_path(path_column: pa.Array, positions: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield each data file's path and the positions in its rows, from a batch's two columns. Raises ValueError for an invalid row.

    Whole arrays are compared and split, because a loop over rows would be slow for millions of deletes.
    """
    if not len(positions):
        return
    if positions.dtype != np.int64 or positions.min() < 0 or path_column.null_count:
        raise ValueError("a row has no path, or no position from 0 on")
    paths = path_column if pa.types.is_dictionary(path_column.type) else path_column.dictionary_encode()
    path_codes = paths.indices.to_numpy(zero_copy_only=False)  # one number per row, the same for the same path
    if np.any(path_codes[1:] < path_codes[:-1]):  # the specification sorts rows by path, but not all writers do
        order = np.argsort(path_codes, kind="stable")
        path_codes, positions = path_codes[order], positions[order]
    # A group starts at the first row, and wherever the path changes.
    group_starts = np.flatnonzero(np.append(True, path_codes[1:] != path_codes[:-1]))
    position_groups = np.split(positions, group_starts[1:])
    for path_code, path_positions in zip(path_codes[group_starts].tolist(), position_groups, strict=True):
        yield paths.dictionary[path_code].as_py(), path_positions
