"""The statement that creates a table or a view as it is now, for SHOW CREATE TABLE."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from rowmerge.catalog import View
from rowmerge.session.answers.relation_rows import CatalogEntry
from rowmerge.session.definitions.partitioning import default_name
from rowmerge.table.metadata.copied_files import OF_ONE_TABLE
from rowmerge.table.metadata.partitioning import VOID, PartitionField
from rowmerge.table.metadata.property_registry import Effect
from rowmerge.table.metadata.schema import CHAR_VARCHAR, Array, DataType, Field, Map, Struct, backquote, sql_name, string_literal
from rowmerge.table.relations import Relation, RelationDescription
from rowmerge.table.snapshots.snapshot import Snapshot

_IDENTITY = "delta.identity."
"""The beginning of the metadata keys with which Delta describes an identity column."""


def create_table_text(description: RelationDescription, snapshot: Snapshot, entry: CatalogEntry) -> str:
    """Return the CREATE TABLE statement of a table, without its rows.

    Args:
        description: The description of the table.
        snapshot: The version of the table that the description describes.
        entry: The entry in the catalog.
    """
    relation, rules = description.relation, description.rules
    columns = [_column_text(field, rules.defaults.get(field.name), rules.generated.get(field.name)) for field in description.columns]
    constraints = [f"CONSTRAINT {backquote(check.name)} CHECK ({check.expression})" for check in rules.checks if check.name]
    constraint_keys = {f"delta.constraints.{check.name}" for check in rules.checks if check.name}
    clauses = [
        f"CREATE TABLE {_quoted(relation, entry.catalog)} (\n  {_lines([*columns, *constraints])})",
        f"USING {relation.format}",
        _partitioned_by(description.partitioning),
        _clustered_by(snapshot),
        _write_order(description),
        "" if entry.is_managed else f"LOCATION {string_literal(description.location)}",
        _comment(description.comment),
        _properties_text(_settable_properties(snapshot, constraint_keys)),
    ]
    return "\n".join(clause for clause in clauses if clause)


def create_view_text(view: View, catalog: str) -> str:
    """Return the CREATE VIEW statement of a view. Its query resolves unqualified names in the schema that is current when it runs.

    Args:
        view: The view.
        catalog: The name of its catalog.
    """
    columns = [f"{backquote(field.name)}{_comment(field.comment, before=' ')}" for field in view.columns]
    clauses = [
        f"CREATE VIEW {_quoted(view.relation, catalog)} (\n  {_lines(columns)})",
        _comment(view.comment),
        _properties_text(view.properties),
        f"AS {view.sql}",
    ]
    return "\n".join(clause for clause in clauses if clause)


def _quoted(relation: Relation, catalog: str) -> str:
    """Return the quoted name of a relation, with its catalog if the schema begins with it."""
    schema = relation.schema.removeprefix(f"{catalog}.")
    parts = (relation.schema, relation.name) if schema == relation.schema else (catalog, schema, relation.name)
    return ".".join(map(backquote, parts))


def _lines(items: Iterable[str]) -> str:
    return ",\n  ".join(items)


def _comment(comment: str | None, before: str = "") -> str:
    return "" if comment is None else f"{before}COMMENT {string_literal(comment)}"


def _column_text(field: Field, default: str | None, generated: str | None) -> str:
    """Return the definition of a column."""
    options = [
        "" if field.nullable else "NOT NULL",
        f"GENERATED ALWAYS AS ({generated})" if generated is not None else "",
        _identity_text(field),
        f"DEFAULT {default}" if default is not None else "",
        _comment(field.comment),
    ]
    return " ".join([backquote(field.name), _type_text(field), *(option for option in options if option)])


def _identity_text(field: Field) -> str:
    """Return `GENERATED … AS IDENTITY (…)` for an identity column, as Delta Lake on Spark writes it. Return an empty text for others."""
    if f"{_IDENTITY}start" not in field.metadata:
        return ""
    kind = "BY DEFAULT" if field.metadata.get(f"{_IDENTITY}allowExplicitInsert") else "ALWAYS"
    start, step = field.metadata[f"{_IDENTITY}start"], field.metadata.get(f"{_IDENTITY}step", 1)
    return f"GENERATED {kind} AS IDENTITY (START WITH {start} INCREMENT BY {step})"


def _type_text(field: Field) -> str:
    """Return the type of a column as in its definition: with the declared lengths of strings, and NOT NULL and comments of fields."""
    declared = field.metadata.get(CHAR_VARCHAR)
    return str(declared) if declared is not None else _nested_type_text(field.type)


def _nested_type_text(type_: DataType) -> str:
    match type_:
        case Array(element, _):
            return f"ARRAY<{_nested_type_text(element)}>"
        case Map(key, value, _):
            return f"MAP<{_nested_type_text(key)}, {_nested_type_text(value)}>"
        case Struct(fields):
            return f"STRUCT<{', '.join(map(_field_text, fields))}>"
    return sql_name(type_).upper()


def _field_text(field: Field) -> str:
    """Return the definition of a field in a struct."""
    nullability = "" if field.nullable else " NOT NULL"
    return f"{backquote(field.name)}: {_type_text(field)}{nullability}{_comment(field.comment, before=' ')}"


def _partitioned_by(fields: Collection[PartitionField]) -> str:
    """Return PARTITIONED BY, without dropped fields, which have the transform void.

    A field has AS if CREATE TABLE would choose another name, or would reject a second field of the column.
    """
    texts: list[str] = []
    columns: set[tuple[str, ...]] = set()
    for field in fields:
        if field.transform.name != VOID:
            needs_name = field.own_name != default_name(field) or field.column in columns
            name = f" AS {backquote(field.own_name)}" if needs_name else ""
            columns.add(field.column)
            texts.append(f"{field.transform.sql('.'.join(map(backquote, field.column)))}{name}")
    return f"PARTITIONED BY ({', '.join(texts)})" if texts else ""


def _clustered_by(snapshot: Snapshot) -> str:
    """Return CLUSTER BY, which only other engines execute."""
    names = (name if snapshot.schema.find(name) else ".".join(map(backquote, name.split("."))) for name in snapshot.clustering_columns)
    texts = [name if "`" in name else backquote(name) for name in names]
    return f"CLUSTER BY ({', '.join(texts)})" if texts else ""


def _write_order(description: RelationDescription) -> str:
    """Return the sort order. The property `write.distribution-mode` has the distribution."""
    return f"WRITE LOCALLY ORDERED BY {', '.join(field.text for field in description.ordering)}" if description.ordering else ""


def _settable_properties(snapshot: Snapshot, constraint_keys: Collection[str]) -> dict[str, str]:
    """Return the properties that a statement can set, without those that other clauses of the statement define."""
    settings = snapshot.settings
    properties = {}
    for name, value in {**snapshot.details.properties, **settings.properties}.items():
        property_ = settings.registry.find(name)
        is_managed = property_ is not None and property_.effect is Effect.MANAGED
        if not is_managed and name not in constraint_keys and not name.startswith(OF_ONE_TABLE):
            properties[name] = value
    return properties


def _properties_text(properties: Mapping[str, str]) -> str:
    pairs = [f"{string_literal(name)} = {string_literal(value)}" for name, value in sorted(properties.items())]
    return f"TBLPROPERTIES (\n  {_lines(pairs)})" if pairs else ""
