"""Maps from ints to numbers or bytes, as arrays: the metrics of the files in a manifest (Iceberg spec, Data File Fields).

A manifest of 20,000 files with 16 columns has two million counts and bounds. Python dicts of them take five times as much memory as arrays.
Decoding them as dicts took longer than decoding all other values of the manifest.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Integers = NDArray[np.int64]
Keys = NDArray[np.int32]
_MAX_BYTES = 2**31 - 1
"""The maximum size of data blocks in bytes, so that offsets in them have 32 bits, as in a binary array of Arrow."""


def _no_integers() -> Integers:
    return np.zeros(0, np.int64)


@dataclass(eq=False)
class MapColumn:
    """The maps of one field in many records, as the arrays of all keys and all values.

    Attributes:
        offsets: The index of the first entry of each map, and the number of all entries.
        keys, values: The keys and values of all maps, map by map. Values are numbers (int64) or bytes (binary).
        data, starts, ends: The maps in Avro's binary encoding, and the offsets at which each map starts and ends. `starts` and `ends` are
            empty if the maps do not come from Avro, or have an entry twice there.
    """

    offsets: Integers = field(default_factory=lambda: np.zeros(1, np.int64))
    keys: Keys = field(default_factory=lambda: np.zeros(0, np.int32))
    values: pa.Array = field(default_factory=lambda: pa.array([], pa.int64()))
    data: bytes = b""
    starts: Integers = field(default_factory=_no_integers)
    ends: Integers = field(default_factory=_no_integers)

    @classmethod
    def of_dicts(cls, dicts: Sequence[Mapping[int, Any]], type_: pa.DataType) -> MapColumn:
        """Create a column from maps that are dicts.

        Args:
            dicts: The dicts.
            type_: The type of their values.

        Raises:
            ValueError: A key has more than 32 bits.
        """
        lengths = np.fromiter(map(len, dicts), np.int64, len(dicts))
        keys = np.fromiter(chain.from_iterable(dicts), np.int64)
        values = pa.array(list(chain.from_iterable(map_.values() for map_ in dicts)), type_)
        return cls(_offsets(lengths), _as_keys(keys), values)

    @property
    def has_bytes(self) -> bool:
        """Whether the values of the maps are bytes. Otherwise, they are numbers."""
        return bool(pa.types.is_binary(self.values.type))

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
    """The builder of a `MapColumn`, to which the decoder adds maps step by step. Its `column` is empty before `finish`."""

    def __init__(self, data: bytes, *, has_bytes: bool) -> None:
        """Create a builder without maps.

        Args:
            data: The decompressed data blocks that contain the maps.
            has_bytes: Whether the values are bytes. Otherwise they are integers.
        """
        self.column = MapColumn()
        self.has_bytes = has_bytes
        self._data = data
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
        """Add the offsets in the data of the maps that `add_maps` added last.

        Args:
            starts: The offset of the first byte of each map.
            ends: The offset after the last byte of each map.
        """
        self._spans.append((starts, ends))

    def finish(self) -> None:
        """Fill the column with the added maps.

        Raises:
            ValueError: A key has more than 32 bits, or a data block has more than 2 GiB.
        """
        map_numbers, keys, *values = entries = self._sorted_entries()
        last_entries = _last_of_equal_keys(map_numbers, keys)
        if last_entries is not None:
            map_numbers, keys, *values = (array[last_entries] for array in entries)
        elif self._spans:
            self.column.data = self._data
            self.column.starts, self.column.ends = (np.concatenate(arrays) for arrays in zip(*self._spans, strict=True))
        self.column.offsets, self.column.keys = _offsets(np.bincount(map_numbers, minlength=self._count)), _as_keys(keys)
        self.column.values = _bytes_array(self._data, *values) if self.has_bytes else pa.array(values[0])
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


def _last_of_equal_keys(map_numbers: Integers, keys: Integers) -> Integers | None:
    """Return the indexes of the last entry of each key in each map, or None if no map has a key twice."""
    if ((keys[1:] > keys[:-1]) | (map_numbers[1:] != map_numbers[:-1])).all():  # the usual order of writers
        return None
    _, indexes_from_end = np.unique(np.stack([map_numbers, keys])[:, ::-1], axis=1, return_index=True)
    return None if len(indexes_from_end) == len(keys) else np.sort(len(keys) - 1 - indexes_from_end)


def _as_keys(keys: Integers) -> Keys:
    if len(keys) and not -(2**31) <= keys.min() <= keys.max() < 2**31:
        raise ValueError("the key of a map has more than 32 bits")
    return keys.astype(np.int32)


def _offsets(lengths: Integers) -> Integers:
    return np.concatenate([np.zeros(1, np.int64), lengths.cumsum()])


def _bytes_array(data: bytes, starts: Integers, ends: Integers) -> pa.BinaryArray:
    """Return the bytes between offsets of the data as an array of Arrow."""
    lengths = ends - starts
    offsets = _offsets(lengths)
    if len(data) > _MAX_BYTES:
        raise ValueError("a data block has more than 2 GiB")
    shifts = (starts - offsets[:-1]).astype(np.int32)  # 32 bits, because this array has a number for each byte
    positions = np.arange(offsets[-1], dtype=np.int32) + np.repeat(shifts, lengths)
    values = np.frombuffer(data, np.uint8)[positions]
    return pa.Array.from_buffers(pa.binary(), len(starts), [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(values)])


class MapView(Mapping[int, Any]):
    """One map of a `MapColumn`. Use `MapSequence` to read a key of many maps, because each access to a view takes microseconds."""

    __slots__ = ("column", "number")

    def __init__(self, column: MapColumn, number: int) -> None:
        """Create a view of a map.

        Args:
            column: The maps of a field.
            number: The number of the map.
        """
        self.column = column
        self.number = number

    @property
    def avro_bytes(self) -> bytes | None:
        """The map in Avro's binary encoding, as its manifest contains it, or None if it is not known."""
        column, number = self.column, self.number
        return column.data[column.starts[number] : column.ends[number]] if len(column.starts) else None

    def __getitem__(self, key: int) -> Any:
        start, end = self.column.offsets[self.number : self.number + 2]
        entries = np.flatnonzero(self.column.keys[start:end] == key)
        if not len(entries):
            raise KeyError(key)
        return self.column.values[int(start + entries[0])].as_py()

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

    def __reduce__(self) -> tuple[type, tuple[dict[int, Any]]]:
        return dict, (self.column.dict_of(self.number),)  # A pickled view would contain the maps of all other files.


@dataclass(frozen=True)
class MapSequence:
    """A metric of several files: the map of each file, whose values are read together. `type`: the type of the values."""

    maps: Sequence[Mapping[int, Any]]
    type: pa.DataType

    @cached_property
    def _views(self) -> list[tuple[MapColumn, Integers, Integers]]:
        """Return each column of the views, with their positions in the sequence and their numbers in the column."""
        positions_by_column: dict[MapColumn, list[int]] = {}
        for position, map_ in enumerate(self.maps):
            if isinstance(map_, MapView):
                positions_by_column.setdefault(map_.column, []).append(position)
        return [
            (column, np.array(positions), np.array([self.maps[position].number for position in positions]))  # type: ignore[attr-defined]
            for column, positions in positions_by_column.items()
        ]

    @cached_property
    def _dict_positions(self) -> Integers:
        """Return the positions of the dicts that are not empty."""
        return np.array([index for index, map_ in enumerate(self.maps) if not isinstance(map_, MapView) and map_], np.int64)

    def _dicts(self) -> list[Mapping[int, Any]]:
        return [self.maps[position] for position in self._dict_positions.tolist()]

    def values_of(self, key: int) -> pa.Array:
        """Return the value of a key in each map, or null for a map without the key.

        Args:
            key: The key.
        """
        if not self._views:
            return pa.array([map_.get(key) for map_ in self.maps], self.type)
        indexes = np.full(len(self.maps), -1)
        arrays, length = [], 0
        for column, positions, numbers in self._views:
            entries = column.indexes_of(key)[numbers]
            has_key = entries >= 0
            arrays.append(column.values.take(pa.array(entries[has_key])))
            indexes[positions[has_key]] = np.arange(length, length + len(arrays[-1]))
            length += len(arrays[-1])
        if len(self._dict_positions):
            arrays.append(pa.array([map_.get(key) for map_ in self._dicts()], self.type))
            indexes[self._dict_positions] = np.arange(length, length + len(arrays[-1]))
        return pa.concat_arrays(arrays).take(pa.array(indexes, mask=indexes < 0))

    def as_array(self) -> pa.MapArray:
        """Return the maps as an Arrow array with keys of type int32. An empty map is null, because manifests omit maps without entries."""
        columns = [*self._views, (MapColumn.of_dicts(self._dicts(), self.type), self._dict_positions, np.arange(len(self._dict_positions)))]
        starts, lengths = np.zeros(len(self.maps), np.int64), np.zeros(len(self.maps), np.int64)
        entry_count = 0
        for column, positions, numbers in columns:
            starts[positions] = column.offsets[numbers] + entry_count
            lengths[positions] = np.diff(column.offsets)[numbers]
            entry_count += len(column.keys)
        offsets = _offsets(lengths)
        entries = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        keys = np.concatenate([column.keys for column, _, _ in columns])[entries]
        items = pa.concat_arrays([column.values for column, _, _ in columns]).take(pa.array(entries))
        nullable_offsets = pa.array(offsets, pa.int32(), mask=np.append(lengths == 0, False))  # the offset of a null map is null
        return pa.MapArray.from_arrays(nullable_offsets, pa.array(keys), items).cast(pa.map_(pa.int32(), self.type))
