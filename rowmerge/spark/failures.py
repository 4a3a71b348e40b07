"""Spark's exceptions as the engine's: the same few errors, whoever notices."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.errors import AnalysisException, ParseException, PySparkException

from rowmerge.errors import (
    AmbiguousColumn,
    ConstraintViolated,
    MissingDataFile,
    RowmergeError,
    SparkFailed,
    TableNotFound,
    TypeMismatch,
    UnknownColumn,
    Unparsable,
    ValueOutOfRange,
)
from rowmerge.spark.assignment import NOT_NULL, OUT_OF_RANGE, REPLACE_WHERE, TOO_LONG


@contextmanager
def translated(text: str, table: str = "the table") -> Iterator[None]:
    """Turn what PySpark raises inside into RowmergeErrors. `text` is the statement, `table` what it writes to."""
    try:
        yield
    except PySparkException as error:
        raise as_ours(error, text, table) from error


def as_ours(error: PySparkException, text: str, table: str) -> RowmergeError:
    """The engine's error for one of Spark's, by its error condition."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    message = str(error)
    if isinstance(error, ParseException):
        return _unparsable(error, text)
    if stopped := re.search(rf"({NOT_NULL}|{OUT_OF_RANGE}|{TOO_LONG}|{REPLACE_WHERE}) `((?:[^`]|``)*)` ([^\n]*)", message):
        return _stopped(stopped[1], stopped[2].replace("``", "`"), stopped[3], table)
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")):
        name = parameters.get("objectName") or parameters.get("fieldName") or ""
        proposed = [_plain(part) for part in (parameters.get("proposal") or "").split(", ") if part]
        return UnknownColumn(_plain(name), proposed)
    if condition == "FIELD_NOT_FOUND":
        fields = [_plain(part) for part in (parameters.get("fields") or "").split(", ") if part]
        return UnknownColumn(_plain(parameters.get("fieldName") or ""), fields)
    if condition.startswith("AMBIGUOUS"):
        choices = (parameters.get("referenceNames") or "").strip("[]").split(", ")
        return AmbiguousColumn(_plain(parameters.get("name") or ""), [_plain(choice) for choice in choices if choice])
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return TableNotFound(_plain(parameters.get("relationName") or ""))
    if condition.startswith(("DATATYPE_MISMATCH", "CAST_INVALID_INPUT", "INCOMPATIBLE_COLUMN_TYPE", "CANNOT_PARSE")):
        return TypeMismatch(f"{_first_line(message)} Cast the value to the type that is wanted.")
    if condition.startswith(("FAILED_READ_FILE.FILE_NOT_EXIST", "PATH_NOT_FOUND")):
        return MissingDataFile(table, parameters.get("path") or "")
    if isinstance(error, AnalysisException):
        return SparkFailed(f"Spark does not accept the statement: {_first_line(message)}")
    return SparkFailed(f"Spark stopped the statement: {_first_line(message)} Nothing was written.")


def _stopped(rule: str, column: str, rest: str, table: str) -> RowmergeError:
    rest = re.split(r" SQLSTATE| at org\.apache|\x1b", rest)[0].strip()
    if rule == NOT_NULL:
        return ConstraintViolated(table, f"NOT NULL of column `{column}`")
    if rule == REPLACE_WHERE:
        return ConstraintViolated(table, f"REPLACE WHERE {column}", rest)
    type_, _, value = rest.partition(" ")
    if rule == TOO_LONG:
        return ValueOutOfRange(
            f"The value {value!r} is too long for the column `{column}` of {table} ({type_}). Shorten it in the statement."
        )
    return ValueOutOfRange(
        f"The value {value} does not fit the column `{column}` of {table} ({type_}). Nothing was written; mend it or widen the column."
    )


def _unparsable(error: ParseException, text: str) -> Unparsable:
    found = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    line, column = (int(found[1]), int(found[2]) + 1) if found else (1, 1)
    reason = re.sub(r"\s*\(line \d+, pos \d+\)", "", _first_line(str(error))).rstrip(".")
    shown = str(error).partition("== SQL ==\n")[2].split("\n---", 1)[0] or text
    return Unparsable(reason, text=shown, line=line, column=column)


def _first_line(message: str) -> str:
    line = message.strip().split("\n", 1)[0]
    return re.sub(r"\s*SQLSTATE: \w+", "", line).rstrip(" .;") + "."


def _plain(name: str) -> str:
    return name.strip().replace("`", "")
