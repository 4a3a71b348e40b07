"""Metrics modes of columns (`write.metadata.metrics.*`), and the metrics of a written file for its manifest entry."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IcebergType, PrimitiveType, StructType

from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.manifests.bounds import to_bound
from rowmerge.iceberg.metadata.types import nested_fields
from rowmerge.table.snapshots.files import AddedFile

DEFAULT_MODE = "write.metadata.metrics.default"
MODE_OF_COLUMN = "write.metadata.metrics.column."
MOST_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"


@dataclass(frozen=True)
class MetricsMode:
    """The metrics of a column that manifests keep; `truncate` cuts bounds of strings and binary to so many code points or bytes."""

    counts: bool = True
    bounds: bool = True
    truncate: int | None = None

    @classmethod
    def parse(cls, text: str) -> MetricsMode:
        """Parse `none`, `counts`, `truncate(n)` or `full`, in any case. Raises ValueError."""
        name = text.strip().lower()
        modes = {"none": cls(False, False), "counts": cls(True, False), "full": cls()}
        if name in modes:
            return modes[name]
        match = re.fullmatch(r"truncate\((\d+)\)", name)
        if match is None or int(match[1]) == 0:
            raise ValueError(f"unknown metrics mode {text!r}")
        return cls(truncate=int(match[1]))


_NONE = MetricsMode(False, False)
_TRUNCATED = MetricsMode(truncate=16)


@dataclass(frozen=True)
class FileMetrics:
    """The maps of a `ContentFile`, by field id."""

    column_sizes: Mapping[int, int] = field(default_factory=dict)
    value_counts: Mapping[int, int] = field(default_factory=dict)
    null_counts: Mapping[int, int] = field(default_factory=dict)
    nan_counts: Mapping[int, int] = field(default_factory=dict)
    lower: Mapping[int, bytes] = field(default_factory=dict)
    upper: Mapping[int, bytes] = field(default_factory=dict)


def metrics_modes(schema: Schema, properties: Mapping[str, str], sorted_by: Collection[int] = ()) -> dict[int, MetricsMode]:
    """Return the mode of every primitive field by id, as Java's MetricsConfig does. Raises ConfigurationError for an invalid value.

    `sorted_by` are the ids of columns whose order the sort order keeps. They have bounds unless a property of the column disables them.
    """
    modes = _default_modes(list(_primitive_ids(schema.as_struct())), properties)
    modes |= {id_: _TRUNCATED for id_ in sorted_by if id_ in modes and not modes[id_].bounds}
    for key in properties:
        if key.startswith(MODE_OF_COLUMN):
            mode = _parse_mode(properties, key)
            id_ = _find_id(schema, key.removeprefix(MODE_OF_COLUMN))
            if id_ in modes:
                modes[id_] = mode
    return modes


def _default_modes(ids: list[int], properties: Mapping[str, str]) -> dict[int, MetricsMode]:
    """Return the mode of the property for all columns, or truncated bounds for as many columns as another property allows."""
    default = _parse_mode(properties, DEFAULT_MODE) if DEFAULT_MODE in properties else None
    limit = _parse_limit(properties)
    if default is not None:
        return dict.fromkeys(ids, default)
    return dict.fromkeys(ids, _NONE) | dict.fromkeys(ids[:limit], _TRUNCATED)


def file_metrics(file: AddedFile, schema: Schema, modes: Mapping[int, MetricsMode]) -> FileMetrics:
    """Return the sizes, counts and bounds of a written file, from its typed bounds. Fields inside lists and maps have only sizes.

    Every mode keeps sizes, as in Java. A float column with bounds contains no NaN (`AddedFile` has no bounds otherwise), so its NaN count
    is 0.
    """
    leaves = list(_leaves(schema.as_struct()))
    counted = [leaf for leaf in leaves if not leaf.is_repeated and modes.get(leaf.id, _NONE).counts]
    bounded = [leaf for leaf in counted if modes[leaf.id].bounds]
    floats = [leaf for leaf in counted if isinstance(leaf.type, FloatType | DoubleType)]
    return FileMetrics(
        column_sizes=_by_id(leaves, lambda leaf: leaf.value_in(file.sizes)),
        value_counts=_by_id(counted, lambda leaf: file.records),
        null_counts=_by_id(counted, lambda leaf: leaf.value_in(file.nulls)),
        nan_counts=_by_id(floats, lambda leaf: None if None in (leaf.value_in(file.lower), leaf.value_in(file.upper)) else 0),
        lower=_by_id(bounded, lambda leaf: to_bound(leaf.value_in(file.lower), leaf.type, upper=False, truncate=modes[leaf.id].truncate)),
        upper=_by_id(bounded, lambda leaf: to_bound(leaf.value_in(file.upper), leaf.type, upper=True, truncate=modes[leaf.id].truncate)),
    )


def _by_id(leaves: Sequence[_Leaf], get_value: Callable[[_Leaf], Any]) -> dict[int, Any]:
    """Return the values of fields by field id, without those that are None."""
    values = ((leaf.id, get_value(leaf)) for leaf in leaves)
    return {id_: value for id_, value in values if value is not None}


def _parse_mode(properties: Mapping[str, str], key: str) -> MetricsMode:
    try:
        return MetricsMode.parse(properties[key])
    except ValueError as error:
        raise ConfigurationError(
            f"The table property {key} is {properties[key]!r}. Set it to none, counts, truncate(length) or full."
        ) from error


def _parse_limit(properties: Mapping[str, str]) -> int:
    text = properties.get(MOST_COLUMNS, "100")
    if not re.fullmatch(r"\s*\d+\s*", text):
        raise ConfigurationError(f"The table property {MOST_COLUMNS} is {text!r}. Set it to a number of columns.")
    return int(text)


def _find_id(schema: Schema, name: str) -> int | None:
    try:
        return schema.find_field(name).field_id
    except ValueError:
        return None  # a column that was renamed or dropped since; Java accepts the property too


def _primitive_ids(type_: IcebergType) -> Iterator[int]:
    """Yield the ids of primitive fields, those of each level before those below it, which is how Java counts them."""
    fields = nested_fields(type_)
    yield from (nested.field_id for nested in fields if isinstance(nested.field_type, PrimitiveType))
    for nested in fields:
        yield from _primitive_ids(nested.field_type)


@dataclass(frozen=True)
class _Leaf:
    """A primitive field: its names from the top as in `AddedFile`, and whether it is inside a list or map."""

    id: int
    type: IcebergType
    path: tuple[str, ...]
    is_repeated: bool

    def value_in(self, tree: Mapping[str, Any]) -> Any:
        """Return the value of this field in nested mappings by name, or None."""
        value: Any = tree
        for name in self.path:
            if not isinstance(value, Mapping):
                return None
            value = value.get(name)
        return value


def _leaves(type_: IcebergType, parent: tuple[str, ...] = (), is_repeated: bool = False) -> Iterator[_Leaf]:
    for nested in nested_fields(type_):
        path = (*parent, nested.name)
        if isinstance(nested.field_type, PrimitiveType):
            yield _Leaf(nested.field_id, nested.field_type, path, is_repeated)
        else:
            yield from _leaves(nested.field_type, path, is_repeated or not isinstance(nested.field_type, StructType))
