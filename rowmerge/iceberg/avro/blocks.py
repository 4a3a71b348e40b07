"""Decode the blocks of an Avro file together: the first record of every block, then the second record of every block, and so on.

fastavro decodes one value after another, and a manifest entry with the metrics of 16 columns has two hundred of them. Avro does not store
the length of a record, so a record begins where the one before it ends. But Avro stores the size of a block (Avro spec, Object Container
Files), and a large manifest has hundreds of blocks. So NumPy decodes one value of all blocks at once.

fastavro spends most of its time on the dicts of Avro's maps. fastavro is faster for files with fewer than about 60 blocks.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rowmerge.iceberg.avro.encoding import is_key_value_record

_SYNC_MARKER_BYTES = 16
_BLOCKS_PER_BATCH = 1_000
"""The number of blocks that are decoded at once. Their Python objects take about twenty times as much memory as their bytes."""
_MIN_RECORDS_PER_STEP = 64
"""The smallest average number of records per step for which NumPy is faster than fastavro."""

_Integers = NDArray[np.int64]
ReadValues = Callable[[_Integers], Sequence[Any]]
"""A function that takes an array of block numbers, and returns the next value of each of these data blocks of the file."""
AddItems = Callable[[list[Any], _Integers, int], None]
"""A function that reads items into arrays. Its arguments are the arrays, their block numbers, and the number of items per array."""

_BYTE_INDEXES = np.arange(10)
"""The indexes of the bytes of the longest integer."""
_BIT_SHIFTS = (7 * _BYTE_INDEXES).astype(np.uint64)


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
    array as a dict.

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


def _check_types(schema: Mapping[str, Any]) -> None:
    """Raise UnknownType if the decoder does not support a type of the schema. The reader that checks the types is not used."""
    build_reader(schema, _Cursors(contents=[]))


def _iterate_records(data: bytes, blocks: Sequence[Block], codec: str, schema: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for start in range(0, len(blocks), _BLOCKS_PER_BATCH):
        batch = blocks[start : start + _BLOCKS_PER_BATCH]
        contents = [data[block.start : block.end] for block in batch]
        if codec == "deflate":
            contents = [zlib.decompress(content, -15) for content in contents]
        yield from _Cursors(contents).read_records(schema, np.array([block.records for block in batch], dtype=np.int64))


def _parse_integer(data: bytes, offset: int) -> tuple[int, int]:
    """Return the integer at an offset, and the offset of the next value (Avro spec, Binary Encoding: zig-zag, seven bits per byte)."""
    encoded = 0
    for index in range(len(_BYTE_INDEXES)):
        byte = data[offset + index]
        encoded |= (byte & 127) << (7 * index)
        if byte < 128:  # the last byte of the integer
            return (encoded >> 1) ^ -(encoded & 1), offset + index + 1
    raise ValueError("an integer has more than 10 bytes")


def _decode_zigzag(encoded: NDArray[Any]) -> _Integers:
    one = encoded.dtype.type(1)
    integers: _Integers = (encoded >> one).astype(np.int64) ^ -(encoded & one).astype(np.int64)
    return integers


def _parse_varints(windows: NDArray[np.uint8]) -> tuple[NDArray[np.uint64], _Integers]:
    """Return the unsigned integer at the start of each row, and its length in bytes. All of its bytes except the last are above 127."""
    last_bytes = np.argmax(windows < 128, axis=1)
    if (windows[np.arange(len(windows)), last_bytes] > 127).any():
        raise ValueError("an integer has more than 10 bytes")
    width = int(last_bytes.max()) + 1
    is_used = _BYTE_INDEXES[:width] <= last_bytes[:, None]
    septets = np.where(is_used, windows[:, :width] & 127, 0).astype(np.uint64)
    return np.bitwise_or.reduce(septets << _BIT_SHIFTS[:width], axis=1), last_bytes + 1


class _Cursors:
    """The decompressed contents of blocks, and a cursor for each block: the offset of its next value.

    Each method reads one value from each block in an array of block numbers, and moves the cursors of these blocks to their next value.
    """

    def __init__(self, contents: Sequence[bytes]) -> None:
        self._bytes = b"".join([*contents, bytes(len(_BYTE_INDEXES))])  # padded: a window of integers reaches beyond the last block
        self._data = np.frombuffer(self._bytes, np.uint8)
        sizes = np.array([len(content) for content in contents], dtype=np.int64)
        self._ends = np.cumsum(sizes, dtype=np.int64)
        self._offsets = self._ends - sizes

    def read_records(self, schema: Mapping[str, Any], counts: _Integers) -> Iterator[Any]:
        """Yield all records, block by block; `counts` is the number of records of each block."""
        records_by_block = _read_records_by_block(build_reader(schema, self), counts)
        if (self._offsets != self._ends).any():
            raise ValueError("the records of a block do not have the size of the block")
        yield from chain.from_iterable(records_by_block)

    def read_integers(self, block_numbers: _Integers) -> _Integers:
        starts = self._offsets[block_numbers]
        first_bytes = self._data[starts]
        if first_bytes.max(initial=0) < 128:  # one byte each: the most frequent case, without windows
            self._offsets[block_numbers] = starts + 1
            return _decode_zigzag(first_bytes)
        encoded, lengths = _parse_varints(self._data[starts[:, None] + _BYTE_INDEXES])
        self._offsets[block_numbers] = starts + lengths
        return _decode_zigzag(encoded)

    def read_spans(self, block_numbers: _Integers, sizes: _Integers | int) -> list[bytes]:
        """Return the next `sizes` bytes of each block."""
        starts = self._offsets[block_numbers]
        ends = starts + sizes
        if ((ends < starts) | (ends > self._ends[block_numbers])).any():
            raise ValueError("a value extends beyond its block")
        self._offsets[block_numbers] = ends
        return [self._bytes[start:end] for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def read_item_counts(self, block_numbers: _Integers) -> _Integers:
        """Return the number of items in the next chunk of each array. After a negative count, Avro stores the chunk's size in bytes."""
        counts = self.read_integers(block_numbers)
        if (counts < 0).any():
            self.read_integers(block_numbers[counts < 0])
            counts = np.abs(counts)
        if ((counts < 0) | (counts > self._ends[block_numbers] - self._offsets[block_numbers])).any():
            raise ValueError("an array extends beyond its block")
        return counts

    def read_bytes(self, block_numbers: _Integers) -> list[bytes]:
        return self.read_spans(block_numbers, self.read_integers(block_numbers))

    def read_floats(self, dtype: str, block_numbers: _Integers) -> list[float]:
        values: list[float] = np.frombuffer(b"".join(self.read_spans(block_numbers, np.dtype(dtype).itemsize)), dtype).tolist()
        return values


def _read_records_by_block(read_record: ReadValues, counts: _Integers) -> list[list[Any]]:
    """Return the records of each block. Each step reads the next record of every block that has one."""
    records_by_block: list[list[Any]] = [[] for _ in counts]
    for step in range(int(counts.max(initial=0))):
        block_numbers = np.flatnonzero(counts > step)
        for block, record in zip(block_numbers.tolist(), read_record(block_numbers), strict=True):
            records_by_block[block].append(record)
    return records_by_block


def build_reader(schema: Any, cursors: _Cursors) -> ReadValues:
    """Return the function that reads values of an Avro schema, the next value of each of several data blocks at once.

    For example, `build_reader("string", cursors)` returns a function `read`. If `block_numbers` is the array [0, 3], `read(block_numbers)`
    returns the next string of block 0 and the next string of block 3. The function returns records as dicts. It also returns an array as a
    dict if the items are records with the fields `key` and `value`.

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


def _array_reader(item_schema: Any, cursors: _Cursors) -> ReadValues:
    """Return the function that reads arrays with this item schema as lists, or as dicts if the items are key-value records."""
    if not is_key_value_record(item_schema):
        return partial(_read_arrays, cursors, list, partial(_add_items, build_reader(item_schema, cursors)))
    read_key, read_value = (build_reader(field["type"], cursors) for field in item_schema["fields"])
    return partial(_read_arrays, cursors, dict, partial(_add_pairs, read_key, read_value))


def _primitive_reader(type_: Any, cursors: _Cursors) -> ReadValues:
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


def _read_union(branches: Sequence[ReadValues], cursors: _Cursors, block_numbers: _Integers) -> Sequence[Any]:
    """Read one value of a union from each block: first the branch number, then the value."""
    branch_numbers = cursors.read_integers(block_numbers)
    if ((branch_numbers < 0) | (branch_numbers >= len(branches))).any():
        raise ValueError("a union has an invalid branch number")
    if len(block_numbers) and (branch_numbers == branch_numbers[0]).all():
        return branches[int(branch_numbers[0])](block_numbers)
    return _read_branches(branches, branch_numbers, block_numbers)


def _read_branches(branches: Sequence[ReadValues], branch_numbers: _Integers, block_numbers: _Integers) -> list[Any]:
    """Read a value of the given branch from each block. Values of the same branch are read together."""
    values: list[Any] = [None] * len(block_numbers)
    for branch_number, read_branch in enumerate(branches):
        indexes = np.flatnonzero(branch_numbers == branch_number)
        for index, value in zip(indexes.tolist(), read_branch(block_numbers[indexes]), strict=True):
            values[index] = value
    return values


def _read_records(names: Sequence[str], field_readers: Sequence[ReadValues], block_numbers: _Integers) -> Sequence[dict[str, Any]]:
    """Read one record from each block, field by field. `names` are the names of the fields."""
    if not field_readers:
        return [{} for _ in block_numbers]
    columns = [read_field(block_numbers) for read_field in field_readers]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def _read_arrays(cursors: _Cursors, new_array: Callable[[], Any], add_items: AddItems, block_numbers: _Integers) -> list[Any]:
    """Read one array from each of several data blocks, and return the arrays in the order of `block_numbers`.

    Avro stores an array as chunks of items. Each chunk begins with the number of its items, and an empty chunk ends the array (Avro spec,
    Arrays). One step reads the next chunk of every array that has not ended.

    For example, block 4 contains the array [a, b] as `2 a b 0`, and block 7 contains [c] as `1 c 0`. The first step reads the counts 2 and
    1, then the items. The second step reads the counts 0 and 0, so both arrays have ended.

    Args:
        cursors: The blocks, each positioned at the start of its array.
        new_array: The function that returns an empty array: a list, or a dict for a map.
        add_items: The function that reads a number of items from some blocks into their arrays.
        block_numbers: The numbers of the blocks.
    """
    arrays = [new_array() for _ in block_numbers]  # The array at an index comes from the block number at the same index.
    open_indexes = np.arange(len(block_numbers))  # the indexes of the arrays that have not ended
    while len(open_indexes):
        item_counts = cursors.read_item_counts(block_numbers[open_indexes])
        has_items = item_counts > 0
        open_indexes, item_counts = open_indexes[has_items], item_counts[has_items]
        # Chunks of the same length are read together, because one NumPy call then reads an item of each array.
        for count in np.unique(item_counts).tolist():
            indexes = open_indexes[item_counts == count]
            add_items([arrays[index] for index in indexes.tolist()], block_numbers[indexes], count)
    return arrays


def _add_pairs(read_key: ReadValues, read_value: ReadValues, maps: list[dict[Any, Any]], block_numbers: _Integers, count: int) -> None:
    """Read `count` pairs from each block into its map."""
    columns = [(read_key(block_numbers), read_value(block_numbers)) for _ in range(count)]  # the next key and the next value of every map
    key_columns, value_columns = zip(*columns, strict=True)
    for map_, keys, values in zip(maps, zip(*key_columns, strict=True), zip(*value_columns, strict=True), strict=True):
        map_.update(zip(keys, values, strict=True))


def _add_items(read_item: ReadValues, lists: list[list[Any]], block_numbers: _Integers, count: int) -> None:
    """Read `count` items from each block into its list."""
    columns = [read_item(block_numbers) for _ in range(count)]  # each column has the next item of every list
    for list_, items in zip(lists, zip(*columns, strict=True), strict=True):
        list_ += items
