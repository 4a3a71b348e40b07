"""UPDATE, DELETE, INSERT, TRUNCATE, and the WITH list that may stand before a row-level statement."""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass, replace

from rowmerge.commands.names import SqlText
from rowmerge.commands.rows import Delete, Insert, Merge, OverwriteMode, Truncate, Update
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import (
    accept_with_list,
    at_comma,
    begins_query,
    begins_separate_query,
    parse_alias,
    parse_expression,
    parse_last_expression,
)
from rowmerge.sql.lexing.lexer import Kind
from rowmerge.sql.statements.columns import parse_properties
from rowmerge.sql.statements.merge import parse_assignments, parse_merge, qualifier_of

_NO_JOIN = "{verb} from another table is not supported. Use MERGE INTO … USING the other table ON … WHEN MATCHED THEN {verb}"
_OVERWRITE_MODE_OPTIONS = ("partitionoverwritemode", "overwrite-mode")
"""The option of Delta's writer, and of Iceberg's."""
_Partition = tuple[tuple[str, SqlText | None], ...]
"""The columns of a PARTITION clause with their values. A column without a value is dynamic."""


def parse_with_statement(cursor: Cursor) -> Merge | Update | Delete | Insert | None:
    """Parse a WITH list and the row-level statement after it. Return None where WITH begins a query."""
    if not accept_with_list(cursor):
        return None
    with_clause = cursor.text_from(0)
    match cursor.key():
        case "MERGE":
            return parse_merge(cursor, with_clause)
        case "INSERT":
            return parse_insert(cursor)
        case "FROM":
            refuse_from_insert(cursor)
        case "UPDATE" if cursor.token(1).is_name:
            return parse_update(cursor, with_clause)
        case "DELETE" if cursor.token(1).is_name:
            return parse_delete(cursor, with_clause)
    return None


def parse_update(cursor: Cursor, with_clause: SqlText | None = None) -> Update:
    """Parse `UPDATE table [[AS] alias] SET column = value, … [WHERE condition]`."""
    cursor.expect("UPDATE")
    target = cursor.table_name()
    alias = parse_alias(cursor)
    cursor.expect("SET")
    assignments = parse_assignments(cursor, qualifier_of(target, alias), _assignment_ends)
    if cursor.next_is("FROM"):
        raise cursor.unsupported(_NO_JOIN.format(verb="UPDATE"))
    return Update(target, alias, assignments, _parse_optional_where(cursor, "the assignments"), with_clause)


def parse_delete(cursor: Cursor, with_clause: SqlText | None = None) -> Delete:
    """Parse `DELETE FROM table [[AS] alias] [WHERE condition]`."""
    cursor.expect("DELETE", "FROM")
    target = cursor.table_name()
    alias = parse_alias(cursor)
    if cursor.next_is("USING"):
        raise cursor.unsupported(_NO_JOIN.format(verb="DELETE"))
    return Delete(target, alias, _parse_optional_where(cursor, "the table"), with_clause)


def parse_truncate(cursor: Cursor) -> Truncate | None:
    """Parse `TRUNCATE TABLE table [PARTITION (column = value, …)]`."""
    cursor.expect("TRUNCATE", "TABLE")
    target = cursor.table_name()
    partition = []
    for column, value in _parse_optional_partition(cursor):
        if value is None:
            raise cursor.error(f"TRUNCATE TABLE … PARTITION needs a value for `{column}`. Write {column} = …, or leave it out")
        partition.append((column, value))
    cursor.expect_end("the partition" if partition else "the table")
    return Truncate(target, tuple(partition))


def parse_insert(cursor: Cursor) -> Insert | None:
    """Parse `INSERT … INTO|OVERWRITE …`. A WITH list before it becomes part of the query. Return None for OVERWRITE DIRECTORY."""
    insert_index = cursor.index
    cursor.expect("INSERT")
    schema_evolution = cursor.accept("WITH", "SCHEMA", "EVOLUTION")
    mode = cursor.accept_any("INTO", "OVERWRITE")
    if not mode:
        raise cursor.expected("INTO or OVERWRITE")
    if mode == "OVERWRITE" and _at_directory(cursor):
        return None
    cursor.accept_before_name("TABLE")
    return replace(_parse_insert_target(cursor, mode, insert_index), schema_evolution=schema_evolution)


def _parse_insert_target(cursor: Cursor, mode: str, insert_index: int) -> Insert:
    """Parse the target, its clauses and the query of an INSERT `mode` (INTO or OVERWRITE). INSERT is the token `insert_index`."""
    target = cursor.table_name()
    overwrite_mode = _parse_overwrite_mode(cursor, mode)
    alias = _parse_target_alias(cursor)
    partition = _parse_optional_partition(cursor)
    if_not_exists = _accept_if_not_exists(cursor, mode, partition)
    columns, by_name = _parse_columns(cursor)
    replaced_rows = _parse_replaced_rows(cursor, mode, partition)
    if alias is not None and replaced_rows.on is None:
        raise cursor.error(f"The alias `{alias}` is for REPLACE ON. Leave it out, or write REPLACE ON and a condition")
    if not begins_query(cursor):
        raise cursor.expected("a query (SELECT, VALUES, TABLE, WITH, FROM or a query in parentheses)")
    query_alias = _cut_query_alias(cursor) if replaced_rows.on is not None else None
    return Insert(
        target,
        columns,
        by_name,
        query=_parse_query_after_with_list(cursor, insert_index),
        overwrite=mode == "OVERWRITE",
        partition=partition,
        replace_where=replaced_rows.where,
        replace_using=replaced_rows.using,
        replace_on=replaced_rows.on,
        alias=alias,
        query_alias=query_alias,
        if_not_exists=if_not_exists,
        overwrite_mode=overwrite_mode,
    )


def refuse_from_insert(cursor: Cursor) -> None:
    """Raise UnsupportedStatement for Hive's `FROM … INSERT …`, which writes one query into several tables. Other FROM are queries."""
    for index, (key, following) in enumerate(itertools.pairwise(cursor.tokens.keys)):
        if key == "INSERT" and following in ("INTO", "OVERWRITE"):
            reason = "INSERT after FROM is not supported. Write one INSERT INTO … SELECT … FROM … for each table"
            raise cursor.unsupported(reason, cursor.tokens[index])


def _assignment_ends(cursor: Cursor) -> bool:
    """Return whether the value of an assignment ends here. FROM after DISTINCT is part of IS DISTINCT FROM."""
    return at_comma(cursor) or cursor.next_is_keyword({"WHERE"}) or (cursor.next_is_keyword({"FROM"}) and cursor.key(-1) != "DISTINCT")


def _parse_optional_where(cursor: Cursor, preceding: str) -> SqlText | None:
    """Parse `[WHERE condition]` at the end of the statement, after its part `preceding`."""
    if cursor.at_end:
        return None
    if not cursor.accept("WHERE"):
        raise cursor.expected(f"WHERE or the end of the statement after {preceding}")
    return parse_last_expression(cursor, "a condition after WHERE")


def _at_directory(cursor: Cursor) -> bool:
    """Return whether `[LOCAL] DIRECTORY` comes next rather than a table of this name."""
    ahead = 1 if cursor.next_is("LOCAL", "DIRECTORY") else 0
    following = cursor.token(ahead + 1)
    return cursor.key(ahead) == "DIRECTORY" and (following.kind is Kind.STRING or following.key in ("USING", "OPTIONS", "ROW", "STORED"))


def _parse_optional_partition(cursor: Cursor) -> _Partition:
    """Parse `[PARTITION (column [= value], …)]`."""

    def read_entry() -> tuple[str, SqlText | None]:
        column = cursor.identifier("a partition column")
        return column, parse_expression(cursor, f"a value for `{column}`", at_comma) if cursor.accept_any("=", "==") else None

    if not cursor.next_is("PARTITION", "("):
        return ()
    cursor.index += 1
    return cursor.parenthesized(read_entry)


def _parse_overwrite_mode(cursor: Cursor, mode: str) -> OverwriteMode | None:
    """Parse `[WITH ('partitionOverwriteMode' = 'dynamic'|'static')]`, with Delta's or Iceberg's name of the option."""
    if not cursor.next_is("WITH", "("):
        return None
    with_token = cursor.token()
    cursor.index += 1
    options = parse_properties(cursor, "The option")
    unsupported_options = [option for option in options if option.lower() not in _OVERWRITE_MODE_OPTIONS]
    if mode == "INTO":
        unsupported_options = unsupported_options or list(options)
    if unsupported_options:
        raise cursor.unsupported(f"The option `{unsupported_options[0]}` of INSERT {mode} is not supported. Leave it out", with_token)
    values = {value.lower() for value in options.values()}
    if values not in ({"dynamic"}, {"static"}):
        raise cursor.error(f"`{next(iter(options))}` is dynamic or static. Set it to one of them", with_token)
    return OverwriteMode(values.pop())


def _parse_columns(cursor: Cursor) -> tuple[tuple[str, ...] | None, bool]:
    """Parse `[(columns)] [BY NAME]`. Return the columns, None without a list, and whether BY NAME stands there."""
    if cursor.next_is("DEFAULT", "VALUES"):
        raise cursor.unsupported("INSERT … DEFAULT VALUES is not supported. Write VALUES (DEFAULT, …)")
    if cursor.accept("BY", "NAME"):
        return None, True
    columns = cursor.identifiers("a column's name") if cursor.next_is("(") and not begins_query(cursor) else None
    return columns, cursor.accept("BY", "NAME")


@dataclass(frozen=True)
class _ReplacedRows:
    """The rows that REPLACE WHERE, REPLACE USING or REPLACE ON deletes, as `Insert` describes them."""

    where: SqlText | None = None
    using: tuple[str, ...] = ()
    on: SqlText | None = None


def _parse_replaced_rows(cursor: Cursor, mode: str, partition: _Partition) -> _ReplacedRows:
    """Parse `[REPLACE WHERE condition | REPLACE USING (columns) | REPLACE ON condition]`."""
    if not cursor.accept("REPLACE"):
        return _ReplacedRows()
    kind = cursor.accept_any("WHERE", "USING", "ON")
    if not kind:
        raise cursor.expected("WHERE, USING or ON")
    if mode == "OVERWRITE":
        raise cursor.error(f"REPLACE {kind} goes with INSERT INTO. Write INSERT INTO instead of INSERT OVERWRITE")
    if partition:
        raise cursor.error(f"REPLACE {kind} and PARTITION do not go together. Select the partition's values, without PARTITION")
    if kind == "USING":
        return _ReplacedRows(using=cursor.identifiers("a column's name"))
    condition = parse_expression(cursor, f"a condition after REPLACE {kind}", begins_separate_query)
    return _ReplacedRows(where=condition) if kind == "WHERE" else _ReplacedRows(on=condition)


def _parse_target_alias(cursor: Cursor) -> str | None:
    """Parse the alias of the target. Without AS, a name is an alias only if REPLACE follows: otherwise it begins another clause."""
    following_keys = [cursor.key(ahead) for ahead in range(1, 4)]
    replace_follows = following_keys[0] == "REPLACE" or following_keys == ["BY", "NAME", "REPLACE"]
    if cursor.accept("AS") or (cursor.token().is_name and replace_follows):
        return cursor.identifier("an alias")
    return None


def _cut_query_alias(cursor: Cursor) -> str | None:
    """Remove the alias after `(query)` from the tokens at the end of the statement, and return the alias. The cursor stays."""
    if not cursor.next_is("("):
        return None
    start = cursor.index
    cursor.skip_group()
    query_end = cursor.index
    alias = None
    if cursor.accept("AS") or (cursor.token().is_name and cursor.token(1).kind is Kind.END):
        alias = cursor.identifier("an alias")
        cursor.expect_end("the query's alias")
        cursor.tokens = cursor.tokens.between(0, query_end)
    cursor.index = start
    return alias


def _accept_if_not_exists(cursor: Cursor, mode: str, partition: _Partition) -> bool:
    """Step over IF NOT EXISTS if it comes next. Raise Unparsable unless it follows OVERWRITE … PARTITION with all values."""
    if not cursor.next_is("IF", "NOT", "EXISTS"):
        return False
    if mode == "INTO":
        raise cursor.error("IF NOT EXISTS goes with INSERT OVERWRITE … PARTITION (column = value). For new rows only, use MERGE INTO")
    if not partition or any(value is None for _, value in partition):
        raise cursor.error("IF NOT EXISTS needs PARTITION (column = value, …) before it, with a value for every column")
    cursor.index += 3
    return True


def _parse_query_after_with_list(cursor: Cursor, insert_index: int) -> SqlText:
    """Parse the query up to the end of the statement, and put the WITH list that precedes INSERT before it.

    Each character stays on its line and column: the text between the two becomes spaces. If the query has a WITH list of its own, the two
    lists become one.
    """
    query_index = cursor.index
    query = cursor.take_rest()
    if insert_index == 0:
        return query
    query_text, tokens = query.text, cursor.tokens
    if tokens.keys[query_index] == "WITH":
        if tokens.keys[query_index + 1] == "RECURSIVE":
            reason = "WITH RECURSIVE after another WITH list is not supported. Put both into one list"
            raise cursor.unsupported(reason, tokens[query_index])
        query_text = ",   " + query_text[len("WITH") :]
    with_start, insert_start, query_start = (tokens.starts[index] for index in (0, insert_index, query_index))
    spaces = re.sub(r"[^\n\t]", " ", cursor.text[insert_start:query_start])
    return SqlText(cursor.text[with_start:insert_start] + spaces + query_text, *tokens.place(with_start))
