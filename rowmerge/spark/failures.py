"""Translate Spark's exceptions to rowmerge errors. A cause has the same error whether rowmerge or Spark detects it."""

from __future__ import annotations

import json
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum

from pyspark.errors import AnalysisException, ParseException, PySparkException

from rowmerge import errors
from rowmerge.errors.environment import unreadable_data_file
from rowmerge.errors.stores import advice_on_store, is_store_failure
from rowmerge.parquet.data_files import UNWRITABLE
from rowmerge.parquet.filesystems import UNREADABLE
from rowmerge.spark.connectors import missing_connector_error
from rowmerge.storage.hadoop import without_reader_scheme

_DRIVER_PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
STOP_PREFIX = "rowmerge-stop"
"""The prefix of the error message by which an expression of rowmerge stops the statement."""

_LOST_SESSION = ("INVALID_HANDLE.SESSION_", "NO_ACTIVE_SESSION")
"""The beginnings of Spark's error conditions for a session that a Spark Connect server does not have any more."""


class StopReason(Enum):
    """The reasons why an expression stops the statement. TOO_LONG applies to strings, WRONG_LENGTH to binary values."""

    OUT_OF_RANGE = "out of range"
    TOO_LONG = "too long"
    NO_UUID = "no UUID"
    WRONG_LENGTH = "wrong length"
    CONSTRAINT = "constraint"


_TOO_DEEP = ("java.lang.StackOverflowError", "FAILED_TO_PARSE_TOO_COMPLEX", "maximum recursion depth exceeded")
"""The signs of a statement that is nested too deeply, in messages of Java, of Spark's parser, and of Python while it parses a type."""


@contextmanager
def translated(text: str, table: str = "the table") -> Iterator[None]:
    """Translate PySpark exceptions in a `with` block to rowmerge errors.

    Args:
        text: The SQL text of the statement.
        table: The name of the table that the statement writes, for messages.

    Raises:
        RowmergeError: PySpark raised an exception in the block. Other exceptions pass through.
    """
    try:
        yield
    except PySparkException as error:
        raise rowmerge_error(error, text, table) from error
    except Exception as error:
        # While Spark sends Arrow batches, Py4J raises its own exception with Java's message.
        if type(error).__module__ != "py4j.protocol":
            raise
        raise _java_error(str(error), table) from error


def rowmerge_error(error: PySparkException, text: str, table: str) -> errors.RowmergeError:
    """Return the rowmerge error for a PySpark exception, based on its error condition and its message.

    The first function that recognizes the exception determines the error. So errors of rowmerge's own expressions take precedence over
    Spark's error conditions.

    Args:
        error: The exception that PySpark raised.
        text: The SQL text of the statement.
        table: The name of the table that the statement writes, for messages.
    """
    condition, message = error.getCondition() or "", without_reader_scheme(str(error))
    values = {name: without_reader_scheme(value or "") for name, value in (error.getMessageParameters() or {}).items()}
    parameters = defaultdict(str, values)
    # A statement that is too complex is not invalid. `_nesting_error` recognizes it.
    if isinstance(error, ParseException) and condition != "FAILED_TO_PARSE_TOO_COMPLEX":
        return _unparsable(error, text)
    return (
        _nesting_error(f"{condition} {message}")
        or _lost_session_error(condition, message)
        or _stop_expression_error(message)
        or executor_error(message)
        or _unresolved_name_error(condition, parameters)
        or _condition_error(condition, parameters["path"], _first_line(message), text, table)
        or _data_file_error(message, table)
        or _python_error(message)
        or _unrecognized_error(error)
    )


def _unrecognized_error(error: PySparkException) -> errors.SparkFailed:
    """Return the error for a PySpark exception that `rowmerge_error` does not recognize otherwise."""
    summary = _first_line(str(error))
    if isinstance(error, AnalysisException):
        return errors.SparkFailed(f"Spark does not accept the statement: {summary}")
    return errors.SparkFailed(f"Spark stopped the statement: {summary} Nothing was written.")


def _java_error(message: str, table: str) -> errors.RowmergeError:
    """Return the error for the message of a Java exception. The last cause in the message is the root cause."""
    message = without_reader_scheme(message)
    causes = re.findall(r"^(?:Caused by|: )[^\n]*?(?:Exception|Error): ([^\n]+)", message, re.MULTILINE)
    summary = _first_line(causes[-1] if causes else message)
    stopped = errors.SparkFailed(f"Spark stopped the statement: {summary} Nothing was written.")
    return _nesting_error(message) or executor_error(message) or _data_file_error(message, table) or stopped


def _nesting_error(message: str) -> errors.PlanError | None:
    """Return the error for a statement that is nested too deeply for Java, Spark or Python, or None for any other message."""
    if not any(sign in message for sign in _TOO_DEEP):
        return None
    return errors.PlanError(
        "The statement is nested too deeply for Spark, or a chain of operators in it is too long. Nothing was written. Divide it, for "
        "example with a WITH list, or start Spark with a larger stack: spark_config = {'spark.driver.extraJavaOptions': '-Xss16m'}."
    )


def _lost_session_error(condition: str, message: str) -> errors.SparkFailed | None:
    """Return the error for a session that a Spark Connect server does not have any more, or None for any other error.

    PySpark itself detects a new server by the id of the session in an answer, and raises an error without a condition.
    """
    if not condition.startswith(_LOST_SESSION) and "incorrect server side session identifier" not in message:
        return None
    return errors.SparkFailed(
        "The Spark Connect server does not have the session any more: it has restarted, or the session was idle for too long. Its "
        "temporary views and settings are lost. Nothing was written. Run the statement again in a new session: the next node of dbt "
        "opens one, and rowmerge.connect does in Python."
    )


def _data_file_error(message: str, table: str) -> errors.RowmergeError | None:
    """Return the error for a data file that a job could not read, or None for any other message.

    The message is the text of a Java exception with its causes. One of these lines reports the file:
    - `rowmerge cannot read ["s3://bucket/a.parquet", "the footer is damaged"]` is the text of rowmerge's own exception `UnreadableFile`.
      An executor can send only text to the driver. So the path and the reason form a JSON array. The reason for a missing file is null.
    - `[FAILED_READ_FILE.FILE_NOT_EXIST] Encountered error while reading file s3://bucket/a.parquet.` is the text of Spark's reader. The
      last `Caused by: …` line below it contains the reason.
    """
    if unreadable := re.search(rf"{UNREADABLE} (\[.*\])", message):
        return unreadable_data_file(table, *json.loads(unreadable[1]))
    # Spark can read an Iceberg table by field ids only if the data files have them.
    if "Parquet file schema doesn't contain any field Ids" in message:
        advice = "Rewrite its files with an engine that supports them, for example with Iceberg's procedure rewrite_data_files on Spark."
        return errors.UnsupportedTableFeature(table, "data files without field ids", action="read", advice=advice)
    failed_read = re.search(r"\[(FAILED_READ_FILE[.\w]*)\] Encountered error while reading file (.*?\.parquet)", message)
    if failed_read is None:
        return None
    condition, path = failed_read.groups()
    if condition.endswith("FILE_NOT_EXIST"):
        return unreadable_data_file(table, path, None)
    # Each cause repeats the message of FAILED_READ_FILE or has its own message. The last cause with its own message is the root cause.
    causes = re.findall(r"^Caused by: [\w.$]+: (?!\[FAILED_READ_FILE)([^\n]*)", message, re.MULTILINE)
    return unreadable_data_file(table, path, causes[-1] if causes else "its content is damaged")


def folder_not_shared(host: str, path: str) -> errors.StorageError:
    """Return the error for a folder on a disk that an executor does not share with the driver.

    Args:
        host: The host of the executor.
        path: The folder of the table's data files, or a file that the driver does not find.
    """
    advice = (
        "Nothing was committed. Put the warehouse into a folder that the driver and all executors share under the same path, such as a "
        "network file system, or into an object store."
    )
    return errors.StorageError(path, f"the executor on {host} does not share this folder with the driver", advice)


def lost_source_rows(error: Exception) -> bool:
    """Return whether a job failed because an executor is lost, with rows of the source (localCheckpoint) or with the input of other tasks.

    Spark evaluates lost input again. But it ends the job if the input would be other rows, and some tasks have read the first ones.
    """
    return bool(re.search(r"CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND|Checkpoint block \S+ not found|with indeterminate output was", str(error)))


def executor_error(message: str) -> errors.RowmergeError | None:
    """Return the error for a problem of the executors, their hosts or their stores, or None for any other message.

    `message`: the text of Spark's exception with its causes.
    """
    if unwritable := re.search(rf"{UNWRITABLE} (\[.*\])", message):
        host, path, reason = json.loads(unwritable[1])
        if reason is None:
            return folder_not_shared(host, path)
        return errors.StorageError(path, f"the executor on {host} cannot write: {reason}", _advice_on_write(path, reason))
    host_error = _worker_python_error(message) or _lost_executor_error(message) or _disk_or_network_error(message)
    return host_error or missing_connector_error(message) or _store_error(message)


def _advice_on_write(path: str, reason: str) -> str:
    """Return what to do if an executor cannot write a file below `path` for this reason."""
    if not path.startswith("file:"):
        return f"Nothing was committed. {advice_on_store(path, reason)}"
    if re.search(r"permission denied|errno 13", reason, re.IGNORECASE):
        return "Nothing was committed. Let the user of the executors write there."
    if re.search(r"no space left|errno 28|quota", reason, re.IGNORECASE):
        return "Nothing was committed. Free space on this disk, and run the statement again."
    return "Nothing was committed. Check that the path exists, and that the user of the executors may write there."


def _worker_python_error(message: str) -> errors.ConfigurationError | None:
    """Return the error for the Python environment of the executors, or None for any other message."""
    setting = "Set spark.pyspark.python in spark_config (or PYSPARK_PYTHON) to"
    if program := re.search(r'Cannot run program "([^"]+)"', message):
        path = f"the path of a Python {_DRIVER_PYTHON} with pyarrow, numpy and pandas that exists on every worker"
        return errors.ConfigurationError(f"The Python {program[1]} does not exist on{_host(message)}. {setting} {path}.")
    if versions := re.search(r"different version:? \(?([\d.]+)\)? than that in driver:? ([\d.]+)", message):
        advice = f"{setting} a Python {versions[2]} of the workers, or run dbt with Python {versions[1]}"
        problem = f"The executors run Python {versions[1]}, but this process runs Python {versions[2]}"
        return errors.ConfigurationError(f"{problem}. PySpark needs the same minor version. {advice}.")
    if package := re.search(r"No module named '(pyarrow|numpy|pandas)\b", message):
        return packages_missing(_host(message), f"{package[1]} is missing")
    if old := re.search(r"(PyArrow|Pandas|NumPy) (>= [\d.]+) must be installed; however, (?:it|your version is ([\d.]+))", message):
        version = (old[3] or "none").rstrip(".")
        return packages_missing(_host(message), f"{old[1]} {old[2]} is required, but {version} is installed")
    return None


def packages_missing(host: str, problem: str) -> errors.ConfigurationError:
    """Return the error for a Python of executors that lacks a package.

    Args:
        host: The host, with a space before it.
        problem: Which package is missing.
    """
    advice = "Run pip install 'pyspark[sql]' in the Python of the workers (spark.pyspark.python or PYSPARK_PYTHON)."
    return errors.ConfigurationError(f"The Python of the executors on{host} cannot run the engine: {problem}. {advice}")


def _lost_executor_error(message: str) -> errors.SparkFailed | None:
    """Return the error for executors that ended, or None for any other message."""
    memory = "The usual cause is too little memory: raise spark.executor.memory or spark.executor.memoryOverhead, or use fewer cores."
    if lost := re.search(r"ExecutorLostFailure \(executor (\S+) [^)]*\)(?: Reason: ([^\n]*))?", message):
        reason = (lost[2] or "it does not answer").rstrip(". ")
        return errors.SparkFailed(f"The executor {lost[1]} on{_host(message)} ended: {reason}. {memory} Nothing was written.")
    if "Python worker exited unexpectedly" in message:
        return errors.SparkFailed(f"The Python process of an executor on{_host(message)} crashed. {memory} Nothing was written.")
    if lost_source_rows(Exception(message)):
        problem = "Executors were lost with rows of the source in each attempt"
        return errors.SparkFailed(f"{problem}. Check why executors end, and run the statement again. Nothing was written.")
    if re.search("SparkContext was shut down|stopped SparkContext|Master removed our application|All masters are unresponsive", message):
        advice = "Check that the master and the workers run, and their logs. Then run the statement again in a new process"
        return errors.SparkFailed(f"The cluster ended the Spark application: {_first_line(message)} {advice}.")
    return None


def _disk_or_network_error(message: str) -> errors.StorageError | None:
    """Return the error for a full disk or a store that does not answer, which Java code reported, or None for any other message."""
    if "No space left on device" in message:
        advice = "Free space there, or set spark.local.dir to a larger disk. Nothing was written."
        return errors.StorageError(f"the disk of{_host(message)}", "no space is left on the device", advice)
    if refused := re.search(r"(?:ConnectException|HttpHostConnectException)[^\n]*?(?:Connect to (\S+)[^\n]*)?Connection refused", message):
        advice = "Check that the store runs, and that executors reach its endpoint (storage_options). Nothing was written."
        return errors.StorageError(refused[1] or "the store", f"the connection from{_host(message)} was refused", advice)
    return None


def _store_error(message: str) -> errors.StorageError | None:
    """Return the error for a request of hadoop-aws that failed, or None for any other message.

    The message contains the operation, the path and the exception of the AWS SDK, such as `getFileStatus on s3a://bucket/a.parquet:
    software.amazon.awssdk.services.s3.model.S3Exception: Forbidden (Service: S3, Status Code: 403, Request ID: 5)`.
    """
    failed = re.search(r"(\w+)(?:\(\))?(?: s3\S+)?(?: at \d+)? (?:on|at) (s3[an]?://\S+): (software\.amazon\.awssdk\.[^\n]*)", message)
    if failed is None or not is_store_failure(failed[3]):
        return None
    operation, path, exception = failed.groups()
    cause = re.sub(r"software\.[\w.$]+: ", "", exception).partition(":null")[0]
    return errors.StorageError(path, f"{operation} failed: {cause}")


def _host(message: str) -> str:
    """Return the host of the executor that a message of Spark names, with a space before it."""
    host = re.search(r"\(TID \d+\) \((\S+) executor \S+\)", message)
    return f" {host[1]}" if host else " the workers"


def _unresolved_name_error(condition: str, parameters: defaultdict[str, str]) -> errors.RowmergeError | None:
    """Return the error for a name that Spark cannot resolve, or None for any other error condition.

    `parameters`: the parameters of Spark's error message, by name.
    """
    if condition.startswith(("UNRESOLVED_COLUMN", "UNRESOLVED_FIELD")):
        name = parameters["objectName"] or parameters["fieldName"]
        proposals = [proposal for proposal in _names(parameters["proposal"]) if "__rowmerge_" not in proposal]
        return errors.UnknownColumn(_unquoted(name), proposals)
    if condition == "FIELD_NOT_FOUND":
        return errors.UnknownColumn(_unquoted(parameters["fieldName"]), _names(parameters["fields"]))
    if condition.startswith("AMBIGUOUS"):
        return errors.AmbiguousColumn(_unquoted(parameters["name"]), _names(parameters["referenceNames"]))
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return errors.TableNotFound(_unquoted(parameters["relationName"]))
    if condition == "REQUIRES_SINGLE_PART_NAMESPACE":  # the first part is neither a catalog of the session nor one of Spark
        return errors.TableNotFound(_unquoted(parameters["identifier"]))
    if condition.startswith("UNRESOLVED_ROUTINE"):
        return errors.FunctionNotFound(_unquoted(parameters["routineName"]))
    return None


def _condition_error(condition: str, path: str, summary: str, text: str, table: str) -> errors.RowmergeError | None:
    """Return the error for a type, a subquery or a missing file, or None for any other error condition.

    `path`: the path of the missing file. `summary`: the first line of Spark's message. `text`: the SQL of the statement.
    """
    if condition.startswith(("DATATYPE_MISMATCH", "CAST_INVALID_INPUT", "INCOMPATIBLE_COLUMN_TYPE", "CANNOT_PARSE")):
        return errors.TypeMismatch(f"{summary} Cast the value to the required type.")
    if condition.startswith("UNSUPPORTED_SUBQUERY_EXPRESSION_CATEGORY"):
        advice = "Use a MERGE whose source joins the data of the subquery"
        return errors.UnsupportedStatement(f"Spark does not support this subquery here: {summary} {advice}", text=text)
    if condition.startswith(("FAILED_READ_FILE.FILE_NOT_EXIST", "PATH_NOT_FOUND")):
        return errors.MissingDataFile(table, path)
    return None


def _names(name_list: str) -> list[str]:
    """Return the names in a list from Spark's error parameters, without backquotes."""
    return [_unquoted(name) for name in name_list.strip("[]").split(", ") if name]


def _python_error(message: str) -> errors.SparkFailed | None:
    """Return the error for Python code that failed on an executor, or None for any other message.

    The error shows the last function in the traceback.
    """
    raised = re.search(r"exception was thrown from the Python worker.*?\bTraceback .*?\n(?! )([^\n]+)", message, re.DOTALL)
    if raised is None:
        return None
    frames = re.findall(r'File "<function (.+?)>", line (\d+)', message)
    function = "The function {}, in line {} of its body,".format(*frames[-1]) if frames else "A Python function that Spark ran"
    return errors.SparkFailed(f"{function} raised {raised[1].rstrip('. ')}. Correct the function. Nothing was written.")


def _stop_expression_error(message: str) -> errors.RowmergeError | None:
    """Return the error for a row at which an expression of `rowmerge.spark.values.assignment.raise_error_sql` stopped the statement.

    The message is `rowmerge-stop 5b22… 2D31.`: the prefix and two strings in hexadecimal form. The first is a JSON array with the reason,
    the table and the rule. The second is the value, here `-1`. The rule is a constraint, or the column that cannot store the value. The
    result is None for any other message.
    """
    # Python writes the digits of the first string in lower case, and Spark's `hex` those of the second string in upper case.
    stop_message = re.search(rf"{STOP_PREFIX} ([0-9a-f]+) ([0-9A-F]*)\.", message)
    if stop_message is None:
        return None
    details_hex, value_hex = stop_message.groups()
    reason, table, rule = json.loads(bytes.fromhex(details_hex))
    value = bytes.fromhex(value_hex).decode("utf-8", "replace")
    match StopReason(reason):
        case StopReason.CONSTRAINT:
            return errors.ConstraintViolated(table, rule, value)
        case StopReason.TOO_LONG:
            return errors.ValueOutOfRange(f"The value {_shorten(value)!r} is too long for {rule}. Shorten it in the statement.")
        case StopReason.OUT_OF_RANGE:
            return _range_error(value, rule, "Correct the value or widen the column")
        case StopReason.NO_UUID:
            return _range_error(value, rule, "Write a UUID such as 123e4567-e89b-12d3-a456-426614174000")
        case StopReason.WRONG_LENGTH:
            return _range_error(f"X'{value}'", rule, "Use a value of exactly this length")


def _range_error(value: str, column: str, advice: str) -> errors.ValueOutOfRange:
    """Return the error for a value that a column cannot store. `advice`: what the user can do about it."""
    return errors.ValueOutOfRange(f"The value {_shorten(value)} does not fit {column}. Nothing was written. {advice}.")


def _shorten(value: str) -> str:
    """Return a value for a message, truncated to 200 characters."""
    return value if len(value) <= 200 else f"{value[:200]}…"


def _unparsable(error: ParseException, text: str) -> errors.Unparsable:
    """Return the error for a statement that Spark cannot parse. Lines and columns are counted from 1."""
    position = re.search(r"\(line (\d+), pos (\d+)\)", str(error))
    line, column = (int(position[1]), int(position[2]) + 1) if position else (1, 1)
    reason = re.sub(r"\s*\(line \d+, pos \d+\)", "", _first_line(str(error))).rstrip(".")
    spark_text = str(error).partition("== SQL ==\n")[2].split("\n---", 1)[0]
    return errors.Unparsable(reason, text=spark_text or text, line=line, column=column)


def _first_line(message: str) -> str:
    """Return the first line of a message as a sentence, without the SQLSTATE."""
    line = message.strip().split("\n", 1)[0]
    return re.sub(r"\s*SQLSTATE: \w+", "", line).rstrip(" .;") + "."


def _unquoted(name: str) -> str:
    """Return a name from Spark's error parameters, without backquotes."""
    return name.strip().replace("`", "")
