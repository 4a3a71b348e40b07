"""The records of an Avro file's blocks, decoded side by side: the first of every block, then the second of every block, and so on.

fastavro decodes one value after another, and an entry of a manifest with the metrics of 16 columns has two hundred of them. Records have no
lengths, so where one begins is known only when the one before it was read; but blocks have (Avro spec, Object Container Files), and a large
manifest has hundreds. Here NumPy decodes one value of all blocks at once.

fastavro takes 80 µs for an entry of 16 columns, mostly for the dicts of Avro's maps. NumPy takes a third of it. With fewer than about 60
blocks fastavro is faster.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

_SYNC = 16
_TOGETHER = 1_000
"""Blocks that are decoded at once: what they hold is some twenty times as large as Python's objects."""
_ENOUGH = 64
"""Records that one step decodes on average; with less, a value after the other is sooner."""

_Rows = NDArray[np.int64]
Read = Callable[[_Rows], Sequence[Any]]
"""The next value in each of these blocks, which are given by their numbers."""

_BYTES = np.arange(10)
"""Those of the longest integer."""
_SHIFTS = (7 * _BYTES).astype(np.uint64)


class UnknownType(Exception):
    """Raised when a manifest has a codec or a type that the decoder of blocks does not support.

    Remedy: None is needed. The engine decodes the manifest with fastavro instead.
    """


@dataclass(frozen=True)
class Block:
    """`records`: how many; `start`, `end`: where their bytes are in the file."""

    records: int
    start: int
    end: int


def blocks_of(data: bytes, start: int, sync: bytes) -> list[Block]:
    """The blocks of a file whose header ends at `start`. Raises ValueError, IndexError where there are none."""
    found = []
    while start < len(data):
        records, start = _integer(data, start)
        size, start = _integer(data, start)
        end = start + size
        if records < 0 or size < 0 or data[end : end + _SYNC] != sync:
            raise ValueError("a block does not end where it should")
        found.append(Block(records, start, end))
        start = end + _SYNC
    return found


def many_at_once(blocks: Sequence[Block]) -> bool:
    """Whether it is worth to decode the records of these blocks side by side."""
    most = max((block.records for block in blocks), default=0)
    return sum(block.records for block in blocks) >= _ENOUGH * most > 0


def decoded(data: bytes, blocks: Sequence[Block], codec: str, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The records of a file's blocks in their order, as fastavro has them, but dicts for arrays of records of a key and a value.

    `schema`: without logical types. Raises UnknownType at once; later ValueError, LookupError or zlib.error where bytes are not what the
    schema says.
    """
    if codec not in ("null", "deflate"):
        raise UnknownType(codec)
    reader_of(schema, _Cursors([], []))  # whatever it cannot read it says now
    return _decoded(data, blocks, codec, schema)


def _decoded(data: bytes, blocks: Sequence[Block], codec: str, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for first in range(0, len(blocks), _TOGETHER):
        some = blocks[first : first + _TOGETHER]
        parts = [data[block.start : block.end] for block in some]
        cursors = _Cursors([zlib.decompress(part, -15) for part in parts] if codec == "deflate" else parts, [b.records for b in some])
        yield from cursors.records(schema)


def _integer(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where the next value begins (Avro spec, Binary Encoding: zig-zag, seven bits a byte)."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return (value >> 1) ^ -(value & 1), at
        shift += 7
        if shift > 63:
            raise ValueError("a number has no end")


def _signed(values: NDArray[Any]) -> _Rows:
    """Zig-zag numbers as what they stand for."""
    one = values.dtype.type(1)
    found: _Rows = (values >> one).astype(np.int64) ^ -(values & one).astype(np.int64)
    return found


class _Cursors:
    """Where the next value of each block begins."""

    def __init__(self, parts: Sequence[bytes], records: Sequence[int]) -> None:
        self._bytes = b"".join([*parts, bytes(len(_BYTES))])
        self._data = np.frombuffer(self._bytes, np.uint8)
        self._ends = np.cumsum([len(part) for part in parts], dtype=np.int64)
        self._at = self._ends - np.array([len(part) for part in parts], dtype=np.int64)
        self._records = np.array(records, dtype=np.int64)

    def records(self, schema: Mapping[str, Any]) -> Iterator[Any]:
        """All of them, block by block."""
        read = reader_of(schema, self)
        found: list[list[Any]] = [[] for _ in self._records]
        for step in range(int(self._records.max(initial=0))):
            rows = np.flatnonzero(self._records > step)
            for row, record in zip(rows.tolist(), read(rows), strict=True):
                found[row].append(record)
        if (self._at != self._ends).any():
            raise ValueError("a block has other bytes than its records")
        for each in found:
            yield from each

    def integers(self, rows: _Rows) -> _Rows:
        at = self._at[rows]
        first = self._data[at]
        if first.max(initial=0) < 128:
            self._at[rows] = at + 1
            return _signed(first)
        window = self._data[at[:, None] + _BYTES]
        last = np.argmax(window < 128, axis=1)
        length = int(last.max()) + 1
        window, used = window[:, :length], _BYTES[:length] <= last[:, None]
        if (window[np.arange(len(rows)), last] > 127).any():
            raise ValueError("a number has no end")
        values = np.bitwise_or.reduce(np.where(used, window & 127, 0).astype(np.uint64) << _SHIFTS[:length], axis=1)
        self._at[rows] = at + last + 1
        return _signed(values)

    def spans(self, rows: _Rows, sizes: _Rows) -> list[bytes]:
        """So many bytes of each."""
        start = self._at[rows]
        end = start + sizes
        if ((sizes < 0) | (end > self._ends[rows])).any():
            raise ValueError("a value is longer than its block")
        self._at[rows] = end
        return [self._bytes[low:high] for low, high in zip(start.tolist(), end.tolist(), strict=True)]

    def counts(self, rows: _Rows) -> _Rows:
        """How many items of an array follow; behind a negative number is their size in bytes."""
        counts = self.integers(rows)
        if (counts < 0).any():
            self.integers(rows[counts < 0])
            counts = np.abs(counts)
        if ((counts < 0) | (counts > self._ends[rows] - self._at[rows])).any():
            raise ValueError("an array is longer than its block")
        return counts


def reader_of(schema: Any, cursors: _Cursors) -> Read:
    """What reads values of a type. Raises UnknownType."""
    if isinstance(schema, list):
        return _union([reader_of(branch, cursors) for branch in schema], cursors)
    name = schema["type"] if isinstance(schema, dict) else schema
    match name:
        case "null":
            return lambda rows: [None] * len(rows)
        case "boolean":
            return lambda rows: [value != b"\0" for value in cursors.spans(rows, np.ones_like(rows))]
        case "int" | "long":
            return lambda rows: cursors.integers(rows).tolist()
        case "float" | "double":
            size, kind = (4, "<f4") if name == "float" else (8, "<f8")
            return lambda rows: np.frombuffer(b"".join(cursors.spans(rows, np.full_like(rows, size))), kind).tolist()
        case "bytes":
            return lambda rows: cursors.spans(rows, cursors.integers(rows))
        case "string":
            return lambda rows: [value.decode() for value in cursors.spans(rows, cursors.integers(rows))]
        case "fixed":
            return lambda rows: cursors.spans(rows, np.full_like(rows, schema["size"]))
        case "record":
            return _record([(field["name"], reader_of(field["type"], cursors)) for field in schema["fields"]])
        case "array":
            return _array(schema["items"], cursors)
        case dict() | list():
            return reader_of(name, cursors)
    raise UnknownType(str(name))


def _union(branches: Sequence[Read], cursors: _Cursors) -> Read:
    def read(rows: _Rows) -> Sequence[Any]:
        chosen = cursors.integers(rows)
        if ((chosen < 0) | (chosen >= len(branches))).any():
            raise ValueError("a union has no such branch")
        if len(rows) and (chosen == chosen[0]).all():
            return branches[int(chosen[0])](rows)
        values: list[Any] = [None] * len(rows)
        for number, branch in enumerate(branches):
            places = np.flatnonzero(chosen == number)
            for place, value in zip(places.tolist(), branch(rows[places]), strict=True):
                values[place] = value
        return values

    return read


def _record(fields: Sequence[tuple[str, Read]]) -> Read:
    names = [name for name, _ in fields]

    def read(rows: _Rows) -> Sequence[Any]:
        columns = [branch(rows) for _, branch in fields]
        return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)] if columns else [{} for _ in rows]

    return read


def _array(items: Any, cursors: _Cursors) -> Read:
    fields = items.get("fields", ()) if isinstance(items, dict) else ()
    if [field["name"] for field in fields] == ["key", "value"]:
        key, value = (reader_of(field["type"], cursors) for field in fields)
        return _repeated(cursors, dict, lambda found, rows, count: _add_pairs(found, *_columns((key, value), rows, count)))
    item = reader_of(items, cursors)
    return _repeated(cursors, list, lambda found, rows, count: _add_items(found, *_columns((item,), rows, count)))


def _repeated(cursors: _Cursors, empty: Callable[[], Any], add: Callable[[list[Any], _Rows, int], None]) -> Read:
    """Reads arrays: blocks of items, the last of which has none. Those with equally many are read together."""

    def read(rows: _Rows) -> Sequence[Any]:
        found = [empty() for _ in rows]
        left = np.arange(len(rows))
        while len(left):
            counts = cursors.counts(rows[left])
            for count in np.unique(counts).tolist():
                some = left[counts == count]
                if count:
                    add([found[place] for place in some.tolist()], rows[some], count)
            left = left[counts > 0]
        return found

    return read


def _columns(reads: Sequence[Read], rows: _Rows, count: int) -> list[list[Sequence[Any]]]:
    """Of so many items each: for each part of an item the values in all rows."""
    found: list[list[Sequence[Any]]] = [[] for _ in reads]
    for _ in range(count):
        for values, read in zip(found, reads, strict=True):
            values.append(read(rows))
    return found


def _add_pairs(found: list[dict[Any, Any]], keys: list[Sequence[Any]], values: list[Sequence[Any]]) -> None:
    for pairs, some, others in zip(found, zip(*keys, strict=True), zip(*values, strict=True), strict=True):
        pairs.update(zip(some, others, strict=True))


def _add_items(found: list[list[Any]], items: list[Sequence[Any]]) -> None:
    for values, some in zip(found, zip(*items, strict=True), strict=True):
        values += some
