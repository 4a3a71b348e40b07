"""Position-delete files: which rows of which data files are gone (Iceberg spec, Position Delete Files)."""

from __future__ import annotations

import io
from array import array
from collections.abc import Collection, Iterator, Mapping, Sequence
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
_BATCH = 1_000_000
_CACHED_BYTES = 128 * 1024 * 1024
_cache: Cache[Mapping[str, Positions]] = Cache(_CACHED_BYTES)


def write_position_deletes(storage: Storage, path: str, data_file: ContentFile, positions: Positions) -> ContentFile:
    """Write the deleted rows of one data file, all of them, to an absolute path as Parquet; and say what a manifest is to hold of it.

    The bounds of its paths are exact and equal, by which readers know that it goes for this file alone. Raises StorageError.
    """
    assert positions, "there are deleted rows"
    rows = np.fromiter(positions, dtype=np.int64, count=len(positions))
    paths = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(rows), dtype=np.int32)), pa.array([data_file.path], pa.string()))
    table = pa.Table.from_arrays([paths.cast(pa.string()), pa.array(rows)], schema=_SCHEMA)
    stream = io.BytesIO()
    pq.write_table(
        table, stream, compression="zstd", use_dictionary=["file_path"], version="2.6", store_schema=False, row_group_size=_BATCH
    )
    data = stream.getvalue()
    holder, below = located(storage, path)
    holder.put(below, data)
    named = data_file.path.encode()
    return ContentFile(
        content=Content.POSITION_DELETES,
        path=path,
        records=len(rows),
        size=len(data),
        spec_id=data_file.spec_id,
        partition=data_file.partition,
        lower={FILE_PATH: named, POS: to_bytes(LongType(), int(rows[0]))},
        upper={FILE_PATH: named, POS: to_bytes(LongType(), int(rows[-1]))},
        split_offsets=_row_groups(data),
        referenced_data_file=data_file.path,
    )


def _row_groups(parquet: bytes) -> tuple[int, ...]:
    """Where the row groups of a file begin."""
    footer = pq.read_metadata(pa.BufferReader(parquet))
    firsts = [footer.row_group(index).column(0) for index in range(footer.num_row_groups)]
    return tuple(first.dictionary_page_offset or first.data_page_offset for first in firsts)


def referenced_path(deletes: ContentFile) -> str | None:
    """The absolute plain path of the one data file that position deletes or a deletion vector go for; None: there may be more."""
    if deletes.referenced_data_file is not None:
        return plain_path(deletes.referenced_data_file)
    lower, upper = deletes.lower.get(FILE_PATH), deletes.upper.get(FILE_PATH)
    return plain_path(lower.decode()) if lower is not None and lower == upper else None


def read_position_deletes(storage: Storage, files: Sequence[ContentFile], wanted: Collection[str] | None = None) -> dict[str, Positions]:
    """The deleted rows that position-delete files name, of each data file by its absolute plain path; `wanted`: only of these.

    Several files are read at a time. Raises CorruptLog, UnsupportedTableFeature for a file format that is not known, StorageError.
    """
    found: dict[str, Positions] = {}
    for deleted in map_concurrently(lambda file: read_position_delete_file(storage, file), files):
        paths = deleted.keys() if wanted is None else deleted.keys() & set(wanted)
        for path in paths:
            found[path] = found.get(path, Positions()) | deleted[path]
    return found


def read_position_delete_file(storage: Storage, file: ContentFile) -> Mapping[str, Positions]:
    """The deleted rows that one file names. What is given is shared: it must not be changed. Raises what `read_position_deletes` does."""
    plain = plain_path(file.path)
    key = (plain, file.size)
    known = _cache.get(key)
    if known is None:
        known = _read(storage, plain, file.format)
        _cache.put(key, known, sum(len(path) + 100 + _bytes(rows) for path, rows in known.items()))
    return known


def _bytes(positions: Positions) -> int:
    return len(positions.serialize())


def _read(storage: Storage, plain: str, format: str) -> dict[str, Positions]:
    holder, below = located(storage, plain)
    found: dict[str, Positions] = {}
    spelled: dict[str, str] = {}
    try:
        for paths, positions in _batches(holder.get(below), plain, format):
            for path, rows in _by_path(paths, positions):
                if path not in spelled:
                    spelled[path] = plain_path(path)
                found.setdefault(spelled[path], Positions()).update(Positions(array("Q", rows.tobytes())))
    except FileNotFoundError as error:
        raise CorruptLog(plain, "the delete file is missing") from error
    except (pa.ArrowException, OSError, LookupError, ValueError) as error:
        reason = str(error).split("\n", 1)[0]
        raise CorruptLog(plain, f"it is no file of position deletes ({type(error).__name__}: {reason})") from error
    return found


def _batches(data: bytes, plain: str, format: str) -> Iterator[tuple[pa.DictionaryArray, np.ndarray[Any, Any]]]:
    """Paths and positions, batch by batch."""
    match format:
        case "PARQUET":
            file = pq.ParquetFile(pa.BufferReader(data), read_dictionary=["file_path"])
            batches = file.iter_batches(batch_size=_BATCH, columns=["file_path", "pos"])
        case "ORC":
            batches = orc.ORCFile(pa.BufferReader(data)).read(columns=["file_path", "pos"]).to_batches(max_chunksize=_BATCH)
        case "AVRO":
            records = read_avro(data, plain, _NAMES).records
            batches = pa.Table.from_pylist(
                [{name: record[name] for name in _NAMES.values()} for record in records], schema=_SCHEMA
            ).to_batches()
        case _:
            advice = "Rewrite the table's delete files with the engine that wrote them, in Parquet."
            raise UnsupportedTableFeature(plain, f"{format.lower()} delete files", action="read", advice=advice)
    for batch in batches:
        paths = batch.column("file_path")
        yield paths if pa.types.is_dictionary(paths.type) else paths.dictionary_encode(), batch.column("pos").to_numpy(zero_copy_only=False)


def _by_path(paths: pa.DictionaryArray, positions: np.ndarray[Any, Any]) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """The positions of each path. Paths are sorted as a rule, and then nothing is moved."""
    if not len(positions):
        return
    if positions.dtype != np.int64 or positions.min() < 0 or paths.null_count:
        raise ValueError("a row has no path, or no position from 0 on")
    codes = paths.indices.to_numpy(zero_copy_only=False)
    if np.any(codes[1:] < codes[:-1]):
        order = np.argsort(codes, kind="stable")
        codes, positions = codes[order], positions[order]
    starts = np.concatenate(([0], np.flatnonzero(codes[1:] != codes[:-1]) + 1))
    for rows, code in zip(np.split(positions, starts[1:]), codes[starts].tolist(), strict=True):
        yield paths.dictionary[code].as_py(), rows
