"""The grammar of column definitions, constraints and property lists in CREATE TABLE, ALTER TABLE and CREATE VIEW."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from rowmerge.commands.definitions import CheckConstraint, ColumnDefinition
from rowmerge.errors import StatementError
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import at_comma, parse_data_type, parse_expression, parse_parenthesized_expression
from rowmerge.sql.lexing.lexer import Kind

_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE", "CHECK", "REFERENCES"})


def parse_column_definition(cursor: Cursor, *, nested: bool = False) -> ColumnDefinition:
    """Parse `name type` and the column's options in any order. Only CHECK can occur more than once.

    Args:
        cursor: The cursor at the column's name.
        nested: Whether the name can be the path of a field inside a struct, as in ADD COLUMN.

    Raises:
        Unparsable: The text does not follow the grammar, or an option occurs twice.
        UnsupportedStatement: The name is a path although `nested` is false, or the engine does not support an option.
    """
    *struct_path, name = cursor.path("a column's name") if nested else (cursor.identifier("a column's name"),)
    if cursor.next_is("."):
        raise cursor.unsupported(f"A field inside the column `{name}` cannot be defined separately. Redefine the whole struct")
    column = ColumnDefinition(name, parse_data_type(cursor), within=tuple(struct_path))
    seen_options = set[str]()
    while (option_and_column := _parse_column_option(cursor, column)) is not None:
        option, column = option_and_column
        if option in seen_options and option != "CHECK":
            raise cursor.error(f"The column `{name}` has {option} twice. Keep one", cursor.token(-1))
        seen_options.add(option)
    return column


def begins_constraint(cursor: Cursor) -> bool:
    """Return whether the definition of a table constraint comes next rather than the definition of a column."""
    return cursor.key() in _CONSTRAINTS and (cursor.key(1) in ("KEY", "(") or cursor.key(2) in _CONSTRAINTS)


def parse_constraint(cursor: Cursor) -> CheckConstraint:
    """Parse `[CONSTRAINT name] CHECK (expression) [ENFORCED]`.

    Raises:
        Unparsable: The text does not follow the grammar.
        UnsupportedStatement: The constraint is a key, which neither Delta nor Iceberg enforces, or is NOT ENFORCED.
    """
    name = cursor.identifier("a constraint's name") if cursor.accept("CONSTRAINT") else None
    if not cursor.accept("CHECK"):
        raise _unsupported_key_error(cursor)
    condition = parse_parenthesized_expression(cursor, "a condition")
    if cursor.next_is("NOT", "ENFORCED"):
        raise cursor.unsupported("A CHECK constraint is always enforced. Leave NOT ENFORCED out")
    while cursor.accept_any("ENFORCED", "RELY", "NORELY"):
        pass
    return CheckConstraint(name, condition)


def _unsupported_key_error(cursor: Cursor) -> StatementError:
    """Return the error for a constraint that is not a CHECK constraint."""
    if cursor.key() not in _CONSTRAINTS:
        return cursor.expected("CHECK")
    constraint = cursor.key() + (" KEY" if cursor.key() in ("PRIMARY", "FOREIGN") else "")
    advice = "Leave it out; NOT NULL and CHECK are enforced, and a MERGE keeps its keys unique"
    return cursor.unsupported(f"{constraint} is not supported, because it would not be enforced. {advice}")


def _parse_column_option(cursor: Cursor, column: ColumnDefinition) -> tuple[str, ColumnDefinition] | None:
    """Parse one option of a column. Return the option's name and the column with that option, or None if no option comes next."""
    if cursor.accept("NOT", "NULL") or cursor.accept("!", "NULL"):
        return "NOT NULL", replace(column, nullable=False)
    if cursor.accept("COMMENT"):
        return "COMMENT", replace(column, comment=cursor.string("a comment"))
    if cursor.accept("DEFAULT"):
        return "DEFAULT", replace(column, default=parse_expression(cursor, "a default value", _default_ends))
    if cursor.accept("GENERATED"):
        return "GENERATED", _parse_generated(cursor, column)
    if cursor.key() in _CONSTRAINTS:
        return "CHECK", replace(column, checks=(*column.checks, parse_constraint(cursor)))
    return None


def _default_ends(cursor: Cursor) -> bool:
    """Return whether the default value of a column ends here because another option, a constraint, FIRST, AFTER or a comma comes next."""
    if at_comma(cursor) or cursor.key() in ("GENERATED", "AFTER", "FIRST"):
        return cursor.key(1) != "("
    if cursor.next_is("NOT", "NULL"):
        return cursor.key(-1) != "IS"
    return begins_constraint(cursor) or (cursor.next_is("COMMENT") and cursor.token(1).kind is Kind.STRING)


def _parse_generated(cursor: Cursor, column: ColumnDefinition) -> ColumnDefinition:
    """Parse `ALWAYS AS (expression)` or `ALWAYS|BY DEFAULT AS IDENTITY [(…)]` after GENERATED."""
    if not cursor.accept("BY", "DEFAULT"):
        cursor.expect("ALWAYS")
    cursor.expect("AS")
    if not cursor.accept("IDENTITY"):
        return replace(column, generated=parse_parenthesized_expression(cursor, "an expression"))
    if cursor.next_is("("):
        cursor.skip_group()
    return replace(column, identity=True)


def parse_properties(cursor: Cursor, entry_kind: str = "The property") -> dict[str, str]:
    """Parse `('key' = 'value', key.with.dots = true, 'key' 1)`. Return numbers and booleans as text, as Spark does.

    Args:
        cursor: The cursor at the parenthesis.
        entry_kind: The noun for an entry, with which error messages begin.
    """

    def read_value(key: str) -> str:
        if not cursor.accept_any("=", "==") and cursor.key() in (",", ")"):
            raise cursor.error(f"{entry_kind} `{key}` has no value. Write {key} = '…'")
        return _parse_literal(cursor, f"a value for `{key}`")

    return _parse_entries(cursor, read_value, entry_kind)


def parse_property_key(cursor: Cursor) -> str:
    """Parse the key of a property: a string, or identifiers separated by dots."""
    return cursor.string("a property's key") if cursor.token().kind is Kind.STRING else ".".join(cursor.path("a property's key"))


def parse_options(cursor: Cursor) -> dict[str, str]:
    """Parse the list after OPTIONS. Unlike in a property list, a value can be an expression, whose text is then the option's value."""

    def read_value(key: str) -> str:
        cursor.accept_any("=", "==")
        if cursor.key(1) in (",", ")"):
            return _parse_literal(cursor, "a value")
        return str(parse_expression(cursor, f"a value for `{key}`", at_comma))

    return _parse_entries(cursor, read_value, "The option")


def _parse_entries(cursor: Cursor, read_value: Callable[[str], str], entry_kind: str) -> dict[str, str]:
    """Parse `(key value, …)`. `read_value` parses the value of a given key. Raise Unparsable if a key occurs twice."""
    entries: dict[str, str] = {}

    def read_entry() -> None:
        token = cursor.token()
        key = parse_property_key(cursor)
        if key in entries:
            raise cursor.error(f"{entry_kind} `{key}` occurs twice in the list. Keep one", token)
        entries[key] = read_value(key)

    cursor.parenthesized(read_entry)
    return entries


def _parse_literal(cursor: Cursor, description: str) -> str:
    """Parse a number, a boolean or a string, and return its text."""
    token = cursor.token()
    if token.kind is Kind.NUMBER:
        cursor.index += 1
        return token.text
    return cursor.accept_any("TRUE", "FALSE").lower() or cursor.string(description)
