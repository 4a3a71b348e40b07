"""The grammar of VACUUM, OPTIMIZE, REORG, RESTORE and GENERATE."""

from __future__ import annotations

from rowmerge.commands.maintenance import GenerateManifests, Optimize, Reorg, Restore, Vacuum
from rowmerge.commands.names import SqlText
from rowmerge.errors import StatementError
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import parse_expression, parse_time_travel
from rowmerge.sql.lexing.lexer import Kind


def parse_vacuum(cursor: Cursor) -> Vacuum:
    """Parse `VACUUM table [FULL] [RETAIN n HOURS] [DRY RUN]`. The clauses can appear in any order, each at most once.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has LITE or USING INVENTORY.
    """
    target = cursor.table_or_path()
    retain_hours: float | None = None
    dry_run = full = False
    while not cursor.at_end:
        if retain_hours is None and cursor.accept("RETAIN"):
            retain_hours = _parse_hours(cursor)
        elif not dry_run and cursor.accept("DRY", "RUN"):
            dry_run = True
        elif not full and cursor.accept("FULL"):
            full = True  # the default mode of VACUUM
        else:
            raise _vacuum_refusal(cursor)
    return Vacuum(target, retain_hours, dry_run)


def _vacuum_refusal(cursor: Cursor) -> StatementError:
    """Return the error for text that is not a clause of VACUUM, or for an unsupported clause."""
    if cursor.next_is("LITE"):
        return cursor.unsupported("VACUUM … LITE is not supported. Leave LITE out: VACUUM checks every file of the table")
    if cursor.next_is("USING", "INVENTORY"):
        return cursor.unsupported("VACUUM … USING INVENTORY is not supported. Leave it out: VACUUM itself lists the table's files")
    return cursor.expected("RETAIN n HOURS, DRY RUN or the end of the statement")


def parse_optimize(cursor: Cursor) -> Optimize:
    """Parse `OPTIMIZE table [WHERE condition]`.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has FULL or ZORDER BY.
    """
    target = cursor.table_or_path()
    if cursor.next_is("FULL"):
        raise cursor.unsupported("OPTIMIZE … FULL is for clustered tables, and clustering is not supported. Leave FULL out")
    condition = _parse_optional_where(cursor, following="ZORDER")
    if cursor.next_is("ZORDER", "BY"):
        raise cursor.unsupported("OPTIMIZE … ZORDER BY is not supported. Leave ZORDER BY out, or write the table sorted: INSERT … ORDER BY")
    cursor.expect_end("the table")
    return Optimize(target, condition)


def parse_reorg(cursor: Cursor) -> Reorg:
    """Parse `REORG TABLE table [WHERE condition] APPLY (PURGE)`.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has APPLY (UPGRADE UNIFORM …).
    """
    target = cursor.table_or_path()
    condition = _parse_optional_where(cursor, following="APPLY")
    cursor.expect("APPLY", "(")
    if cursor.next_is("UPGRADE"):
        raise cursor.unsupported("REORG … APPLY (UPGRADE UNIFORM …) is not supported. Use an engine that writes Iceberg metadata")
    cursor.expect("PURGE", ")")
    cursor.expect_end("APPLY (PURGE)")
    return Reorg(target, condition)


def parse_restore(cursor: Cursor) -> Restore:
    """Parse `RESTORE [TABLE] table [TO] VERSION AS OF n | TIMESTAMP AS OF time`.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has a path instead of a table.
    """
    cursor.accept_before_name("TABLE")
    target = cursor.table_or_path()
    cursor.accept("TO")
    travel = parse_time_travel(cursor)
    if travel is None:
        raise cursor.expected("TO VERSION AS OF a number, or TO TIMESTAMP AS OF a time")
    cursor.expect_end("the version")
    return Restore(target, travel.version, travel.timestamp, travel.reference)


def parse_generate(cursor: Cursor) -> GenerateManifests:
    """Parse `GENERATE symlink_format_manifest FOR TABLE table`.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has a path instead of a table.
    """
    if not cursor.accept("SYMLINK_FORMAT_MANIFEST"):
        raise cursor.expected("symlink_format_manifest")
    cursor.expect("FOR", "TABLE")
    target = cursor.table_or_path()
    cursor.expect_end("the table")
    return GenerateManifests(target)


def _parse_optional_where(cursor: Cursor, following: str) -> SqlText | None:
    """Parse `[WHERE condition]` before the word `following` or the end of the statement."""
    if not cursor.accept("WHERE"):
        return None
    return parse_expression(cursor, "a condition after WHERE", lambda c: c.next_is_keyword(following))


def _parse_hours(cursor: Cursor) -> float:
    """Parse `n HOURS` after RETAIN and return the number of hours, which can be fractional."""
    if cursor.next_is("-"):
        raise cursor.error("A retention cannot be negative. Write 0 HOURS or more")
    token = cursor.token()
    has_type_suffix = token.text[-1:].isalpha()  # such as 7L
    if token.kind is not Kind.NUMBER or has_type_suffix:
        raise cursor.expected("a number of hours")
    cursor.index += 1
    cursor.expect("HOURS")
    return float(token.text)
