"""What a table's schema becomes when a statement may add to it: new columns and struct fields come last, old ones stay as they are.

Follows delta-spark: which columns a MERGE needs (ResolveDeltaMergeInto), how two schemas become one (SchemaMergingUtils). Names are
compared without regard to case, whatever the session says, because no table can hold two that differ in case alone; the table's spelling
stays.

A RowPlan of a statement that adds columns has two schemas. The target is read with the old one, and rows are written with the new one
(`Snapshot.evolved`). One commit brings the rows and the schema. Old files stay, and readers return NULL for a column that a file lacks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from rowmerge.commands.rows import DeleteAction, Match, When
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Struct, arrow_type, backquote, nullable, sql_name

CanWiden = Callable[[DataType, DataType], bool]
"""Given a column's type and that of new values, neither with parts: whether the column becomes one of the second."""

Path = tuple[str, ...]


def never(_old: DataType, _new: DataType) -> bool:
    """Return False: columns keep their types, and values are cast to them."""
    return False


def after_merge(table: Struct, source: Struct, clauses: Sequence[When], can_widen: CanWiden = never) -> Struct:
    """Return the schema after a MERGE whose source has these columns. Raises what `merge_schemas` raises.

    `UPDATE SET *` and `INSERT *` add every column of the source. Without them, an assignment adds the source's column (or field of a
    struct) of the assigned name, whatever its value is. WHEN NOT MATCHED BY SOURCE sees no source and adds nothing.
    """
    actions = [when.action for when in clauses if when.match is not Match.NOT_MATCHED_BY_SOURCE]
    assignment_lists = [action.assignments for action in actions if not isinstance(action, DeleteAction)]
    if None in assignment_lists:
        return merge_schemas(table, source, can_widen)
    paths = [assignment.column for assignments in assignment_lists for assignment in assignments or ()]
    return merge_schemas(table, _select_paths(source, paths), can_widen)


def after_insert(
    table: Struct, query: Struct, columns: Sequence[str] | None, static: Sequence[str], *, by_name: bool, can_widen: CanWiden = never
) -> Struct:
    """Return the schema after an INSERT of a query with these columns.

    BY NAME, query columns that the table lacks are new. By position, query columns beyond the table's last one are new. `columns` is the
    column list, which names columns of the table alone; `static` has the columns of PARTITION (p = value).
    Raises what `merge_schemas` raises, and PlanError for a new column by position that has the name of an old one.
    """
    if by_name:
        return merge_schemas(table, query, can_widen)
    static_names = {name.lower() for name in static}
    dynamic_names = [name for name in table.names if name.lower() not in static_names]
    target_names = dynamic_names if columns is None else columns
    if len(query) < len(target_names) or (columns is not None and len(query) > len(target_names)):
        return table
    new_fields = query.fields[len(target_names) :]
    _check_names_are_new(new_fields, table)
    renamed_fields = [replace(field, name=name) for field, name in zip(query.fields, target_names, strict=False)]
    old_fields = [field for field in renamed_fields if table.find(field.name) is not None]
    return merge_schemas(table, Struct((*old_fields, *new_fields)), can_widen)


def _check_names_are_new(new_fields: Sequence[Field], table: Struct) -> None:
    """Raise PlanError for a new column by position that has the name of a column of the table."""
    for field in new_fields:
        if table.find(field.name) is not None:
            raise PlanError(
                f"The query's column {backquote(field.name)} lies beyond the table's last column, so it would be a new one, and the "
                f"table has a column of that name. Give it another name with AS, or insert BY NAME."
            )


def merge_schemas(table: Struct, new: Struct, can_widen: CanWiden = never, parent_path: Path = ()) -> Struct:
    """Return `table` with the columns of `new` that it lacks, at any depth. New columns may be NULL, whatever `new` says.

    Raises PlanError when `new` has a name twice, TypeMismatch for a new column of a type that no table holds.
    """
    _check_names_differ(new, parent_path)
    old_fields = []
    for field in table:
        new_field = new.find(field.name)
        if new_field is not None:
            field = replace(field, type=evolved_type(field.type, new_field.type, can_widen, (*parent_path, field.name)))
        old_fields.append(field)
    new_fields = [_new_field(field, parent_path) for field in new if table.find(field.name) is None]
    return Struct((*old_fields, *new_fields))


def _check_names_differ(struct: Struct, parent_path: Path) -> None:
    counts = Counter(field.name.lower() for field in struct)
    for field in struct:
        count = counts[field.name.lower()]
        if count > 1:
            path = _quoted_path((*parent_path, field.name))
            raise PlanError(f"The source has the column {path} {count} times. Select it once, or under another name.")


def with_missing_fields(type_: DataType, target: DataType) -> DataType:
    """Return a type with the struct fields that it lacks and `target` has, at any depth. These fields are nullable."""
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
    own_fields = []
    for field in struct:
        target_field = target.find(field.name)
        if target_field is not None:
            field = replace(field, type=with_missing_fields(field.type, target_field.type))
        own_fields.append(field)
    missing_fields = [replace(field, nullable=True) for field in target if struct.find(field.name) is None]
    return Struct((*own_fields, *missing_fields))


def new_columns(before: Struct, after: Struct, parent_path: Path = ()) -> list[str]:
    """Return `name type` of every column and field that is new in `after` or has another type than in `before`."""
    columns = []
    for field in after:
        path = (*parent_path, field.name)
        old_field = before.find(field.name)
        if old_field is not None and isinstance(old_field.type, Struct) and isinstance(field.type, Struct):
            columns += new_columns(old_field.type, field.type, path)
        elif old_field is None or old_field.type != field.type:
            columns.append(f"{_quoted_path(path)} {sql_name(field.type)}")
    return columns


def _select_paths(source: Struct, paths: Sequence[Path]) -> Struct:
    """Return the source with only those columns and struct fields that one of the paths names."""
    fields = []
    for field in source:
        field_paths = [path[1:] for path in paths if path[0].lower() == field.name.lower()]
        if () in field_paths:
            fields.append(field)
        elif field_paths and isinstance(field.type, Struct):
            fields.append(replace(field, type=_select_paths(field.type, field_paths)))
    return Struct(tuple(fields))


def evolved_type(current: DataType, new: DataType, can_widen: CanWiden = never, path: Path = ()) -> DataType:
    """Return a column's type with the fields that values of type `new` would add to it. `path`: its name, for messages."""
    match current, new:
        case Struct(), Struct():
            return merge_schemas(current, new, can_widen, path)
        case Array(), Array():
            return replace(current, element=evolved_type(current.element, new.element, can_widen, (*path, "element")))
        case Map(), Map():
            key = evolved_type(current.key, new.key, can_widen, (*path, "key"))
            return replace(current, key=key, value=evolved_type(current.value, new.value, can_widen, (*path, "value")))
        case ((Struct() | Array() | Map()), _) | (_, (Struct() | Array() | Map())):
            return current  # an error only when the value is stored: the statement may cast it
    return new if can_widen(current, new) else current


def _new_field(field: Field, parent_path: Path) -> Field:
    type_ = nullable(field.type)
    try:
        arrow_type(type_)
    except ValueError as error:
        path = _quoted_path((*parent_path, field.name))
        advice = "Cast NULL to the type that is meant" if "void" in str(error) else "Cast it to a type that can be stored"
        raise TypeMismatch(f"The new column {path} has the type {sql_name(type_)}, which no table can hold ({error}). {advice}.") from error
    return Field(field.name, type_)


def _quoted_path(path: Path) -> str:
    return ".".join(backquote(part) for part in path)
