"""What a table's schema becomes when a statement may add to it: new columns and struct fields come last, old ones stay as they are.

Follows delta-spark: which columns a MERGE needs (ResolveDeltaMergeInto), how two schemas become one (SchemaMergingUtils). Names are
compared without regard to case, whatever the session says, because no table can hold two that differ in case alone; the table's spelling
stays.

A RowPlan of a statement that adds columns has two schemas. The target is read with the old one, and rows are written with the new one
(`Snapshot.evolved`). One commit brings the rows and the schema. Old files stay, and readers return NULL for a column that a file lacks.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from rowmerge.commands.rows import DeleteAction, Match, When
from rowmerge.errors import PlanError, TypeMismatch
from rowmerge.table.metadata.schema import Array, DataType, Field, Map, Struct, arrow_type, backquote, nullable, sql_name

CanWiden = Callable[[DataType, DataType], bool]
"""Given a column's type and that of new values, neither with parts: whether the column becomes one of the second."""

Path = tuple[str, ...]


def never(_old: DataType, _new: DataType) -> bool:
    """Columns keep their types: values are cast to them."""
    return False


def after_merge(table: Struct, source: Struct, clauses: Sequence[When], can_widen: CanWiden = never) -> Struct:
    """The schema after a MERGE whose source has these columns.

    `UPDATE SET *` and `INSERT *` bring every column of the source; without them, an assignment brings the source's column (or field of a
    struct) of the assigned name, whatever its value is. WHEN NOT MATCHED BY SOURCE sees no source and brings nothing.
    Raises what `merged` raises.
    """
    actions = [when.action for when in clauses if when.match is not Match.NOT_MATCHED_BY_SOURCE]
    lists = [action.assignments for action in actions if not isinstance(action, DeleteAction)]
    if any(assignments is None for assignments in lists):
        return merged(table, source, can_widen)
    paths = [assignment.column for assignments in lists for assignment in assignments or ()]
    return merged(table, _named(source, paths), can_widen)


def after_insert(
    table: Struct, query: Struct, columns: Sequence[str] | None, static: Sequence[str], *, by_name: bool, can_widen: CanWiden = never
) -> Struct:
    """The schema after an INSERT of a query with these columns.

    BY NAME, names that the table lacks are new columns; by position, columns beyond the table's last one are, under the names that the
    query gives them. `columns` is a column list, which names columns of the table alone; `static` are those of PARTITION (p = value).
    Raises what `merged` raises, and PlanError for a new column by position that has the name of an old one.
    """
    if by_name:
        return merged(table, query, can_widen)
    taken = {name.lower() for name in static}
    wanted = list(columns) if columns is not None else [name for name in table.names if name.lower() not in taken]
    if len(query) < len(wanted) or (columns is not None and len(query) > len(wanted)):
        return table
    beyond = query.fields[len(wanted) :]
    for field in beyond:
        if table.find(field.name) is not None:
            raise PlanError(
                f"The query's column {backquote(field.name)} lies beyond the table's last column, so it would be a new one, and the "
                f"table has a column of that name. Give it another name with AS, or insert BY NAME."
            )
    known = [replace(field, name=name) for field, name in zip(query.fields, wanted, strict=False) if table.find(name) is not None]
    return merged(table, Struct((*known, *beyond)), can_widen)


def merged(table: Struct, new: Struct, can_widen: CanWiden = never, above: Path = ()) -> Struct:
    """`table` with the columns of `new` that it lacks, at any depth of structs, arrays and maps; new ones may be NULL, whatever `new` says.

    Raises PlanError when `new` has a name twice, TypeMismatch for a new column of a type that no table holds.
    """
    lower = [field.name.lower() for field in new]
    for field in new:
        if lower.count(field.name.lower()) > 1:
            raise PlanError(
                f"The source has the column {_shown((*above, field.name))} {lower.count(field.name.lower())} times. "
                f"Select it once, or under another name."
            )
    fields = []
    for field in table:
        given = new.find(field.name)
        kept = field if given is None else replace(field, type=_merged_type(field.type, given.type, can_widen, (*above, field.name)))
        fields.append(kept)
    fields += [_new_field(field, above) for field in new if table.find(field.name) is None]
    return Struct(tuple(fields))


def completed(given: DataType, wanted: DataType) -> DataType:
    """The type of a value once the struct fields that it lacks are there, as NULL."""
    match given, wanted:
        case Struct(), Struct():
            fields = []
            for field in given:
                known = wanted.find(field.name)
                fields.append(field if known is None else replace(field, type=completed(field.type, known.type)))
            fields += [replace(field, nullable=True) for field in wanted if given.find(field.name) is None]
            return Struct(tuple(fields))
        case Array(), Array():
            return replace(given, element=completed(given.element, wanted.element))
        case Map(), Map():
            return replace(given, key=completed(given.key, wanted.key), value=completed(given.value, wanted.value))
    return given


def new_columns(before: Struct, after: Struct, above: Path = ()) -> list[str]:
    """`name type` of every column and field that `after` has and `before` lacks, and of every one whose type is another."""
    found = []
    for field in after:
        path = (*above, field.name)
        old = before.find(field.name)
        if old is None:
            found.append(f"{_shown(path)} {sql_name(field.type)}")
        elif isinstance(old.type, Struct) and isinstance(field.type, Struct):
            found += new_columns(old.type, field.type, path)
        elif old.type != field.type:
            found.append(f"{_shown(path)} {sql_name(field.type)}")
    return found


def _named(source: Struct, paths: Sequence[Path]) -> Struct:
    """The source's columns that one of these paths names, as a whole or field by field."""
    fields = []
    for field in source:
        inside = [path[1:] for path in paths if path[0].lower() == field.name.lower()]
        if any(not path for path in inside):
            fields.append(field)
        elif inside and isinstance(field.type, Struct):
            fields.append(replace(field, type=_named(field.type, inside)))
    return Struct(tuple(fields))


def evolved_type(current: DataType, new: DataType) -> DataType:
    """A column's type with the fields that values of type `new` would add to it."""
    return _merged_type(current, new, never, ())


def _merged_type(current: DataType, new: DataType, can_widen: CanWiden, path: Path) -> DataType:
    match current, new:
        case Struct(), Struct():
            return merged(current, new, can_widen, path)
        case Array(), Array():
            return replace(current, element=_merged_type(current.element, new.element, can_widen, (*path, "element")))
        case Map(), Map():
            key = _merged_type(current.key, new.key, can_widen, (*path, "key"))
            return replace(current, key=key, value=_merged_type(current.value, new.value, can_widen, (*path, "value")))
    # What does not go together is told when the value is stored: it may have been cast in the statement.
    leaves = not isinstance(current, Struct | Array | Map) and not isinstance(new, Struct | Array | Map)
    return new if leaves and can_widen(current, new) else current


def _new_field(field: Field, above: Path) -> Field:
    type_ = nullable(field.type)
    try:
        arrow_type(type_)
    except ValueError as error:
        advice = "Cast NULL to the type that is meant" if "void" in str(error) else "Cast it to a type that can be stored"
        raise TypeMismatch(
            f"The new column {_shown((*above, field.name))} has the type {sql_name(type_)}, which no table can hold ({error}). {advice}."
        ) from error
    return Field(field.name, type_)


def _shown(path: Path) -> str:
    return ".".join(backquote(part) for part in path)
