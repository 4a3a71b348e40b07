"""Read and write position-delete files, which list deleted rows of data files ("Position Delete Files" in the Iceberg specification)."""

from __future__ import annotations

import io
from array import array
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from rowmerge.iceberg.metadata.properties import DeleteFileSettings
from rowmerge.parquet.leaf_columns import row_group_offsets
from rowmerge.storage.cache import Cache
from rowmerge.storage.store import Storage
from rowmerge.table.metadata.settings import ParquetSettings
from rowmerge.table.snapshots.files import Positions

FILE_PATH, POS = 2147483546, 2147483545
"""The field ids of the columns `file_path` and `pos` ("Reserved Field IDs" in the Iceberg specification)."""

_SCHEMA = pa.schema(
    [
        pa.field("file_path", pa.string(), nullable=False, metadata={"PARQUET:field_id": str(FILE_PATH)}),
        pa.field("pos", pa.int64(), nullable=False, metadata={"PARQUET:field_id": str(POS)}),
    ]
)
_NAMES = {FILE_PATH: "file_path", POS: "pos"}
_Rows = Sequence[tuple[ContentFile, np.ndarray[Any, Any]]]
"""The rows of a position-delete file: data files sorted by path, each with the sorted positions of its deleted rows."""
_DEFAULT_SETTINGS = DeleteFileSettings()
_BATCH_ROWS = 1_000_000
_POSITION_BYTES = 8
"""The bytes of a row that count for the size of a row group. The path is in a dictionary, and takes almost no space."""
_CACHED_BYTES = 128 * 1024 * 1024
_ENTRY_OVERHEAD = 100
"""The estimated size in bytes of the Python objects that the cache needs for each data file, besides the path and the bitmap."""
_cache: Cache[Mapping[str, Positions]] = Cache(_CACHED_BYTES)


def write_position_deletes(
    storage: Storage,
    new_path: Callable[[], str],
    deletions: Sequence[tuple[ContentFile, Positions]],
    settings: DeleteFileSettings = _DEFAULT_SETTINGS,
) -> list[ContentFile]:
    """Write the deleted rows of data files of one partition into position-delete files, in Parquet.

    Args:
        storage: The store that contains the table.
        new_path: Returns the absolute path of a new delete file.
        deletions: The data files, each with the positions of its deleted rows; at least one.
        settings: The settings of delete files. If the rows exceed the target size, several files get about the same number of rows.

    Returns:
        The manifest's records of the delete files. The lower and upper bounds of the column `file_path` are equal if the rows are of one
        data file. Readers then apply the delete file only to this data file.

    Raises:
        StorageError: The store fails.
    """
    assert all(positions for _, positions in deletions), "there are deleted rows"
    # The specification requires rows to be sorted by path. A bitmap iterates in ascending order.
    rows = [
        (file, np.fromiter(positions, dtype=np.int64, count=len(positions)))
        for file, positions in sorted(deletions, key=lambda deletion: deletion[0].path)
    ]
    parquet = _encode_parquet(rows, settings.parquet)
    row_count = sum(len(positions) for _, positions in rows)
    file_count = min(-(-len(parquet) // settings.target_size), row_count)
    if file_count <= 1:
        return [_put_delete_file(storage, new_path(), rows, parquet)]
    return [
        _put_delete_file(storage, new_path(), part, _encode_parquet(part, settings.parquet))
        for part in _divide_rows(rows, -(-row_count // file_count))
    ]


def _put_delete_file(storage: Storage, path: str, rows: _Rows, parquet: bytes) -> ContentFile:
    """Put a position-delete file, and return its record. `parquet`: the content of the file, with these rows."""
    file_storage, relative_path = located(storage, path)
    file_storage.put(relative_path, parquet)
    first_file, last_file = rows[0][0], rows[-1][0]
    positions_by_file = [positions for _, positions in rows]
    first_position, last_position = (
        min(int(of_file[0]) for of_file in positions_by_file),
        max(int(of_file[-1]) for of_file in positions_by_file),
    )
    return ContentFile(
        content=Content.POSITION_DELETES,
        path=path,
        records=sum(map(len, positions_by_file)),
        size=len(parquet),
        spec_id=first_file.spec_id,
        partition=first_file.partition,
        lower={FILE_PATH: first_file.path.encode(), POS: to_bytes(LongType(), first_position)},
        upper={FILE_PATH: last_file.path.encode(), POS: to_bytes(LongType(), last_position)},
        split_offsets=row_group_offsets(pq.read_metadata(pa.BufferReader(parquet))),
        referenced_data_file=first_file.path if len(rows) == 1 else None,
    )


def _divide_rows(rows: _Rows, part_size: int) -> Iterator[_Rows]:
    """Yield the rows in parts of `part_size` rows. The last part may have fewer rows."""
    part: list[tuple[ContentFile, np.ndarray[Any, Any]]] = []
    remaining = part_size
    for file, positions in rows:
        while len(positions):
            part.append((file, positions[:remaining]))
            positions, remaining = positions[remaining:], remaining - min(remaining, len(positions))
            if remaining == 0:
                yield part
                part, remaining = [], part_size
    if part:
        yield part


def _encode_parquet(rows: _Rows, settings: ParquetSettings) -> bytes:
    """Return a Parquet file with a row for each deleted position."""
    stream = io.BytesIO()
    pq.write_table(
        pa.Table.from_arrays(
            [pa.chunked_array(list(_path_chunks(rows)), pa.string()), pa.chunked_array([positions for _, positions in rows], pa.int64())],
            schema=_SCHEMA,
        ),
        stream,
        compression=settings.codec or "zstd",
        compression_level=settings.level,
        version="2.6",
        store_schema=False,
        row_group_size=_BATCH_ROWS if settings.row_group_size is None else max(settings.row_group_size // _POSITION_BYTES, 1),
        use_dictionary=["file_path"],
        **settings.pages.writer_arguments,
    )
    return stream.getvalue()


def _path_chunks(rows: _Rows) -> Iterator[pa.Array]:
    """Yield the paths of the rows. An Arrow string array above 2 GiB overflows without an error, so a chunk has few rows."""
    for file, positions in rows:
        batch_paths = pa.repeat(file.path, min(len(positions), _BATCH_ROWS))
        for start in range(0, len(positions), _BATCH_ROWS):
            yield batch_paths.slice(0, len(positions) - start)


def referenced_path(deletes: ContentFile) -> str | None:
    """Return the absolute path of the only data file to which a position-delete file applies, or None if it may apply to several."""
    # Writers that do not set the path of the data file may still set equal bounds for the column `file_path`.
    if deletes.referenced_data_file is not None:
        return plain_path(deletes.referenced_data_file)
    lower, upper = deletes.lower.get(FILE_PATH), deletes.upper.get(FILE_PATH)
    return plain_path(lower.decode()) if lower is not None and lower == upper else None


def read_position_deletes(storage: Storage, files: Sequence[ContentFile]) -> dict[str, Positions]:
    """Return the deleted positions in position-delete files, by the absolute path of the data file. Read the files concurrently.

    Args:
        storage: The store that contains the table.
        files: The file entries of position-delete files.

    Raises:
        CorruptLog: A file is missing or malformed.
        UnsupportedTableFeature: A file is not in the Parquet, ORC or Avro format.
        StorageError: The store fails.
    """
    positions: dict[str, Positions] = defaultdict(Positions)
    for file_positions in map_concurrently(lambda file: read_position_delete_file(storage, file), files):
        for path, deleted_positions in file_positions.items():
            positions[path] |= deleted_positions
    return positions


def read_position_delete_file(storage: Storage, file: ContentFile) -> Mapping[str, Positions]:
    """Return the deleted positions in one position-delete file, by the absolute path of the data file.

    The result comes from a cache that all callers share, so callers must not modify it.

    Args:
        storage: The store that contains the table.
        file: The file entry of a position-delete file.

    Raises:
        CorruptLog: The file is missing or malformed.
        UnsupportedTableFeature: The file is not in the Parquet, ORC or Avro format.
        StorageError: The store fails.
    """
    path = plain_path(file.path)
    cache_key = (path, file.size)
    positions = _cache.get(cache_key)
    if positions is None:
        positions = _read_file(storage, path, file.format)
        sizes = [len(data_file) + _ENTRY_OVERHEAD + len(bitmap.serialize()) for data_file, bitmap in positions.items()]
        _cache.put(cache_key, positions, sum(sizes))
    return positions


def _read_file(storage: Storage, path: str, format: str) -> dict[str, Positions]:
    """Return the deleted positions in a delete file, by data file. `format`: the file format, such as `PARQUET`. Raises CorruptLog."""
    file_storage, relative_path = located(storage, path)
    try:
        return _collect_positions(_decode_batches(file_storage.get(relative_path), path, format))
    except FileNotFoundError as error:
        raise CorruptLog(path, "the delete file does not exist") from error
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise CorruptLog(path, f"it is not a position-delete file ({type(error).__name__}: {reason})") from error


def _collect_positions(batches: Iterable[pa.RecordBatch]) -> dict[str, Positions]:
    """Return the deleted positions in record batches, by the absolute path of the data file."""
    positions: dict[str, Positions] = {}
    cached_plain_path = cache(plain_path)
    for batch in batches:
        for data_file, file_positions in _group_by_path(batch.column("file_path"), batch.column("pos").to_numpy(zero_copy_only=False)):
            bitmap = Positions(array("Q", file_positions.tobytes()))
            positions.setdefault(cached_plain_path(data_file), Positions()).update(bitmap)
    return positions


def _decode_batches(data: bytes, path: str, format: str) -> Iterator[pa.RecordBatch]:
    """Yield record batches with the columns `file_path` and `pos`. Raises UnsupportedTableFeature for an unsupported file format."""
    match format:
        case "PARQUET":
            parquet = pq.ParquetFile(pa.BufferReader(data), read_dictionary=["file_path"])
            yield from parquet.iter_batches(batch_size=_BATCH_ROWS, columns=_SCHEMA.names)
        case "ORC":
            yield from orc.ORCFile(pa.BufferReader(data)).read(columns=_SCHEMA.names).to_batches(max_chunksize=_BATCH_ROWS)
        case "AVRO":
            yield from _decode_avro(data, path).to_batches()
        case _:
            advice = "Rewrite the table's delete files as Parquet files with the engine that wrote them."
            raise UnsupportedTableFeature(path, f"{format.lower()} delete files", action="read", advice=advice)


def _decode_avro(data: bytes, path: str) -> pa.Table:
    records = read_avro(data, path, _NAMES).records
    return pa.Table.from_pylist([{"file_path": record["file_path"], "pos": record["pos"]} for record in records], schema=_SCHEMA)


def _group_by_path(path_column: pa.Array, positions: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Yield the path of each data file and its deleted positions, from the two columns of a batch. Raises ValueError for an invalid row.

    A loop over rows would be slow for millions of deletes, so NumPy compares and splits the whole arrays.
    """
    if not len(positions):
        return
    # NumPy arrays of integers cannot contain nulls. A column with nulls becomes an array of floats.
    if positions.dtype != np.int64 or positions.min() < 0 or path_column.null_count:
        raise ValueError("a row has no path, or its position is null or negative")
    paths = path_column if pa.types.is_dictionary(path_column.type) else path_column.dictionary_encode()
    path_codes = paths.indices.to_numpy(zero_copy_only=False)  # Equal paths have equal codes.
    if np.any(path_codes[1:] < path_codes[:-1]):  # The specification requires rows to be sorted by path, but not all writers do so.
        order = np.argsort(path_codes, kind="stable")
        path_codes, positions = path_codes[order], positions[order]
    # A group starts at the first row, and wherever the path changes.
    group_starts = np.flatnonzero(np.append(True, path_codes[1:] != path_codes[:-1]))
    position_groups = np.split(positions, group_starts[1:])
    for path_code, path_positions in zip(path_codes[group_starts].tolist(), position_groups, strict=True):
        yield paths.dictionary[path_code].as_py(), path_positions
