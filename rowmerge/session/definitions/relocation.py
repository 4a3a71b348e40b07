"""ALTER TABLE and ALTER VIEW … RENAME TO, and ALTER TABLE … SET LOCATION."""

from __future__ import annotations

from rowmerge.commands.names import FileSource, TableName
from rowmerge.commands.tables import Rename, SetLocation
from rowmerge.errors import PlanError, TableError
from rowmerge.session.names.scope import SessionContext
from rowmerge.table.metadata.schema import sql_name
from rowmerge.table.relations import Relation
from rowmerge.table.snapshots.snapshot import Snapshot
from rowmerge.table.table import Table


def rename(context: SessionContext, command: Rename) -> None:
    """Rename a table or a view.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        AlreadyExists: A table or view has the new name.
        PlanError: The statement names a temporary view.
        SchemaNotFound: The new schema does not exist.
        TableError: ALTER TABLE names a view, ALTER VIEW names a table, or a name is a path.
        TableNotFound: The table or view does not exist.
    """
    context.names.refuse_path(command.name, "RENAME TO")
    context.names.refuse_path(command.new_name, "RENAME TO")
    if context.names.is_temporary_view(command.name):
        raise PlanError(f"{command.name} is a temporary view, which keeps its name. Create another one, and drop this one with DROP VIEW.")
    relation = context.names.existing_relation(command.name)
    if command.view != (relation.kind == "view"):
        raise TableError(f"{relation} is a {relation.kind}. Rename it with ALTER {relation.kind.upper()} … RENAME TO.")
    new_schema, new_name = context.names.locate(command.new_name, default_schema=relation.schema)
    context.names.check_schema(new_schema)
    context.catalog.rename(relation, new_schema, new_name)


def set_location(context: SessionContext, command: SetLocation) -> None:
    """Change the location of a table.

    The name of a Delta table then refers to the Delta table at the location, which must have the same columns and partitioning. New files
    of an Iceberg table then go to the location.

    Args:
        context: The session.
        command: The parsed statement.

    Raises:
        ConfigurationError: The location is invalid, or is in the folder of another table.
        FilesNotFound: The location contains no Delta table.
        TableError: The statement names a path.
        PlanError: The catalog cannot change the location, or the Delta table there has other columns.
    """
    context.names.refuse_path(command.name, "SET LOCATION")
    table = context.names.table(command.name)
    relation = context.names.existing_relation(command.name)
    if relation.format == "delta":
        _check_same_columns(context, relation, table, command)
    else:
        context.tables_by_path.check_location(context.catalog, str(relation), table.location, command.location)
    context.catalog.set_location(relation, command.location)


def _check_same_columns(context: SessionContext, relation: Relation, table: Table, command: SetLocation) -> None:
    """Raise PlanError unless the table at the new location has the columns and the partitioning of the old one."""
    source = FileSource(command.location, "delta", name=TableName((command.location,)))
    other, snapshot = context.table_at_path(source).snapshot(), table.snapshot()
    if _columns(other) != _columns(snapshot) or other.shape.partitioning != snapshot.shape.partitioning:
        problem = f"The table at {command.location} has other columns or another partitioning than {relation}"
        raise PlanError(f"{problem}. Choose a location with the same columns, or drop the table and create it with LOCATION.")


def _columns(snapshot: Snapshot) -> list[tuple[str, str, bool]]:
    """Return the names, the types and the nullability of the columns."""
    return [(field.name, sql_name(field.type), field.nullable) for field in snapshot.schema]
