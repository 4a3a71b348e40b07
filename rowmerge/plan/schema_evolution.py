"""The schema of a table after a statement that may add columns. New columns and struct fields are appended, and existing ones are kept.

The rules follow delta-spark: which columns a MERGE adds (ResolveDeltaMergeInto), and how two schemas are merged (SchemaMergingUtils). Names
are compared without regard to case, even with spark.sql.caseSensitive, because a table cannot have two columns that differ only in case.
Existing names keep their case.

The RowPlan of a statement that adds columns has two schemas. The target is read with the old schema, and rows are written with the new one
(`Snapshot.evolved`). A single commit adds the rows and changes the schema. Existing files are kept, and readers return NULL for a column
that a file lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from rowmerge.commands.rows import DeleteAction, Match, When
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Struct, arrow_type, as_nullable, backquote, sql_name

CanWiden = Callable[[DataType, DataType], bool]
"""A function that returns whether a column of the first type is widened to the second type, that of the new values. Neither is nested."""

Path = tuple[str, ...]


def never(_old: DataType, _new: DataType) -> bool:
    """Return False for every pair of types, so that columns keep their types and new values are cast to these types.

    Args:
        _old: The type of a column.
        _new: The type of new values.
    """
    return False


def schema_after_merge(table: Struct, source: Struct, clauses: Sequence[When], can_widen: CanWiden = never) -> Struct:
    """Return the schema of a table after a MERGE that may add columns.

    `UPDATE SET *` and `INSERT *` add every column of the source. Otherwise, an assignment adds the source column or struct field that has
    the assigned name, regardless of the assigned value. WHEN NOT MATCHED BY SOURCE has no source row and adds no columns.

    Args:
        table: The table's schema before the statement.
        source: The columns of the source with their types.
        clauses: The WHEN clauses of the statement.
        can_widen: A function that returns whether a column's type is widened to the type of the source column.

    Raises:
        PlanError: The source has two columns or fields with the same name.
        TypeMismatch: A new column has a type that tables do not support.
    """
    actions = [when.action for when in clauses if when.match is not Match.NOT_MATCHED_BY_SOURCE]
    assignment_lists = [action.assignments for action in actions if not isinstance(action, DeleteAction)]
    if None in assignment_lists:  # `UPDATE SET *` or `INSERT *`
        return merge_schemas(table, source, can_widen)
    assigned_paths = [assignment.column for assignments in assignment_lists for assignment in assignments or ()]
    return merge_schemas(table, _select_paths(source, assigned_paths), can_widen)


def schema_after_insert(
    table: Struct, query: Struct, columns: Sequence[str] | None, static: Sequence[str], *, by_name: bool, can_widen: CanWiden = never
) -> Struct:
    """Return the schema of a table after an INSERT that may add columns.

    With BY NAME, the query columns that the table lacks are new. By position, the query columns beyond the table's last column are new.

    Args:
        table: The table's schema before the statement.
        query: The columns of the query with their types.
        columns: The column list, which can contain only existing columns, or None if the statement has no list.
        static: The columns of PARTITION (column = value), which the query does not return.
        by_name: Whether the statement has BY NAME.
        can_widen: A function that returns whether a column's type is widened to the type of the query column.

    Raises:
        PlanError: Two query columns have the same name, or a new column by position has the name of an existing column.
        TypeMismatch: A new column has a type that tables do not support.
    """
    if by_name:
        return merge_schemas(table, query, can_widen)
    static_names = {name.lower() for name in static}
    dynamic_names = [name for name in table.names if name.lower() not in static_names]
    target_names = dynamic_names if columns is None else columns
    if len(query) < len(target_names) or (columns is not None and len(query) > len(target_names)):
        return table  # the planner later raises an error for the number of columns
    return merge_schemas(table, _named_by_position(query, target_names, table), can_widen)


def _named_by_position(query: Struct, target_names: Sequence[str], table: Struct) -> Struct:
    """Return the columns of a query, renamed to the table columns that store them.

    The columns beyond `target_names` are new and keep their names. A column whose target the table lacks is left out, because the planner
    raises an error for it later. Raise PlanError if a new column has the name of an existing column.
    """
    new_fields = query.fields[len(target_names) :]
    _check_names_are_new(new_fields, table)
    renamed_fields = [replace(field, name=name) for field, name in zip(query.fields, target_names, strict=False)]
    old_fields = [field for field in renamed_fields if table.find(field.name) is not None]
    return Struct((*old_fields, *new_fields))


def _check_names_are_new(new_fields: Sequence[Field], table: Struct) -> None:
    """Raise PlanError for a new column by position that has the name of a column of the table."""
    for field in new_fields:
        if table.find(field.name) is not None:
            raise PlanError(
                f"The query's column {backquote(field.name)} is after the table's last column, so it would be a new column. The "
                f"table already has a column with this name. Rename the query's column with AS, or insert BY NAME."
            )


def merge_schemas(table: Struct, new: Struct, can_widen: CanWiden = never, parent_path: Path = ()) -> Struct:
    """Return `table` with the columns and struct fields of `new` that `table` lacks, at any depth. All new columns are nullable.

    Args:
        table: The old schema, or a struct in the old schema.
        new: The schema of the new rows, or the struct at the same path in that schema.
        can_widen: A function that returns whether a column's type is widened to the type of the new values.
        parent_path: The names of the structs that contain `table` and `new`, for error messages.

    Raises:
        PlanError: Two fields of a struct in `new` have the same name.
        TypeMismatch: A new column has a type that tables do not support.
    """
    _check_names_differ(new, parent_path)
    merged_fields = []
    for field in table:
        new_field = new.find(field.name)
        if new_field is not None:
            field = replace(field, type=evolved_type(field.type, new_field.type, can_widen, (*parent_path, field.name)))
        merged_fields.append(field)
    new_fields = [_new_field(field, parent_path) for field in new if table.find(field.name) is None]
    return Struct((*merged_fields, *new_fields))


def _check_names_differ(struct: Struct, parent_path: Path) -> None:
    """Raise PlanError if two fields have the same name, without regard to case."""
    counts = Counter(field.name.lower() for field in struct)
    for field in struct:
        count = counts[field.name.lower()]
        if count > 1:
            path = _quoted_path((*parent_path, field.name))
            raise PlanError(f"The source has the column {path} {count} times. Select it once, or under another name.")


def with_missing_fields(type_: DataType, target: DataType) -> DataType:
    """Return a type extended by the struct fields that only `target` has, at any depth. The added fields are nullable.

    Args:
        type_: The type of new values.
        target: The type of the column that stores them.
    """
    match type_, target:
        case Struct(), Struct():
            return _struct_with_missing_fields(type_, target)
        case Array(), Array():
            return replace(type_, element=with_missing_fields(type_.element, target.element))
        case Map(), Map():
            key, value = with_missing_fields(type_.key, target.key), with_missing_fields(type_.value, target.value)
            return replace(type_, key=key, value=value)
    return type_


def _struct_with_missing_fields(struct: Struct, target: Struct) -> Struct:
    """Return a struct extended by the fields that only `target` has, at any depth."""
    own_fields = []
    for field in struct:
        target_field = target.find(field.name)
        if target_field is not None:
            field = replace(field, type=with_missing_fields(field.type, target_field.type))
        own_fields.append(field)
    missing_fields = [replace(field, nullable=True) for field in target if struct.find(field.name) is None]
    return Struct((*own_fields, *missing_fields))


def added_or_changed_columns(old_schema: Struct, new_schema: Struct, parent_path: Path = ()) -> list[str]:
    """Return the SQL text `name type` of each column or field that is new in `new_schema`, or whose type differs from `old_schema`.

    Args:
        old_schema: The schema before a statement, or a struct in that schema.
        new_schema: The schema after the statement, or the corresponding struct.
        parent_path: The names of the structs that contain both, which are prepended to the returned names.
    """
    column_definitions = []
    for field in new_schema:
        path = (*parent_path, field.name)
        old_field = old_schema.find(field.name)
        if old_field is not None and isinstance(old_field.type, Struct) and isinstance(field.type, Struct):
            column_definitions += added_or_changed_columns(old_field.type, field.type, path)
        elif old_field is None or old_field.type != field.type:
            column_definitions.append(f"{_quoted_path(path)} {sql_name(field.type)}")
    return column_definitions


def _select_paths(source: Struct, paths: Sequence[Path]) -> Struct:
    """Return the source reduced to the columns and struct fields whose paths are in `paths`, without regard to case."""
    fields = []
    for field in source:
        field_paths = [path[1:] for path in paths if path[0].lower() == field.name.lower()]
        if () in field_paths:
            fields.append(field)
        elif field_paths and isinstance(field.type, Struct):
            fields.append(replace(field, type=_select_paths(field.type, field_paths)))
    return Struct(tuple(fields))


def evolved_type(current: DataType, new: DataType, can_widen: CanWiden = never, path: Path = ()) -> DataType:
    """Return the type of a column after new values are written to the column: struct fields are added, and types are widened.

    Args:
        current: The column's type.
        new: The type of the new values.
        can_widen: A function that returns whether the first of two types is widened to the second. Neither type is nested.
        path: The names of the structs that contain the column, followed by the column's name, for error messages.

    Raises:
        PlanError: Two fields of a struct in the new values have the same name.
        TypeMismatch: A new field has a type that tables do not support.
    """
    match current, new:
        case Struct(), Struct():
            return merge_schemas(current, new, can_widen, path)
        case Array(), Array():
            return replace(current, element=evolved_type(current.element, new.element, can_widen, (*path, "element")))
        case Map(), Map():
            key = evolved_type(current.key, new.key, can_widen, (*path, "key"))
            return replace(current, key=key, value=evolved_type(current.value, new.value, can_widen, (*path, "value")))
        case ((Struct() | Array() | Map()), _) | (_, (Struct() | Array() | Map())):
            return current  # not an error yet, because the statement may cast the value
    return new if can_widen(current, new) else current


def _new_field(field: Field, parent_path: Path) -> Field:
    """Return a field as a new, nullable column. Raise TypeMismatch if tables do not support the field's type."""
    type_ = as_nullable(field.type)
    try:
        arrow_type(type_)
    except ValueError as error:
        path = _quoted_path((*parent_path, field.name))
        advice = "Cast NULL to the intended type" if "void" in str(error) else "Cast it to a supported type"
        raise TypeMismatch(f"The new column {path} has the unsupported type {sql_name(type_)} ({error}). {advice}.") from error
    return Field(field.name, type_)


def _quoted_path(path: Path) -> str:
    return ".".join(backquote(part) for part in path)
