"""Column definitions and property lists, as CREATE TABLE, ALTER TABLE and CREATE VIEW share them."""

from __future__ import annotations

from dataclasses import dataclass, field

from rowmerge.commands.definitions import CheckConstraint, ColumnDefinition
from rowmerge.commands.names import SqlText
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import data_type, expression, until_comma
from rowmerge.sql.lexing.lexer import Kind

_CONSTRAINTS = frozenset({"CONSTRAINT", "PRIMARY", "FOREIGN", "UNIQUE", "CHECK", "REFERENCES"})


@dataclass
class _Options:
    nullable: bool = True
    comment: str | None = None
    default: SqlText | None = None
    generated: SqlText | None = None
    identity: bool = False
    checks: list[CheckConstraint] = field(default_factory=list)


def column_definition(cursor: Cursor, *, nested: bool = False) -> ColumnDefinition:
    """`name type [NOT NULL] [COMMENT '…'] [DEFAULT …] [GENERATED ALWAYS AS …] [[CONSTRAINT …] CHECK (…)]`, the options in any order.

    With `nested`, a path names a field inside a struct.
    """
    *within, name = cursor.path("a column's name") if nested else (cursor.identifier("a column's name"),)
    if cursor.sees("."):
        raise cursor.unsupported(f"A field inside the column `{name}` cannot be defined on its own. Define the whole struct anew")
    type_ = data_type(cursor)
    options, seen = _Options(), set[str]()
    while option := _option(cursor, options):
        if option in seen and option != "CHECK":
            raise cursor.error(f"The column `{name}` has {option} twice. Keep one", cursor.token(-1))
        seen.add(option)
    return ColumnDefinition(
        name,
        type_,
        options.nullable,
        options.comment,
        options.default,
        options.generated,
        options.identity,
        tuple(options.checks),
        tuple(within),
    )


def begins_constraint(cursor: Cursor) -> bool:
    """Whether a constraint of the table, not a column, is defined here."""
    return cursor.key() in _CONSTRAINTS and (cursor.key(1) in ("KEY", "(") or cursor.key(2) in _CONSTRAINTS)


def constraint(cursor: Cursor) -> CheckConstraint:
    """`[CONSTRAINT name] CHECK (expression) [ENFORCED]`; keys, which no table here enforces, are refused by name."""
    name = cursor.identifier("a constraint's name") if cursor.accept("CONSTRAINT") else None
    if not cursor.sees("CHECK"):
        if cursor.key() not in _CONSTRAINTS:
            raise cursor.expected("CHECK")
        word = cursor.key() + (" KEY" if cursor.key() in ("PRIMARY", "FOREIGN") else "")
        raise cursor.unsupported(
            f"{word} is not supported: nothing would enforce it. Leave it out; NOT NULL and CHECK are enforced, "
            f"and a MERGE keeps its keys unique"
        )
    cursor.expect("CHECK", "(")
    expression_ = expression(cursor, "a condition", lambda c: False)
    cursor.expect(")")
    if cursor.sees("NOT", "ENFORCED"):
        raise cursor.unsupported("A CHECK constraint is always enforced. Leave NOT ENFORCED out")
    while cursor.accept_any("ENFORCED", "RELY", "NORELY"):
        pass
    return CheckConstraint(name, expression_)


def _option(cursor: Cursor, options: _Options) -> str:
    """Read one option of a column and say which, or stay and return an empty text."""
    if cursor.accept("NOT", "NULL") or cursor.accept("!", "NULL"):
        options.nullable = False
        return "NOT NULL"
    if cursor.accept("COMMENT"):
        options.comment = cursor.string("a comment")
        return "COMMENT"
    if cursor.accept("DEFAULT"):
        options.default = expression(cursor, "a default value", _option_follows)
        return "DEFAULT"
    if cursor.accept("GENERATED"):
        _generated(cursor, options)
        return "GENERATED"
    if cursor.key() in _CONSTRAINTS:
        options.checks.append(constraint(cursor))
        return "CHECK"
    return ""


def _option_follows(cursor: Cursor) -> bool:
    if until_comma(cursor) or cursor.sees("GENERATED") or cursor.sees("AFTER") or cursor.sees("FIRST"):
        return cursor.key(1) != "("
    if cursor.sees("NOT", "NULL"):
        return cursor.key(-1) != "IS"
    return begins_constraint(cursor) or (cursor.sees("COMMENT") and cursor.token(1).kind is Kind.STRING)


def _generated(cursor: Cursor, options: _Options) -> None:
    if not cursor.accept("BY", "DEFAULT"):
        cursor.expect("ALWAYS")
    cursor.expect("AS")
    if cursor.accept("IDENTITY"):
        options.identity = True
        if cursor.sees("("):
            cursor.skip_group()
        return
    cursor.expect("(")
    options.generated = expression(cursor, "an expression", lambda c: False)
    cursor.expect(")")


# ------------------------------------------------------------------ properties


def properties(cursor: Cursor, what: str) -> dict[str, str]:
    """`('key' = 'value', key.with.dots = true, 'key' 1)`. Numbers and booleans become text, as in Spark."""
    entries: dict[str, str] = {}

    def entry() -> None:
        key = _new_key(cursor, entries, what)
        if not cursor.accept_any("=", "==") and cursor.key() in (",", ")"):
            raise cursor.error(f"{what} `{key}` has no value. Write {key} = '…'")
        entries[key] = _value(cursor, f"a value for `{key}`")

    cursor.listed(entry)
    return entries


def property_keys(cursor: Cursor) -> tuple[str, ...]:
    """`('key', key.with.dots, …)`."""
    return cursor.listed(lambda: property_key(cursor))


def property_key(cursor: Cursor) -> str:
    if cursor.token().kind is Kind.STRING:
        return cursor.string("a property's key")
    return ".".join(cursor.path("a property's key"))


def options(cursor: Cursor) -> dict[str, str]:
    """OPTIONS (…): like properties, but a value may be an expression, whose text is kept."""
    entries: dict[str, str] = {}

    def entry() -> None:
        key = _new_key(cursor, entries, "The option")
        cursor.accept_any("=", "==")
        alone = cursor.key(1) in (",", ")")
        entries[key] = _value(cursor, "a value") if alone else str(expression(cursor, f"a value for `{key}`", until_comma))

    cursor.listed(entry)
    return entries


def _new_key(cursor: Cursor, entries: dict[str, str], what: str) -> str:
    token = cursor.token()
    key = property_key(cursor)
    if key in entries:
        raise cursor.error(f"{what} `{key}` stands twice in one list. Keep one", token)
    return key


def _value(cursor: Cursor, what: str) -> str:
    token = cursor.token()
    if token.kind is Kind.NUMBER:
        cursor.at += 1
        return token.text
    if word := cursor.accept_any("TRUE", "FALSE"):
        return word.lower()
    return cursor.string(what)
