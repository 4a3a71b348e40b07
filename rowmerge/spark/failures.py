"""Spark's exceptions as the engine's: the same few errors, whoever notices."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import Enum

from pyspark.errors import AnalysisException, ParseException, PySparkException

from rowmerge.errors import (
    AmbiguousColumn,
    ConstraintViolated,
    FunctionNotFound,
    MissingDataFile,
    PlanError,
    RowmergeError,
    SparkFailed,
    TableNotFound,
    TypeMismatch,
    UnknownColumn,
    Unparsable,
    UnsupportedStatement,
    UnsupportedTableFeature,
    ValueOutOfRange,
)
from rowmerge.errors.tables import unreadable_data_file
from rowmerge.parquet.reading import UNREADABLE


@contextmanager
def translated(text: str, table: str = "the table") -> Iterator[None]:
    """Turn what PySpark raises inside into RowmergeErrors. `text` is the statement, `table` what it writes to."""
    try:
        yield
    except PySparkException as error:
        raise as_ours(error, text, table) from error
    except Exception as error:
        # What fails while Arrow batches are on their way comes as the bridge's own error, with Java's words.
        if type(error).__module__ != "py4j.protocol":
            raise
        raise _of_java(str(error), table) from error


def _of_java(message: str, table: str) -> RowmergeError:
    if too_deep := _too_deep(message):
        return too_deep
    causes = re.findall(r"^(?:Caused by|: )[^\n]*?(?:Exception|Error): ([^\n]+)", message, re.MULTILINE)
    reason = causes[-1] if causes else message
    return _of_file(message, table) or SparkFailed(f"Spark stopped the statement: {_first_line(reason)} Nothing was written.")


def _too_deep(message: str) -> PlanError | None:
    """The error for a statement that overflowed the stack of Java, if that is what stopped it."""
    if "java.lang.StackOverflowError" not in message and "FAILED_TO_PARSE_TOO_COMPLEX" not in message:
        return None
    return PlanError(
        "The statement is nested too deeply for Spark, or a chain of operators in it is too long. Nothing was written. Divide it, for "
        "example with a WITH list, or start Spark with a larger stack: spark_config = {'spark.driver.extraJavaOptions': '-Xss16m'}."
    )


def _of_file(message: str, table: str) -> RowmergeError | None:
    """The error for a file that a job could not read, if that is what stopped it."""
    if found := re.search(rf"{UNREADABLE} (\[.*\])", message):
        return unreadable_data_file(table, *json.loads(found[1]))
    if "Parquet file schema doesn't contain any field Ids" in message:
        advice = "Write its files again with an engine that reads such files (the procedure rewrite_data_files of Iceberg on Spark)."
        return UnsupportedTableFeature(table, "data files without field ids", action="read", advice=advice)
    if found := re.search(r"\[(FAILED_READ_FILE[.\w]*)\] Encountered error while reading file (.*?\.parquet)", message):
        missing = found[1].endswith("FILE_NOT_EXIST")
        cause = re.findall(r"^Caused by: [\w.$]+: (?!\[FAILED_READ_FILE)([^\n]*)", message, re.MULTILINE)
        return unreadable_data_file(table, found[2], None if missing else (cause or ["its content is damaged"])[-1])
    return None


def as_ours(error: PySparkException, text: str, table: str) -> RowmergeError:
    """The engine's error for one of Spark's, by its error condition."""
    condition = error.getCondition() or ""
    parameters = error.getMessageParameters() or {}
    message = str(error)
    if isinstance(error, ParseException) and condition != "FAILED_TO_PARSE_TOO_COMPLEX":
        return _unparsable(error, text)
    if too_deep := _too_deep(f"{condition} {message}"):
        return too_deep
    if stopped := re.search(rf"{STOP} ([0-9a-f]+) ([0-9A-F]*)\.", message):
        return _stopped(bytes.fromhex(stopped[1]), bytes.fromhex(stopped[2]))
    if (unresolved := _unresolved_name(condition, parameters)) is not None:
        return unresolved
    if condition.startswith(("DATATYPE_MISMATCH", "CAST_INVALID_INPUT", "INCOMPATIBLE_COLUMN_TYPE", "CANNOT_PARSE")):
        return TypeMismatch(f"{_first_line(message)} Cast the value to the type that is wanted.")
    if condition.startswith("UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY"):
        return UnsupportedStatement(
            f"Spark does not take this subquery here: {_first_line(message)} Use a MERGE, and join what the subquery reads in its source",
            text=text,
        )
    if condition.startswith(("FAILED_READ_FILE.FILE_NOT_EXIST", "PATH_NOT_FOUND")):
        return MissingDataFile(table, parameters.get("path") or "")
    if of_file := _of_file(message, table):
        return of_file
    if (python_error := _python_error(message)) is not None:
        return python_error
    if isinstance(error, AnalysisException):
        return SparkFailed(f"Spark does not accept the statement: {_first_line(message)}")
    return SparkFailed(f"Spark stopped the statement: {_first_line(message)} Nothing was written.")


def _unresolved_name(condition: str, parameters: Mapping[str, str]) -> RowmergeError | None:
    """Return the error of a name that Spark does not resolve, or None for another error condition."""
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")):
        name = parameters.get("objectName") or parameters.get("fieldName") or ""
        proposed = [_plain(part) for part in (parameters.get("proposal") or "").split(", ") if part and "__rowmerge_" not in part]
        return UnknownColumn(_plain(name), proposed)
    if condition == "FIELD_NOT_FOUND":
        fields = [_plain(part) for part in (parameters.get("fields") or "").split(", ") if part]
        return UnknownColumn(_plain(parameters.get("fieldName") or ""), fields)
    if condition.startswith("AMBIGUOUS"):
        choices = (parameters.get("referenceNames") or "").strip("[]").split(", ")
        return AmbiguousColumn(_plain(parameters.get("name") or ""), [_plain(choice) for choice in choices if choice])
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return TableNotFound(_plain(parameters.get("relationName") or ""))
    if condition.startswith("UNRESOLVED_ROUTINE"):
        return FunctionNotFound(_plain(parameters.get("routineName") or ""))
    return None


def _python_error(message: str) -> SparkFailed | None:
    """Return the error of Python code that an executor ran, or None. Its position comes from the last function in the traceback."""
    if raised := re.search(r"exception was thrown from the Python worker.*?\bTraceback .*?\n(?! )([^\n]+)", message, re.DOTALL):
        frames = re.findall(r'File "<function (.+?)>", line (\d+)', message)
        function = f"The function {frames[-1][0]}, in line {frames[-1][1]} of its body," if frames else "A Python function that Spark ran"
        return SparkFailed(f"{function} raised {raised[1].rstrip('. ')}. Mend the function. Nothing was written.")
    return None


def _stopped(known: bytes, shown: bytes) -> RowmergeError:
    """The error of an expression that `rowmerge.spark.values.assignment.stop` made."""
    why, table, told = json.loads(known)
    value = shown.decode("utf-8", "replace")
    match Stop(why):
        case Stop.CONSTRAINT:
            return ConstraintViolated(table, told, value)
        case Stop.TOO_LONG:
            return ValueOutOfRange(f"The value {_shortened(value)!r} is too long for {told}. Shorten it in the statement.")
        case Stop.NOT_HELD:
            of_uuids = told.endswith("(uuid)")
            form = "a UUID as 123e4567-e89b-12d3-a456-426614174000" if of_uuids else "as many bytes as that"
            given = _shortened(value if of_uuids else f"X'{value}'")
            return ValueOutOfRange(f"The value {given} does not fit {told}. Nothing was written; give {form}.")
        case Stop.OUT_OF_RANGE:
            return ValueOutOfRange(f"The value {_shortened(value)} does not fit {told}. Nothing was written; mend it or widen the column.")


def _shortened(value: str) -> str:
    return value if len(value) <= 200 else f"{value[:200]}…"


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


STOP = "rowmerge-stop"
"""What the message of an expression that stops the statement begins with."""


class Stop(Enum):
    """Why a statement is stopped while its rows are made."""

    OUT_OF_RANGE = "out of range"
    TOO_LONG = "too long"
    NOT_HELD = "not held"
    CONSTRAINT = "constraint"
