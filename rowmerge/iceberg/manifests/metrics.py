"""Metrics modes of columns (`write.metadata.metrics.*`), and the manifest entries of written files with their metrics."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Context
from difflib import get_close_matches
from typing import Any

from pyiceberg.partitioning import PartitionField
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.types import DecimalType, DoubleType, FloatType, IcebergType, PrimitiveType, StructType

from rowmerge.errors import ConfigurationError, PlanError
from rowmerge.iceberg.manifests.bounds import to_bound, to_stored_value
from rowmerge.iceberg.manifests.content import Content, ContentFile
from rowmerge.iceberg.metadata.partition_values import partition_value_name
from rowmerge.iceberg.metadata.registry import METRICS_COLUMN, METRICS_COLUMNS, METRICS_DEFAULT, MetricsMode
from rowmerge.iceberg.metadata.types import nested_fields
from rowmerge.table.snapshots.files import AddedFile

_EXACT = Context(prec=100)
_NONE = MetricsMode(counts=False, bounds=False)
_TRUNCATED_TO_16 = MetricsMode(truncate=16)


def metrics_modes(schema: Schema, properties: Mapping[str, str], sorted_by: Collection[int] = ()) -> dict[int, MetricsMode]:
    """Return the metrics mode of every primitive field by field id, as Iceberg's MetricsConfig does.

    Args:
        schema: The schema of the table.
        properties: The properties of the table.
        sorted_by: The field ids of the sort columns. They have bounds unless a property of the column disables them.

    Raises:
        ConfigurationError: A property has an invalid value.
    """
    modes = _default_modes(list(_primitive_ids(schema.as_struct())), properties)
    unbounded_ids = {field_id for field_id, mode in modes.items() if not mode.bounds}
    modes |= dict.fromkeys(unbounded_ids.intersection(sorted_by), _TRUNCATED_TO_16)
    for name, mode in METRICS_COLUMN.parse_all(properties).items():
        field_id = _find_field_id(schema, name)
        if field_id in modes:
            modes[field_id] = mode
    return modes


def check_metrics_columns(table: str, schema: Schema, properties: Mapping[str, str], old_properties: Mapping[str, str]) -> None:
    """Check that the properties of metrics that a statement sets name columns of the table, as Iceberg's MetricsConfig does.

    Args:
        table: The name of the table in messages.
        schema: The schema of the table after the statement.
        properties: The properties of the table after the statement.
        old_properties: The properties before the statement. Those that do not change are not checked.

    Raises:
        ConfigurationError: A property names a column that the table lacks. The case of letters matters.
    """
    for name in METRICS_COLUMN.parse_all({name: value for name, value in properties.items() if old_properties.get(name) != value}):
        if _find_field_id(schema, name) is None:
            columns = {column.lower(): column for column in schema.column_names}
            similar_names = get_close_matches(name.lower(), columns, n=1)
            advice = (
                f"Did you mean {columns[similar_names[0]]}?" if similar_names else "Name a column of the table, or remove the property."
            )
            raise ConfigurationError(f"The table property {METRICS_COLUMN.prefix}{name} names no column of {table}. {advice}")


def _find_field_id(schema: Schema, name: str) -> int | None:
    """Return the field id of a column, or None if it was renamed or dropped. Iceberg ignores the properties of such a column, too."""
    try:
        return schema.find_field(name).field_id
    except ValueError:
        return None


def _default_modes(ids: list[int], properties: Mapping[str, str]) -> dict[int, MetricsMode]:
    """Return the metrics mode of columns without a property of their own, by column id.

    It is the table's default mode if a property sets one. Otherwise, the first columns, up to a limit, have truncated bounds.
    """
    default, limit = METRICS_DEFAULT.parse(properties), METRICS_COLUMNS.value(properties)
    if default is not None:
        return dict.fromkeys(ids, default)
    return dict.fromkeys(ids, _NONE) | dict.fromkeys(ids[:limit], _TRUNCATED_TO_16)


def file_metrics(file: AddedFile, schema: Schema, modes: Mapping[int, MetricsMode]) -> dict[str, Any]:
    """Return the metrics of a written file as attributes of `ContentFile`, which map field ids to values.

    Fields inside lists and maps have only sizes. As in Iceberg, every metrics mode includes sizes. An `AddedFile` has no bounds for a float
    column with NaN. So the NaN count of a float column with bounds is 0.

    Args:
        file: The written file, with its statistics by column name.
        schema: The schema of the table.
        modes: The metrics modes by field id.
    """
    leaves = list(_leaves(schema.as_struct()))
    # A field inside a list or map is repeated: a row may have several values, so the row count is not the value count.
    counted_fields = [leaf for leaf in leaves if not leaf.is_repeated and modes.get(leaf.id, _NONE).counts]
    bounded_fields = [leaf for leaf in counted_fields if modes[leaf.id].bounds]
    return {
        "column_sizes": _values_by_id(leaves, file.sizes),
        "value_counts": {leaf.id: file.records for leaf in counted_fields if file.records is not None},
        "null_counts": _values_by_id(counted_fields, file.nulls),
        "nan_counts": {leaf.id: 0 for leaf in counted_fields if _has_no_nan(leaf, file)},
        "lower": _bounds_by_id(bounded_fields, file.lower, modes, upper=False),
        "upper": _bounds_by_id(bounded_fields, file.upper, modes, upper=True),
    }


def _values_by_id(fields: Sequence[_Leaf], tree: Mapping[str, Any]) -> dict[int, Any]:
    """Return the values of fields in nested mappings by field id, except values that are None."""
    values = {leaf.id: leaf.value_in(tree) for leaf in fields}
    return {field_id: value for field_id, value in values.items() if value is not None}


def _bounds_by_id(fields: Sequence[_Leaf], tree: Mapping[str, Any], modes: Mapping[int, MetricsMode], *, upper: bool) -> dict[int, bytes]:
    bounds = {leaf.id: to_bound(leaf.value_in(tree), leaf.type, upper=upper, truncate=modes[leaf.id].truncate) for leaf in fields}
    return {field_id: bound for field_id, bound in bounds.items() if bound is not None}


def _has_no_nan(leaf: _Leaf, file: AddedFile) -> bool:
    is_float = isinstance(leaf.type, FloatType | DoubleType)
    return is_float and leaf.value_in(file.lower) is not None and leaf.value_in(file.upper) is not None


def _primitive_ids(type_: IcebergType) -> Iterator[int]:
    """Yield the ids of primitive fields, level by level from the top. Iceberg counts them in the same order."""
    fields = nested_fields(type_)
    yield from (nested.field_id for nested in fields if isinstance(nested.field_type, PrimitiveType))
    for nested in fields:
        yield from _primitive_ids(nested.field_type)


def _check_digits(field: PartitionField, value: Any, type_: IcebergType) -> None:
    """Raise PlanError if a decimal has more digits than its type. Iceberg's libraries do not write such partition values, either.

    The transform `truncate` rounds down: it returns -10.00 for -9.99, which the type decimal(3, 2) of the column does not have.
    """
    if isinstance(type_, DecimalType) and value is not None and value.scaleb(type_.scale, _EXACT).copy_abs() >= 10**type_.precision:
        problem = f"The partition field {field.name} has the value {value} for a row, which its type {type_} cannot hold."
        raise PlanError(f"{problem} Widen the type of the column, or partition the table by another transform.")


@dataclass(frozen=True)
class _Leaf:
    """A primitive field.

    `path` contains the field names from the top-level column down, as in `AddedFile`. `is_repeated` is true for a field inside a list or
    map.
    """

    id: int
    type: IcebergType
    path: tuple[str, ...]
    is_repeated: bool

    def value_in(self, tree: Mapping[str, Any]) -> Any:
        """Return the value of this field in nested mappings by name, or None if they do not contain it."""
        value: Any = tree
        for name in self.path:
            value = value.get(name) if isinstance(value, Mapping) else None
        return value


def _leaves(type_: IcebergType, parent: tuple[str, ...] = (), is_repeated: bool = False) -> Iterator[_Leaf]:
    for nested in nested_fields(type_):
        path = (*parent, nested.name)
        if isinstance(nested.field_type, PrimitiveType):
            yield _Leaf(nested.field_id, nested.field_type, path, is_repeated)
        else:
            yield from _leaves(nested.field_type, path, is_repeated or not isinstance(nested.field_type, StructType))


def content_file(file: AddedFile, metadata: TableMetadata, modes: Mapping[int, MetricsMode]) -> ContentFile:
    """Return the manifest's description of a written data file.

    Args:
        file: The written file, with the table's current schema and partition spec.
        metadata: The metadata of the table.
        modes: The metrics modes by field id.

    Raises:
        PlanError: A partition value of the type decimal has too many digits.
    """
    schema, spec = metadata.schema(), metadata.spec()
    types = [field.field_type for field in spec.partition_type(schema).fields]
    values = [file.partition.get(partition_value_name(schema, field)) for field in spec.fields]
    for field, value, type_ in zip(spec.fields, values, types, strict=True):
        _check_digits(field, value, type_)
    return ContentFile(
        content=Content.DATA,
        path=file.path,
        records=file.records,
        size=file.size,
        spec_id=spec.spec_id,
        partition=tuple(to_stored_value(value, type_) for value, type_ in zip(values, types, strict=True)),
        split_offsets=file.split_offsets,
        sort_order_id=metadata.default_sort_order_id if file.ordered else None,
        **file_metrics(file, schema, modes),
    )
