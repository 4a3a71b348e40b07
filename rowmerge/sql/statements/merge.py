"""The grammar of MERGE INTO in Spark and Delta."""

from __future__ import annotations

from collections.abc import Callable

from rowmerge.commands.names import SqlText, TableName, count_qualifier_parts
from rowmerge.commands.rows import Action, Assignment, DeleteAction, InsertAction, Match, Merge, UpdateAction, When
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import at_comma, parse_alias, parse_expression, parse_relation

_INSERT_ERROR = "INSERT is allowed only in WHEN NOT MATCHED, because the target already has this row. Write UPDATE or DELETE"
_CHANGE_ERROR = "WHEN NOT MATCHED allows only INSERT, because the target has no row to change. Write INSERT, or WHEN NOT MATCHED BY SOURCE"


def parse_merge(cursor: Cursor, with_clause: SqlText | None = None) -> Merge:
    """Parse `MERGE [WITH SCHEMA EVOLUTION] INTO target USING source ON condition WHEN …`.

    Args:
        cursor: The cursor after MERGE.
        with_clause: The WITH list before MERGE, or None.
    """
    schema_evolution = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    cursor.expect("INTO")
    target = cursor.table_name("the table to merge into")
    target_alias = parse_alias(cursor)
    cursor.expect("USING")
    source = parse_relation(cursor, "the source of the MERGE")
    source_alias = parse_alias(cursor)
    has_column_list = source_alias is not None and cursor.next_is("(")
    source_columns = cursor.identifiers("a column's name") if has_column_list else ()
    cursor.expect("ON")
    on = parse_expression(cursor, "a condition after ON", _at_when)
    clauses = _parse_when_clauses(cursor, qualifier_of(target, target_alias))
    return Merge(target, target_alias, source, source_alias, source_columns, on, clauses, schema_evolution, with_clause)


def qualifier_of(target: TableName, target_alias: str | None) -> tuple[str, ...]:
    """Return the parts of the qualifier of the target's columns: the target's alias or, without an alias, the name of the table.

    The last parts of the table's name also qualify columns.

    Args:
        target: The name of the table that the statement changes.
        target_alias: The alias of that table, or None.
    """
    return target.parts if target_alias is None else (target_alias,)


def parse_assignments(cursor: Cursor, qualifier: tuple[str, ...], ends: Callable[[Cursor], bool]) -> tuple[Assignment, ...]:
    """Parse the SET list `column = value, …`.

    Args:
        cursor: The cursor at the first column.
        qualifier: The parts of the target's alias or name, which can precede a column name.
        ends: A function that returns whether a value ends before the next token.

    Raises:
        Unparsable: The list does not follow the grammar.
    """

    def parse_assignment() -> Assignment:
        column = _parse_column(cursor, qualifier)
        if not cursor.accept_any("=", "=="):
            raise cursor.expected("= and a value")
        return Assignment(column, parse_expression(cursor, f"a value for `{'.'.join(column)}`", ends))

    return cursor.comma_separated(parse_assignment)


def _parse_column(cursor: Cursor, qualifier: tuple[str, ...]) -> tuple[str, ...]:
    """Parse the path of a column of the target, and return it without the qualifier."""
    path = cursor.path("a column of the target")
    return path[count_qualifier_parts(path, qualifier) :]


def _at_when(cursor: Cursor) -> bool:
    return cursor.next_is_keyword("WHEN")


def _parse_when_clauses(cursor: Cursor, qualifier: tuple[str, ...]) -> tuple[When, ...]:
    """Parse one or more WHEN clauses up to the end of the statement."""
    clauses: list[When] = []
    while not cursor.at_end:
        clauses.append(_parse_when(cursor, clauses, qualifier))
    if not clauses:
        raise cursor.error("A MERGE needs at least one WHEN clause. Add WHEN MATCHED THEN … or WHEN NOT MATCHED THEN …")
    return tuple(clauses)


def _parse_when(cursor: Cursor, previous_clauses: list[When], qualifier: tuple[str, ...]) -> When:
    """Parse one `WHEN … [AND condition] THEN action`. Only the last clause of each kind can omit the condition."""
    when_token = cursor.token()
    if not cursor.accept("WHEN"):
        raise cursor.expected("WHEN or the end of the statement")
    match = _parse_match(cursor)
    unconditional_matches = [clause.match for clause in previous_clauses if clause.condition is None]
    if match in unconditional_matches:
        raise cursor.error(f"Only the last {match.value} clause can omit the condition. Add AND … to the clauses before it", when_token)
    condition = None
    if cursor.accept("AND"):
        condition = parse_expression(cursor, "a condition after AND", lambda c: c.next_is_keyword("THEN", "WHEN"))
    cursor.expect("THEN")
    return When(match, _parse_action(cursor, match, qualifier), condition)


def _parse_match(cursor: Cursor) -> Match:
    """Parse `MATCHED`, `NOT MATCHED [BY TARGET]` or `NOT MATCHED BY SOURCE`."""
    negated = bool(cursor.accept_any("NOT", "!"))
    if not cursor.accept("MATCHED"):
        raise cursor.expected("MATCHED" if negated else "MATCHED or NOT MATCHED")
    if not cursor.accept("BY"):
        return Match.NOT_MATCHED if negated else Match.MATCHED
    if not negated:
        raise cursor.error("WHEN MATCHED has no BY. Write WHEN MATCHED, or WHEN NOT MATCHED BY SOURCE", cursor.token(-1))
    return Match.NOT_MATCHED if cursor.expect_any("SOURCE or TARGET") == "TARGET" else Match.NOT_MATCHED_BY_SOURCE


def _parse_action(cursor: Cursor, match: Match, qualifier: tuple[str, ...]) -> Action:
    """Parse the action after THEN in a WHEN clause: INSERT for source rows without a target row, otherwise UPDATE or DELETE.

    `match`: the kind of the WHEN clause, which determines the allowed actions. `qualifier`: the parts of the target's alias or name, which
    can precede an assigned column.
    """
    verb_token = cursor.token()
    verb = cursor.accept_any("UPDATE", "DELETE", "INSERT")
    allowed_verbs = ("INSERT",) if match is Match.NOT_MATCHED else ("UPDATE", "DELETE")
    if not verb:
        raise cursor.expected(" or ".join(allowed_verbs))
    if verb not in allowed_verbs:
        raise cursor.error(_INSERT_ERROR if verb == "INSERT" else _CHANGE_ERROR, verb_token)
    if verb == "INSERT":
        return _parse_insert(cursor, qualifier)
    return DeleteAction() if verb == "DELETE" else _parse_update(cursor, match, qualifier)


def _parse_update(cursor: Cursor, match: Match, qualifier: tuple[str, ...]) -> UpdateAction:
    """Parse `SET *` or `SET column = value, …` after UPDATE."""
    cursor.expect("SET")
    if match is Match.NOT_MATCHED_BY_SOURCE and cursor.next_is("*"):
        raise cursor.error("UPDATE SET * needs a source row, and WHEN NOT MATCHED BY SOURCE has none. List the columns: SET column = value")
    if _accept_star(cursor, "UPDATE SET"):
        return UpdateAction(None)
    return UpdateAction(parse_assignments(cursor, qualifier, lambda c: at_comma(c) or _at_when(c)))


def _parse_insert(cursor: Cursor, qualifier: tuple[str, ...]) -> InsertAction:
    """Parse `*` or `(columns) VALUES (values)` after INSERT."""
    if _accept_star(cursor, "INSERT"):
        return InsertAction(None)
    if cursor.next_is("VALUES"):
        raise cursor.unsupported("INSERT VALUES without column names depends on the columns' order. List them: INSERT (a, b) VALUES (…)")
    columns = cursor.parenthesized(lambda: _parse_column(cursor, qualifier))
    cursor.expect("VALUES")
    values_token = cursor.token()
    values = cursor.parenthesized(lambda: parse_expression(cursor, "a value", at_comma))
    if len(columns) != len(values):
        reason = f"INSERT has {len(columns)} column(s) and {len(values)} value(s). Write one value for each column"
        raise cursor.error(reason, values_token)
    return InsertAction(tuple(map(Assignment, columns, values)))


def _accept_star(cursor: Cursor, action: str) -> bool:
    """Step over `*` if it comes next, and return whether it does. Raise an error for `* EXCEPT`."""
    if not cursor.accept("*"):
        return False
    if cursor.next_is("EXCEPT"):
        raise cursor.unsupported(f"{action} * EXCEPT is not supported. List the columns instead")
    return True
