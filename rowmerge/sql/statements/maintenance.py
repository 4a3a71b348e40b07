"""The grammar of VACUUM, OPTIMIZE, REORG, RESTORE and GENERATE."""

from __future__ import annotations

from dataclasses import replace

from rowmerge.commands.maintenance import GenerateManifests, Optimize, Reorg, RepairTable, Restore, Vacuum
from rowmerge.commands.names import SqlText
from rowmerge.sql.lexing.cursor import Cursor
from rowmerge.sql.lexing.expressions import parse_expression, parse_relation, parse_time_travel
from rowmerge.sql.lexing.lexer import Kind


def parse_vacuum(cursor: Cursor) -> Vacuum:
    """Parse `VACUUM table [FULL | LITE] [USING INVENTORY table | (query)] [RETAIN n HOURS] [DRY RUN]`.

    The clauses can appear in any order, each at most once.

    Raises:
        Unparsable: The statement does not follow the grammar, or has both LITE and USING INVENTORY.
    """
    vacuum, mode = Vacuum(cursor.table_or_path()), ""
    while not cursor.at_end:
        if vacuum.retain_hours is None and cursor.accept("RETAIN"):
            vacuum = replace(vacuum, retain_hours=_parse_hours(cursor))
        elif not vacuum.dry_run and cursor.accept("DRY", "RUN"):
            vacuum = replace(vacuum, dry_run=True)
        elif vacuum.inventory is None and cursor.accept("USING", "INVENTORY"):
            vacuum = replace(vacuum, inventory=parse_relation(cursor, "a table or a query in parentheses"))
        elif not mode and (mode := cursor.accept_any("FULL", "LITE")):
            vacuum = replace(vacuum, lite=mode == "LITE")
        else:
            raise cursor.expected("FULL, LITE, USING INVENTORY, RETAIN n HOURS, DRY RUN or the end of the statement")
    if vacuum.lite and vacuum.inventory is not None:
        raise cursor.error("VACUUM … LITE lists no files, so it takes no inventory. Leave out LITE or USING INVENTORY")
    return vacuum


def parse_repair(cursor: Cursor) -> RepairTable:
    """Parse `FSCK REPAIR TABLE table [DRY RUN]`.

    Raises:
        Unparsable: The statement does not follow the grammar.
        UnsupportedStatement: The statement has METADATA ONLY.
    """
    target = cursor.table_or_path()
    if cursor.next_is("METADATA", "ONLY"):
        raise cursor.unsupported("FSCK REPAIR TABLE … METADATA ONLY is not supported. Leave METADATA ONLY out")
    dry_run = cursor.accept("DRY", "RUN")
    cursor.expect_end("the table")
    return RepairTable(target, dry_run)


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
