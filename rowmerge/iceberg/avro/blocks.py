"""Decode the blocks of an Avro file together: the first record of every block, then the second record of every block, and so on.

fastavro decodes one value after another, and a manifest entry with the metrics of 16 columns has two hundred of them. Avro does not store
the length of a record, so a record begins where the one before it ends. But Avro stores the size of a block (Avro spec, Object Container
Files), and a large manifest has hundreds of blocks. So NumPy decodes one value of all blocks at once.

fastavro spends most of its time on the dicts of Avro's maps. fastavro is faster for files with fewer than about 60 blocks.
"""

from __future__ import annotations

import gc
import os
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from rowmerge.iceberg.avro.cursors import MAX_INTEGER_BYTES, BlockCursors
from rowmerge.iceberg.avro.encoding import is_key_value_record
from rowmerge.iceberg.avro.maps import Integers, MapColumnBuilder, MapView

_SYNC_MARKER_BYTES = 16
_BLOCKS_PER_BATCH = 1_000
"""The maximum number of blocks that are decoded together."""
_BYTES_PER_BATCH = 1 << 26
"""The maximum size in bytes of the decompressed blocks that are decoded together. A larger block is decoded alone."""
_MIN_RECORDS_PER_STEP = 64
"""The smallest average number of records per step for which NumPy is faster than fastavro."""

ReadValues = Callable[[Integers], Sequence[Any]]
"""A function that takes an array of block numbers, and returns the next value of each of these data blocks of the file."""
_disabled = threading.Event()
"""Whether `without_garbage_collection` has disabled the garbage collector."""
_INTEGER_TYPES = ("int", "long")
"""The types that Avro encodes as integers of variable length."""


class UnknownType(Exception):
    """Raised when a manifest has a codec or a type that the block decoder does not support.

    Remedy: No action is needed. The engine decodes the manifest with fastavro instead.
    """


@dataclass(frozen=True)
class Block:
    """A data block of an Avro file: the number of its records, and the offsets at which its data starts and ends in the file."""

    records: int
    start: int
    end: int


def parse_blocks(data: bytes, offset: int, sync_marker: bytes) -> list[Block]:
    """Return the data blocks of an Avro file (Avro spec, Object Container Files).

    Args:
        data: The bytes of the file.
        offset: The end of the header.
        sync_marker: The 16 bytes that end each block.

    Raises:
        IndexError: The file ends within a number.
        ValueError: A block does not end with the sync marker, or a number is invalid.
    """
    blocks = []
    while offset < len(data):
        record_count, offset = _parse_integer(data, offset)
        size, start = _parse_integer(data, offset)
        end = start + size
        if record_count < 0 or size < 0 or data[end : end + _SYNC_MARKER_BYTES] != sync_marker:
            raise ValueError("a block does not end with the sync marker")
        blocks.append(Block(record_count, start, end))
        offset = end + _SYNC_MARKER_BYTES
    return blocks


def has_enough_blocks(blocks: Sequence[Block]) -> bool:
    """Return whether `decode_blocks` is faster than fastavro. `decode_blocks` takes as many steps as the largest block has records."""
    steps = max((block.records for block in blocks), default=0)
    return sum(block.records for block in blocks) >= _MIN_RECORDS_PER_STEP * steps > 0


def decode_blocks(data: bytes, blocks: Sequence[Block], codec: str, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Return an iterator over the records of blocks, in the order of the file.

    A manifest entry stores a map as an array of records with the fields `key` and `value`. Unlike fastavro, this function decodes such an
    array as a map if its keys are integers, and its values are integers or bytes.

    The iterator raises ValueError, LookupError or zlib.error for bytes that do not match the schema.

    Args:
        data: The bytes of the file.
        blocks: The blocks to decode.
        codec: The compression of the blocks, `null` or `deflate`.
        schema: The schema of the records, without logical types.

    Raises:
        UnknownType: The codec or a type is not supported. No record has been decoded.
    """
    if codec not in ("null", "deflate"):
        raise UnknownType(codec)
    _check_types(schema)  # The iterator checks them only when it is first used.
    return _iterate_records(data, blocks, codec, schema)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable Python's garbage collector in this process, as long as records are created, which have no reference cycles.

    The collector takes 40 % of the decoding time, because it visits all records repeatedly. A thread that leaves this context enables the
    collector also for other threads, which then only decode more slowly.
    """
    if not gc.isenabled():
        yield
        return
    gc.disable()
    _disabled.set()
    try:
        yield
    finally:
        _disabled.clear()
        gc.enable()


def _enable_in_child() -> None:
    """Turn on the garbage collector in a process that another thread has forked while it was disabled."""
    if _disabled.is_set():
        gc.enable()


os.register_at_fork(after_in_child=_enable_in_child)


def _check_types(schema: Mapping[str, Any]) -> None:
    """Raise UnknownType if the decoder does not support a type of the schema. The reader that checks the types is not used."""
    build_reader(schema, BlockCursors(contents=[]))


def _iterate_records(data: bytes, blocks: Sequence[Block], codec: str, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for contents, record_counts in _batches(data, blocks, codec):
        cursors = BlockCursors(contents)
        with without_garbage_collection():
            records_by_block = _read_records_by_block(build_reader(schema, cursors), np.array(record_counts, dtype=np.int64))
        if not cursors.has_ended:
            raise ValueError("the records of a block do not have the size of the block")
        cursors.finish_maps()
        yield from chain.from_iterable(records_by_block)


def _batches(data: bytes, blocks: Sequence[Block], codec: str) -> Iterator[tuple[list[bytes], list[int]]]:
    """Yield the decompressed contents and the numbers of records of blocks that are decoded together."""
    contents: list[bytes] = []
    record_counts: list[int] = []
    size = 0
    for block in blocks:
        content = data[block.start : block.end]
        if codec == "deflate":
            content = zlib.decompress(content, -15)
        if contents and (len(contents) == _BLOCKS_PER_BATCH or size + len(content) > _BYTES_PER_BATCH):
            yield contents, record_counts
            contents, record_counts, size = [], [], 0
        contents.append(content)
        record_counts.append(block.records)
        size += len(content)
    yield contents, record_counts


def _parse_integer(data: bytes, offset: int) -> tuple[int, int]:
    """Return the integer at an offset, and the offset of the next value (Avro spec, Binary Encoding: zig-zag, seven bits per byte)."""
    encoded = 0
    for index in range(MAX_INTEGER_BYTES):
        byte = data[offset + index]
        encoded |= (byte & 127) << (7 * index)
        if byte < 128:  # the last byte of the integer
            return (encoded >> 1) ^ -(encoded & 1), offset + index + 1
    raise ValueError("an integer has more than 10 bytes")


def _read_records_by_block(read_record: ReadValues, counts: Integers) -> list[list[Any]]:
    """Return the records of each block. Each step reads the next record of every block that has one."""
    records_by_block: list[list[Any]] = [[] for _ in counts]
    for step in range(int(counts.max(initial=0))):
        block_numbers = np.flatnonzero(counts > step)
        for block, record in zip(block_numbers.tolist(), read_record(block_numbers), strict=True):
            records_by_block[block].append(record)
    return records_by_block


def build_reader(schema: Any, cursors: BlockCursors) -> ReadValues:
    """Return the function that reads values of an Avro schema, the next value of each of several data blocks at once.

    For example, `build_reader("string", cursors)` returns a function `read`. If `block_numbers` is the array [0, 3], `read(block_numbers)`
    returns the next string of block 0 and the next string of block 3. The function returns records as dicts. It
    returns an array of key-value records as a map if the keys are integers, and the values are integers or bytes.

    Args:
        schema: The Avro schema of the values, as parsed from JSON: a type name, a dict, or a list for a union.
        cursors: The blocks from which the function reads.

    Raises:
        UnknownType: The schema has a type that the decoder does not support.
    """
    if isinstance(schema, list):
        return partial(_read_union, [build_reader(branch, cursors) for branch in schema], cursors)
    type_ = schema["type"] if isinstance(schema, dict) else schema
    match type_:
        case dict() | list():
            return build_reader(type_, cursors)
        case "record":
            field_names = [field["name"] for field in schema["fields"]]
            return partial(_read_records, field_names, [build_reader(field["type"], cursors) for field in schema["fields"]])
        case "array":
            return _array_reader(schema["items"], cursors)
        case "fixed":
            return lambda block_numbers: cursors.read_spans(block_numbers, schema["size"])
    return _primitive_reader(type_, cursors)


def _array_reader(item_schema: Any, cursors: BlockCursors) -> ReadValues:
    """Return the function that reads arrays with this item schema as lists, or as maps if the items are key-value records of integers."""
    value_type = _value_type_of_map(item_schema)
    if value_type is None:
        return partial(_read_lists, cursors, build_reader(item_schema, cursors))
    return partial(_read_maps, cursors, cursors.new_maps(has_bytes=value_type == "bytes"))


def _value_type_of_map(item_schema: Any) -> str | None:
    """Return the type of the values if an array with these items is a map from integers to integers or bytes, otherwise None."""
    if not is_key_value_record(item_schema):
        return None
    key_type, value_type = (field["type"] for field in item_schema["fields"])
    is_map = key_type in _INTEGER_TYPES and value_type in (*_INTEGER_TYPES, "bytes")
    return value_type if is_map else None


def _primitive_reader(type_: Any, cursors: BlockCursors) -> ReadValues:
    """Return the function that reads values of a primitive type from several blocks at once (Avro spec, Binary Encoding).

    Its argument is an array of block numbers. For example, the reader of `long` returns two integers for the array [0, 3]. These are the
    next value of block 0 and the next value of block 3. One NumPy call for many blocks is faster than a Python call for each value.

    `cursors` contains the blocks and the offset of the next value in each. Raises UnknownType if the decoder does not support the type.
    """
    readers: Mapping[Any, ReadValues] = {
        "null": lambda block_numbers: [None] * len(block_numbers),  # a null has no bytes
        "boolean": lambda block_numbers: [value != b"\0" for value in cursors.read_spans(block_numbers, 1)],
        "int": lambda block_numbers: cursors.read_integers(block_numbers).tolist(),
        "long": lambda block_numbers: cursors.read_integers(block_numbers).tolist(),
        "float": partial(cursors.read_floats, "<f4"),
        "double": partial(cursors.read_floats, "<f8"),
        "bytes": cursors.read_bytes,
        "string": lambda block_numbers: [value.decode() for value in cursors.read_bytes(block_numbers)],
    }
    if type_ not in readers:
        raise UnknownType(str(type_))
    return readers[type_]


def _read_union(branches: Sequence[ReadValues], cursors: BlockCursors, block_numbers: Integers) -> Sequence[Any]:
    """Read one value of a union from each block: first the branch number, then the value."""
    branch_numbers = cursors.read_integers(block_numbers)
    if ((branch_numbers < 0) | (branch_numbers >= len(branches))).any():
        raise ValueError("a union has an invalid branch number")
    if len(block_numbers) and (branch_numbers == branch_numbers[0]).all():
        return branches[int(branch_numbers[0])](block_numbers)
    return _read_branches(branches, branch_numbers, block_numbers)


def _read_branches(branches: Sequence[ReadValues], branch_numbers: Integers, block_numbers: Integers) -> list[Any]:
    """Read a value of the given branch from each block. Values of the same branch are read together."""
    values: list[Any] = [None] * len(block_numbers)
    for branch_number, read_branch in enumerate(branches):
        indexes = np.flatnonzero(branch_numbers == branch_number)
        for index, value in zip(indexes.tolist(), read_branch(block_numbers[indexes]), strict=True):
            values[index] = value
    return values


def _read_records(names: Sequence[str], field_readers: Sequence[ReadValues], block_numbers: Integers) -> Sequence[dict[str, Any]]:
    """Read one record from each block, field by field. `names` are the names of the fields."""
    if not field_readers:
        return [{} for _ in block_numbers]
    columns = [read_field(block_numbers) for read_field in field_readers]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _read_chunks(cursors: BlockCursors, block_numbers: Integers) -> Iterator[tuple[Integers, int]]:
    """Read one array from each of several data blocks, chunk by chunk. Yield the arrays that have a chunk of the same number of items.

    Each result consists of the indexes of these arrays in `block_numbers`, and the number of items. The caller reads the items before it
    continues. Avro stores an array as chunks of items. Each chunk begins with the number of its
    items, and an empty chunk ends the array (Avro spec, Arrays). One step reads the next chunk of every array that has not ended.

    For example, block 4 contains the array [a, b] as `2 a b 0`, and block 7 contains [c] as `1 c 0`. The first step reads the counts 2 and
    1. It yields the indexes [0] with the count 2, and then the indexes [1] with the count 1. The second step reads the counts 0 and 0, so
    both arrays have ended.

    Args:
        cursors: The blocks, each positioned at the start of its array.
        block_numbers: The numbers of the blocks.
    """
    open_indexes = np.arange(len(block_numbers))  # the indexes of the arrays that have not ended
    while len(open_indexes):
        item_counts = cursors.read_item_counts(block_numbers[open_indexes])
        has_items = item_counts > 0
        open_indexes, item_counts = open_indexes[has_items], item_counts[has_items]
        # Chunks of the same length are read together, because one NumPy call then reads an item of each array.
        for count in np.unique(item_counts).tolist():
            yield open_indexes[item_counts == count], count


def _read_lists(cursors: BlockCursors, read_item: ReadValues, block_numbers: Integers) -> list[list[Any]]:
    """Read one array from each block as a list."""
    lists: list[list[Any]] = [[] for _ in block_numbers]
    for indexes, count in _read_chunks(cursors, block_numbers):
        columns = [read_item(block_numbers[indexes]) for _ in range(count)]  # each column has the next item of every list
        for index, items in zip(indexes.tolist(), zip(*columns, strict=True), strict=True):
            lists[index] += items
    return lists


def _read_maps(cursors: BlockCursors, maps: MapColumnBuilder, block_numbers: Integers) -> list[MapView]:
    """Read the next map of each of several data blocks, and return a view of each map."""
    starts, map_numbers = cursors.offsets(block_numbers), maps.add_maps(len(block_numbers))
    for indexes, count in _read_chunks(cursors, block_numbers):
        entries = [cursors.read_entries(block_numbers[indexes], has_bytes=maps.has_bytes) for _ in range(count)]
        maps.add_entries(map_numbers[indexes], entries)
    maps.add_spans(starts, cursors.offsets(block_numbers))
    return [MapView(maps.column, number) for number in map_numbers.tolist()]
