"""Which counts and bounds manifests keep of which column, and those of a file that was just written (`write.metadata.metrics.*`)."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyiceberg.schema import Schema
from pyiceberg.types import DoubleType, FloatType, IcebergType, ListType, MapType, PrimitiveType, StructType

from rowmerge.errors import ConfigurationError
from rowmerge.iceberg.manifests.bounds import to_bound
from rowmerge.table.snapshots.files import AddedFile

DEFAULT_MODE = "write.metadata.metrics.default"
MODE_OF_COLUMN = "write.metadata.metrics.column."
MOST_COLUMNS = "write.metadata.metrics.max-inferred-column-defaults"


@dataclass(frozen=True)
class MetricsMode:
    """What is kept of a column; `truncate`: of strings and binary, bounds are cut to so many code points or bytes, None for whole ones."""

    counts: bool = True
    bounds: bool = True
    truncate: int | None = None

    @classmethod
    def parse(cls, text: str) -> MetricsMode:
        """From `none`, `counts`, `truncate(n)` or `full`. Raises ValueError."""
        known = {"none": cls(False, False), "counts": cls(True, False), "full": cls()}
        if match := re.fullmatch(r"truncate\((\d+)\)", text.strip().lower()):
            if int(match[1]) > 0:
                return cls(truncate=int(match[1]))
        elif mode := known.get(text.strip().lower()):
            return mode
        raise ValueError(f"unknown metrics mode {text!r}")


_NONE = MetricsMode(False, False)
_DEFAULT = MetricsMode(truncate=16)


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
    """The mode of every primitive field by id, as Java's MetricsConfig finds it. Raises ConfigurationError for a value that is no mode.

    `sorted_by`: ids of the columns that the sort order keeps in order; they have bounds unless a property of their own says otherwise.
    """
    every = list(_primitives(schema.as_struct()))
    default = _mode(properties, DEFAULT_MODE) if DEFAULT_MODE in properties else None
    limit = _limit(properties)
    chosen = every if default is not None or len(every) <= limit else every[:limit]
    modes = dict.fromkeys(every, default or _NONE) | dict.fromkeys(chosen, default or _DEFAULT)
    modes |= {id_: _DEFAULT for id_ in sorted_by if id_ in modes and not modes[id_].bounds}
    for key in properties:
        if key.startswith(MODE_OF_COLUMN):
            id_ = _id_of(schema, key[len(MODE_OF_COLUMN) :])
            mode = _mode(properties, key)
            modes |= {id_: mode} if id_ in modes else {}
    return modes


def metrics_of(file: AddedFile, schema: Schema, modes: Mapping[int, MetricsMode]) -> FileMetrics:
    """The sizes, counts and bounds of a file that was written, by its typed bounds. Fields inside lists and maps have sizes alone.

    Sizes are kept whatever the mode, as Java does. A float column with bounds holds no NaN (`AddedFile` has none otherwise), and manifests
    say so.
    """
    metrics = FileMetrics({}, {}, {}, {}, {}, {})
    for id_, type_, path, repeated in _leaves(schema.as_struct()):
        mode = modes.get(id_, _NONE)
        _put(metrics.column_sizes, id_, _at(file.sizes, path))
        if repeated or not mode.counts:
            continue
        _put(metrics.value_counts, id_, file.records)
        _put(metrics.null_counts, id_, _at(file.nulls, path))
        lower, upper = _at(file.lower, path), _at(file.upper, path)
        if isinstance(type_, FloatType | DoubleType) and lower is not None and upper is not None:
            _put(metrics.nan_counts, id_, 0)
        if mode.bounds:
            _put(metrics.lower, id_, to_bound(lower, type_, upper=False, truncate=mode.truncate))
            _put(metrics.upper, id_, to_bound(upper, type_, upper=True, truncate=mode.truncate))
    return metrics


def _mode(properties: Mapping[str, str], key: str) -> MetricsMode:
    try:
        return MetricsMode.parse(properties[key])
    except ValueError as error:
        raise ConfigurationError(
            f"The table property {key} is {properties[key]!r}. Set it to none, counts, truncate(length) or full."
        ) from error


def _limit(properties: Mapping[str, str]) -> int:
    text = properties.get(MOST_COLUMNS, "100")
    if not re.fullmatch(r"\s*\d+\s*", text):
        raise ConfigurationError(f"The table property {MOST_COLUMNS} is {text!r}. Set it to a number of columns.")
    return int(text)


def _id_of(schema: Schema, name: str) -> int | None:
    try:
        return schema.find_field(name).field_id
    except ValueError:
        return None  # a column that was renamed or dropped since; Java lets the property stand too


def _parts(type_: IcebergType) -> list[tuple[int, str, IcebergType]]:
    """The fields directly inside a type: id, name as `AddedFile` has it, type."""
    match type_:
        case StructType(fields=fields):
            return [(part.field_id, part.name, part.field_type) for part in fields]
        case ListType(element_id=id_, element_type=element):
            return [(id_, "element", element)]
        case MapType(key_id=key_id, key_type=key, value_id=value_id, value_type=value):
            return [(key_id, "key", key), (value_id, "value", value)]
    return []


def _primitives(type_: IcebergType) -> Iterator[int]:
    """The ids of primitive fields, those of each level before those below it, which is how Java counts them."""
    parts = _parts(type_)
    yield from (id_ for id_, _, part in parts if isinstance(part, PrimitiveType))
    for _, _, part in parts:
        yield from _primitives(part)


def _leaves(
    type_: IcebergType, above: tuple[str, ...] = (), repeated: bool = False
) -> Iterator[tuple[int, IcebergType, tuple[str, ...], bool]]:
    """Primitive fields: id, type, names from the top, and whether they are in a list or a map."""
    for id_, name, part in _parts(type_):
        if isinstance(part, PrimitiveType):
            yield id_, part, (*above, name), repeated
        else:
            yield from _leaves(part, (*above, name), repeated or not isinstance(part, StructType))


def _at(tree: Mapping[str, Any], path: tuple[str, ...]) -> Any:
    found: Any = tree
    for name in path:
        if not isinstance(found, Mapping):
            return None
        found = found.get(name)
    return found


def _put(into: Any, id_: int, value: Any) -> None:
    if value is not None:
        into[id_] = value
