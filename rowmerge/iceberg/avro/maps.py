"""Maps from ints to numbers or bytes, as arrays: the metrics of the files in a manifest (Iceberg spec, Data File Fields).

A manifest of 20,000 files with 16 columns has two million counts and bounds. As Python dicts, they take five times as much memory, and
more time than all other values of the manifest.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from itertools import chain, groupby
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

Integers = NDArray[np.int64]
_MAX_BYTES = 2**31 - 1
"""The largest number of bytes in a binary array of Arrow."""


def _no_integers() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(eq=False)
class MapColumn:
    """The maps of one field in many records, as the arrays of all keys and all values.

    Attributes:
        offsets: The index of the first entry of each map, and the number of all entries.
        keys, values: The keys and values of all maps, map by map.
        data, starts, ends: The maps in Avro's binary encoding, and the offsets at which each map starts and ends. Empty for maps of dicts.
    """

    offsets: Integers = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: Integers = field(default_factory=_no_integers)
    values: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))
    data: bytes = b""
    starts: Integers = field(default_factory=_no_integers)
    ends: Integers = field(default_factory=_no_integers)

    @classmethod
    def of_dicts(cls, dicts: Sequence[Mapping[int, Any]], type_: pa.DataType) -> MapColumn:
        """Return the maps of dicts.

        Args:
            dicts: The dicts.
            type_: The type of their values.
        """
        lengths = np.fromiter(map(len, dicts), np.int64, len(dicts))
        keys = np.fromiter(chain.from_iterable(dicts), np.int64)
        values = pa.array(list(chain.from_iterable(map_.values() for map_ in dicts)), type_)
        return cls(_offsets(lengths), keys, values)

    @property
    def nbytes(self) -> int:
        """The size of the maps in memory, in bytes."""
        return int(self.offsets.nbytes + self.keys.nbytes + self.values.nbytes + (self.ends - self.starts).sum() + 2 * self.starts.nbytes)

    def dict_of(self, number: int) -> dict[int, Any]:
        """Return a map as a dict.

        Args:
            number: The number of the map.
        """
        start, end = self.offsets[number : number + 2].tolist()
        return dict(zip(self.keys[start:end].tolist(), self.values[start:end].to_pylist(), strict=True))

    def indexes_of(self, key: int) -> Integers:
        """Return the index of a key's entry for each map, or -1 for a map without the key.

        Args:
            key: The key.
        """
        entries = np.flatnonzero(self.keys == key)
        indexes = np.full(len(self.offsets) - 1, -1)
        indexes[np.searchsorted(self.offsets, entries, side="right") - 1] = entries
        return indexes


class MapColumnBuilder:
    """Builds the column of maps that the decoder reads, step by step, from data blocks. `column` is empty before `finish`."""

    def __init__(self, data: bytes, *, has_bytes: bool) -> None:
        """Create a builder without maps.

        Args:
            data: The decompressed data blocks that contain the maps.
            has_bytes: Whether the values are bytes. Otherwise they are integers.
        """
        self.column = MapColumn()
        self._data = data
        self.has_bytes = has_bytes
        self._spans: list[tuple[Integers, Integers]] = []
        self._entries: list[tuple[Integers, ...]] = []
        self._count = 0

    def add_maps(self, count: int) -> Integers:
        """Add maps without entries, and return their numbers.

        Args:
            count: The number of maps.
        """
        self._count += count
        return np.arange(self._count - count, self._count)

    def add_entries(self, map_numbers: Integers, entries: Sequence[tuple[Integers, ...]]) -> None:
        """Add the next entries of maps.

        Args:
            map_numbers: The numbers of the maps.
            entries: For each next entry, the keys and the values in these maps. Values of bytes are two arrays: the offsets in the data at
                which the bytes start, and at which they end.
        """
        columns = (np.stack(arrays, axis=1).ravel() for arrays in zip(*entries, strict=True))
        self._entries.append((map_numbers.repeat(len(entries)), *columns))

    def add_spans(self, starts: Integers, ends: Integers) -> None:
        """Add the offsets in the data at which the maps start and end that were added last.

        Args:
            starts: The offset of the first byte of each map.
            ends: The offset after the last byte of each map.
        """
        self._spans.append((starts, ends))

    def finish(self) -> None:
        """Fill the column with the added maps.

        Raises:
            ValueError: A field id has more than 32 bits, or the bytes of all maps are more than 2 GiB.
        """
        column = self.column
        column.data = self._data
        if self._spans:
            column.starts, column.ends = (np.concatenate(arrays) for arrays in zip(*self._spans, strict=True))
        map_numbers, keys, *values = self._sorted_entries()
        if len(keys) and not -(2**31) <= keys.min() <= keys.max() < 2**31:
            raise ValueError("a field id has more than 32 bits")
        column.offsets, column.keys = _offsets(np.bincount(map_numbers, minlength=self._count)), keys.astype(np.int32)
        column.values = _bytes_array(self._data, *values) if self.has_bytes else pa.array(values[0])
        self._spans, self._entries = [], []

    def _sorted_entries(self) -> list[Integers]:
        """Return the arrays of map numbers, keys and values, in the order of the maps."""
        if not self._entries:
            return [_no_integers()] * (4 if self.has_bytes else 3)
        arrays = [np.concatenate(arrays) for arrays in zip(*self._entries, strict=True)]
        map_numbers = arrays[0]
        if (map_numbers[1:] >= map_numbers[:-1]).all():
            return arrays
        order = np.argsort(map_numbers, kind="stable")  # Maps of several lengths, or with several chunks, are not in order.
        return [array[order] for array in arrays]


def _offsets(lengths: Integers) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), lengths.cumsum()])


def _bytes_array(data: bytes, starts: Integers, ends: Integers) -> pa.BinaryArray:
    """Return the bytes between offsets of the data as an array of Arrow."""
    lengths = ends - starts
    offsets = _offsets(lengths)
    if offsets[-1] > _MAX_BYTES:
        raise ValueError("a data block has more than 2 GiB of bytes in its maps")
    positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
    values = np.frombuffer(data, np.uint8)[positions]
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(values)])


class MapOfColumn(Mapping[int, Any]):
    """One map of a `MapColumn`. Each access creates a dict, so `Maps` reads the values of many maps."""

    __slots__ = ("column", "number")

    def __init__(self, column: MapColumn, number: int) -> None:
        """Create a reference to a map.

        Args:
            column: The maps of a field.
            number: The number of the map.
        """
        self.column = column
        self.number = number

    @property
    def avro_bytes(self) -> bytes:
        """The map in Avro's binary encoding, as its manifest contains it."""
        return self.column.data[self.column.starts[self.number] : self.column.ends[self.number]]

    def __getitem__(self, key: int) -> Any:
        return self.column.dict_of(self.number)[key]

    def __iter__(self) -> Iterator[int]:
        return iter(self.column.dict_of(self.number))

    def __len__(self) -> int:
        return int(self.column.offsets[self.number + 1] - self.column.offsets[self.number])

    def items(self) -> ItemsView[int, Any]:
        return self.column.dict_of(self.number).items()

    def values(self) -> ValuesView[Any]:
        return self.column.dict_of(self.number).values()

    def __repr__(self) -> str:
        return repr(self.column.dict_of(self.number))


@dataclass(frozen=True)
class Maps:
    """A sequence of maps, such as one metric of several files, whose values are read together.

    `runs` contains the maps in their order. Each run consists of a column and the numbers of its maps.
    """

    runs: Sequence[tuple[MapColumn, Integers]]
    type: pa.DataType

    @classmethod
    def of(cls, maps: Sequence[Mapping[int, Any]], type_: pa.DataType) -> Maps:
        """Return maps, which may be dicts.

        Args:
            maps: The maps.
            type_: The type of their values.
        """
        runs = []
        for column, run in groupby(maps, key=lambda map_: map_.column if isinstance(map_, MapOfColumn) else None):
            run_maps: Any = list(run)
            if column is None:
                runs.append((MapColumn.of_dicts(run_maps, type_), np.arange(len(run_maps))))
            else:
                runs.append((column, np.fromiter((map_.number for map_ in run_maps), np.int64, len(run_maps))))
        return cls(runs, type_)

    def values_of(self, key: int) -> pa.Array:
        """Return the value of a key in each map, or null for a map without the key.

        Args:
            key: The key.
        """
        indexes_by_column: dict[MapColumn, Integers] = {}
        arrays = [pa.array([], self.type)]
        for column, numbers in self.runs:
            if column not in indexes_by_column:
                indexes_by_column[column] = column.indexes_of(key)
            indexes = indexes_by_column[column][numbers]
            arrays.append(column.values.take(pa.array(indexes, mask=indexes < 0)))
        return pa.concat_arrays(arrays)

    def as_array(self) -> pa.MapArray:
        """Return the maps as an Arrow array with keys of type int32. An empty map is null, because manifests omit maps without entries."""
        type_ = pa.map_(pa.int32(), self.type)
        arrays = [pa.array([], type_)]
        for column, numbers in self.runs:
            starts, lengths = column.offsets[numbers], np.diff(column.offsets)[numbers]
            offsets = _offsets(lengths)
            entries = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
            keys, items = pa.array(column.keys[entries], pa.int32()), column.values.take(pa.array(entries))
            maps = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keys, items)
            arrays.append(pc.if_else(pa.array(lengths == 0), pa.scalar(None, type_), maps.cast(type_)))
        return pa.concat_arrays(arrays)
