"""The pages of Parquet files, from their headers. No Python package reads them: PyArrow and DuckDB show only column chunks.

A header is a Thrift struct in the compact protocol: `PageHeader` in parquet.thrift.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

_TYPE, _SIZE, _COMPRESSED_SIZE, _DATA_HEADER, _DICTIONARY_HEADER, _DATA_HEADER_V2 = 1, 2, 3, 5, 7, 8
_DATA, _DICTIONARY, _DATA_V2 = 0, 2, 3


@dataclass(frozen=True)
class Page:
    """A page of a column chunk. `version`: 1 or 2, and 0 for a dictionary. `size`: the uncompressed size in bytes."""

    version: int
    values: int
    size: int


def pages_of(path: Path | str, column: str) -> list[Page]:
    """Return the pages of a column in file order. `column`: its path in the file's schema, such as `a.b`."""
    data, footer = Path(path).read_bytes(), pq.read_metadata(path)
    pages = []
    for group in range(footer.num_row_groups):
        chunks = [footer.row_group(group).column(index) for index in range(footer.num_columns)]
        chunk = next(chunk for chunk in chunks if chunk.path_in_schema == column)
        start = chunk.dictionary_page_offset or chunk.data_page_offset
        end = start + chunk.total_compressed_size
        while start < end:
            header, start = _read_struct(data, start)
            number = {_DATA: _DATA_HEADER, _DICTIONARY: _DICTIONARY_HEADER, _DATA_V2: _DATA_HEADER_V2}[header[_TYPE]]
            version = {_DATA: 1, _DICTIONARY: 0, _DATA_V2: 2}[header[_TYPE]]
            pages.append(Page(version, header[number][1], header[_SIZE]))
            start += header[_COMPRESSED_SIZE]
    return pages


def _read_struct(data: bytes, at: int) -> tuple[dict[int, Any], int]:
    """Return the fields of a struct by number, and the offset after it."""
    fields: dict[int, Any] = {}
    number = 0
    while data[at] != 0:
        kind, step = data[at] & 15, data[at] >> 4
        at += 1
        if step:
            number += step
        else:
            number, at = _read_integer(data, at)
        fields[number], at = _read_value(data, at, kind)
    return fields, at + 1


def _read_value(data: bytes, at: int, kind: int) -> tuple[Any, int]:
    match kind:
        case 1 | 2:  # true and false, whose value is the type
            return kind == 1, at
        case 4 | 5 | 6:
            return _read_integer(data, at)
        case 8:
            length, at = _read_varint(data, at)
            return data[at : at + length], at + length
        case 12:
            return _read_struct(data, at)
    raise AssertionError(f"a page header has a field of Thrift's type {kind}")


def _read_integer(data: bytes, at: int) -> tuple[int, int]:
    value, at = _read_varint(data, at)
    return (value >> 1) ^ -(value & 1), at


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value, shift, at = value | (byte & 127) << shift, shift + 7, at + 1
        if byte < 128:
            return value, at
