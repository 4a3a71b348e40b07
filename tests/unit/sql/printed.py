"""Commands as the fixtures print them, and the format of the fixtures.

A file contains cases. A case begins with `--- claim`, followed by SQL and its expected result. Lines after `=>` are the printed command
or the bound SQL, and `!> ErrorClass line:column reason` is an error. SQL of the user prints as ⟨text⟩line:column, with ⏎ for a newline.
Fields with their default value are omitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

from rowmerge.commands.definitions import CheckConstraint, ColumnDefinition
from rowmerge.commands.names import SqlText, TableName
from rowmerge.commands.rows import Assignment, DeleteAction, InsertAction, UpdateAction, When
from rowmerge.errors import StatementError
from rowmerge.table.metadata.partitioning import PartitionField, SortField
from rowmerge.table.metadata.schema import quote

FIXTURES = Path(__file__).parent / "fixtures"


@dataclass(frozen=True)
class Case:
    claim: str
    text: str
    expected: str


def cases(*names: str) -> list[Case]:
    """Return the cases of these fixture files, in order."""
    parsed_cases = []
    for name in names:
        blocks = (FIXTURES / name).read_text(encoding="utf-8").split("\n--- ")
        for block in ("\n" + blocks[0]).split("\n--- ")[1:] + blocks[1:]:
            claim, _, body = block.partition("\n")
            lines = body.rstrip("\n").split("\n")
            outcome = next(at for at, line in enumerate(lines) if line.startswith(("=> ", "!> ")))
            expected = "\n".join(line.removeprefix("=> ") for line in lines[outcome:])
            parsed_cases.append(Case(f"{name.removesuffix('.sql')}: {claim}", "\n".join(lines[:outcome]), expected))
    return parsed_cases


def error(problem: StatementError) -> str:
    return f"!> {type(problem).__name__} {problem.line}:{problem.column} {problem.reason}"


def command(value: Any) -> str:
    """Return the class on the first line, and then each field without its default value."""
    return "\n".join([type(value).__name__, *_fields(value)])


def _fields(value: Any) -> Iterator[str]:
    for field in fields(value):
        item_value = getattr(value, field.name)
        default = field.default_factory() if field.default_factory is not MISSING else field.default
        if item_value is None or item_value == default or (default is MISSING and item_value in (False, ())):
            continue
        if (
            isinstance(item_value, tuple)
            and item_value
            and is_dataclass(item_value[0])
            and not isinstance(item_value[0], SqlText | Assignment)
        ):
            yield f"  {field.name}:"
            yield from (f"    {_print_value(item)}" for item in item_value)
        elif is_dataclass(item_value) and not isinstance(item_value, SqlText | TableName | PartitionField):
            yield f"  {field.name}: {type(item_value).__name__}"
            yield from (f"  {line}" for line in _fields(item_value))
        else:
            yield f"  {field.name}: {_print_value(item_value)}"


def _print_value(value: Any) -> str:
    match value:
        case SqlText(text, line, column):
            return f"⟨{text}⟩{line}:{column}".replace("\n", "⏎")
        case TableName():
            return str(value)
        case Enum():
            return str(value.value)
        case Mapping():
            return ", ".join(f"{key!r}: {_print_value(item)}" for key, item in value.items())
        case tuple():
            return f"({', '.join(quote(item) if isinstance(item, str) else _print_value(item) for item in value)})"
        case When(match, action, condition):
            return f"{match.value}{f' AND {_print_value(condition)}' if condition else ''} THEN {_action(action)}"
        case Assignment(column, item):
            return f"{'.'.join(map(quote, column))} = {_print_value(item)}"
        case PartitionField():
            return value.text + (f" AS {quote(value.name)}" if value.name else "")
        case SortField():
            return value.text
        case ColumnDefinition():
            return _column(value)
        case CheckConstraint(name, expression):
            return f"{'' if name is None else f'CONSTRAINT {quote(name)} '}CHECK {_print_value(expression)}"
    return repr(value)


def _action(action: UpdateAction | DeleteAction | InsertAction) -> str:
    match action:
        case DeleteAction():
            return "DELETE"
        case UpdateAction(assignments) | InsertAction(assignments):
            verb = "UPDATE" if isinstance(action, UpdateAction) else "INSERT"
            return f"{verb} {'*' if assignments is None else ', '.join(map(_print_value, assignments))}"


def _column(column: ColumnDefinition) -> str:
    said = [".".join(map(quote, (*column.within, column.name))), _print_value(column.type)]
    said += ["NOT NULL"] * (not column.nullable) + ["IDENTITY"] * column.identity
    said += [f"COMMENT {column.comment!r}"] * (column.comment is not None)
    said += [f"DEFAULT {_print_value(column.default)}"] * (column.default is not None)
    said += [f"GENERATED {_print_value(column.generated)}"] * (column.generated is not None)
    return " ".join([*said, *map(_print_value, column.checks)])
