"""Answers to queries from the metadata of one version of a table, without its data files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from rowmerge.plan.bounds.bounds import as_array, comparable
from rowmerge.plan.expressions.sides import Side, resolve
from rowmerge.plan.pruning.file_pruning import exact_partition_mask, file_mask
from rowmerge.sql import COUNT, MAX, MIN, SimpleQuery
from rowmerge.table.metadata.schema import Decimal, Field, Primitive, arrow_type
from rowmerge.table.snapshots.files import FileListing, FileMask
from rowmerge.table.snapshots.snapshot import Snapshot

_FLOATS = (Primitive("float"), Primitive("double"))
_TOTALS = {COUNT: pc.sum, MIN: pc.min, MAX: pc.max}
_GROUP_FUNCTIONS = {COUNT: "sum", MIN: "min", MAX: "max"}


@dataclass(frozen=True)
class ResolvedQuery:
    """A query whose names have been resolved in a version of its table.

    `fields`: the table's column of each result column, or None for a count of rows and for a star. `keys`: the columns of GROUP BY or
    DISTINCT. `masks`: the mask of the files in which WHERE is true for all rows, and the mask of those in which it may be true.
    """

    query: SimpleQuery
    snapshot: Snapshot
    fields: tuple[Field | None, ...]
    keys: tuple[Field, ...]
    masks: tuple[FileMask, FileMask]

    @property
    def bound_columns(self) -> tuple[str, ...]:
        """Return the names of the columns whose statistics the query needs."""
        columns = zip(self.query.columns, self.fields, strict=True)
        return tuple(field.name for column, field in columns if column.function and field is not None and not self.is_partition(field))

    def is_partition(self, field: Field) -> bool:
        """Return whether the listing of files contains the values of a column."""
        return field.name in self.snapshot.partition_columns

    def matching_files(self, files: FileListing) -> FileListing | None:
        """Return the files in which WHERE is true for all rows, or None if it may be true for only some rows of a file."""
        is_match, may_match = (as_array(mask(files)) for mask in self.masks)
        return files.filter(is_match) if is_match.equals(may_match) else None


def resolve_query(query: SimpleQuery, snapshot: Snapshot, *, case_sensitive: bool, time_zone: str | None) -> ResolvedQuery | None:
    """Resolve the names in a query.

    Args:
        query: The query.
        snapshot: The version of the table that the query reads.
        case_sensitive: Whether names that differ only in case are different.
        time_zone: The name of the session's time zone, or None if it is unknown.

    Returns:
        The resolved query. None if a name is unknown or ambiguous, or if the condition may be true for only some rows of a file.
    """
    schema = snapshot.schema
    side = Side(query.alias or query.table, (), schema.names)

    def field_of(parts: tuple[str, ...]) -> Field | None:
        resolved = resolve(parts, (side,), case_sensitive=case_sensitive)
        return None if resolved is None or resolved.field_count else schema.find(resolved.column, case_sensitive=True)

    names = [None if column.is_star else column.column for column in query.columns]
    fields = [None if parts is None else field_of(parts) for parts in names]
    keys = [field for field in map(field_of, query.keys) if field is not None]
    is_resolved = all(field is not None for field, parts in zip(fields, names, strict=True) if parts is not None)
    conjuncts, partition_columns = [] if query.condition is None else [query.condition], snapshot.partition_columns
    exact_mask = exact_partition_mask(conjuncts, side, schema, partition_columns, case_sensitive=case_sensitive, time_zone=time_zone)
    if not is_resolved or len(keys) < len(query.keys) or exact_mask is None:
        return None
    possible_mask = file_mask(conjuncts, side, schema, partition_columns, case_sensitive=case_sensitive, time_zone=time_zone).mask
    return ResolvedQuery(query, snapshot, tuple(fields), tuple(keys), (exact_mask, possible_mask))


def answer_from_metadata(resolved: ResolvedQuery) -> pa.Table | None:
    """Return the rows of a query of counts, minima, maxima and partition columns, or None if the metadata do not determine them.

    Raises:
        CorruptLog: The metadata of the table are damaged.
        StorageError: The store fails while metadata are read.
    """
    query = resolved.query
    if not _may_be_answered(resolved):
        return None
    files = resolved.matching_files(resolved.snapshot.exact_files(resolved.bound_columns))
    if files is None or files.records.null_count or files.deleted.null_count:
        return None
    files = files.filter(pc.greater(files.records, files.deleted))
    values = _without_none([_values_by_file(resolved, index, files) for index in range(len(query.columns))])
    keys = _without_none([_partition_values(field, files) for field in resolved.keys])
    if values is None or keys is None:
        return None
    result = _groups(resolved, values, keys) if query.is_grouped else _totals(resolved, values)
    return None if result is None else _sort_and_limit(query, result)


def _may_be_answered(resolved: ResolvedQuery) -> bool:
    """Return whether all columns have types and roles for which metadata can be exact."""
    query = resolved.query
    if not (query.is_grouped or query.has_aggregates) or not all(map(resolved.is_partition, resolved.keys)):
        return False
    key_names = {field.name for field in resolved.keys}
    for column, field in zip(query.columns, resolved.fields, strict=True):
        if column.function in (MIN, MAX) and not _is_exact(field):
            return False
        if not column.function and (field is None or field.name not in key_names):
            return False
        if field is not None and not isinstance(field.type, Primitive | Decimal):
            return False
    return all(map(_is_exact, resolved.keys))


def _is_exact(field: Field | None) -> bool:
    """Return whether metadata can contain exact values of a column in Spark's order, which differs for NaN, CHAR and collations."""
    return field is not None and comparable(field) and field.type not in _FLOATS


def _values_by_file(resolved: ResolvedQuery, index: int, files: FileListing) -> pa.Array | None:
    """Return the value of a result column for the live rows of each file, or None if it is unknown for a file."""
    function, field = resolved.query.columns[index].function, resolved.fields[index]
    live_rows = as_array(pc.subtract(files.records, files.deleted))
    if field is None:
        return live_rows
    if resolved.is_partition(field):
        values = _partition_values(field, files)
        return pc.if_else(pc.is_valid(values), live_rows, 0) if values is not None and function == COUNT else values
    nulls = _child(files, "nulls", field)
    if nulls is None or (function == COUNT and nulls.null_count):
        return None
    if function == COUNT:
        return pc.subtract(live_rows, nulls)
    bounds = _child(files, "lower" if function == MIN else "upper", field)
    has_no_values = pc.fill_null(pc.equal(nulls, live_rows), False)
    if bounds is None or not bounds.type.equals(arrow_type(field.type)):
        return None
    return bounds if pc.all(pc.or_(pc.is_valid(bounds), has_no_values)).as_py() is not False else None


def _without_none(arrays: Sequence[pa.Array | None]) -> list[pa.Array] | None:
    """Return the arrays, or None if one of them is None."""
    present = [array for array in arrays if array is not None]
    return present if len(present) == len(arrays) else None


def _partition_values(field: Field, files: FileListing) -> pa.Array | None:
    """Return the partition value of each file, or None if values of another type are stored."""
    values = _child(files, "partition", field)
    return values if values is not None and values.type.equals(arrow_type(field.type)) else None


def _child(files: FileListing, struct: str, field: Field) -> pa.Array | None:
    """Return a column of a struct in the listing, or None if the listing lacks it."""
    structs = files.rows[struct]
    index = structs.type.get_field_index(field.name)
    return None if index < 0 else as_array(pc.struct_field(structs, [index]))


def _totals(resolved: ResolvedQuery, values: Sequence[pa.Array]) -> pa.Table:
    """Return the row of a query without keys. COUNT of no rows is 0, and MIN and MAX of no values are NULL."""
    arrays = []
    for column, array in zip(resolved.query.columns, values, strict=True):
        total = _TOTALS[column.function](array)
        is_empty_count = column.function == COUNT and not total.is_valid
        arrays.append(pa.array([0 if is_empty_count else total], pa.int64() if column.function == COUNT else array.type))
    return pa.Table.from_arrays(arrays, names=_result_names(arrays))


def _groups(resolved: ResolvedQuery, values: Sequence[pa.Array], keys: Sequence[pa.Array]) -> pa.Table | None:
    """Return the result of GROUP BY: one row for each distinct key. None if Arrow has no aggregate function for the type of a column."""
    names, key_names = _result_names(values), [f"key{index}" for index in range(len(keys))]
    result_columns = list(zip(names, resolved.query.columns, resolved.fields, strict=True))
    aggregates = [(name, _GROUP_FUNCTIONS[column.function]) for name, column, _ in result_columns if column.function]
    rows = pa.Table.from_arrays([*values, *keys], names=[*names, *key_names])
    try:
        groups = rows.group_by(key_names).aggregate(aggregates)
    except pa.ArrowNotImplementedError:
        return None
    # A column without a function is a key.
    key_of_field = {field.name: key_name for field, key_name in zip(resolved.keys, key_names, strict=True)}
    sources = {name: f"{name}_{function}" for name, function in aggregates}
    sources |= {name: key_of_field[field.name] for name, column, field in result_columns if not column.function and field is not None}
    return pa.Table.from_arrays([groups[sources[name]] for name in names], names=names)


def _result_names(columns: Sequence[pa.Array]) -> list[str]:
    """Return a unique name for each column of a result."""
    return [f"c{index}" for index in range(len(columns))]


def _sort_and_limit(query: SimpleQuery, rows: pa.Table) -> pa.Table:
    """Return the rows in the order of ORDER BY, and not more than LIMIT."""
    columns: dict[str, pa.ChunkedArray] = {}
    sort_keys: list[tuple[str, str]] = []
    for number, key in enumerate(query.order):
        values = rows.column(key.index)
        columns |= {f"null{number}": pc.is_null(values).cast(pa.int8()), f"value{number}": values}
        sort_keys.append((f"null{number}", "descending" if key.nulls_first else "ascending"))
        sort_keys.append((f"value{number}", "descending" if key.descending else "ascending"))
    ordered = rows.take(pc.sort_indices(pa.table(columns), sort_keys=sort_keys)) if sort_keys else rows
    return ordered if query.limit is None else ordered.slice(0, query.limit)
