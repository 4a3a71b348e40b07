"""The adapter response of a statement, which dbt records in run_results.json and prints on the console."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Dict, Optional

from dbt.adapters.contracts.connection import AdapterResponse

from rowmerge import FileReads, RowCounts, StatementOutcome


# dbt evaluates these annotations at run time, so they use the names of the module typing, as in dbt.
@dataclass
class RowmergeResponse(AdapterResponse):
    """The adapter response of a statement, with the numbers of changed rows and files. Fields that do not apply are None.

    `version` is the table's version after the statement, and `seconds` contains the duration of each stage. `retries` is the number of
    times that the statement was retried because a concurrent commit changed the table first.

    `files_read` and `bytes_read` describe the data files that the statement's queries read, in all tables together, after files were
    skipped. `files_total` and `bytes_total` describe all files of these tables, and are None if the metadata that was read does not tell.
    """

    rows_inserted: Optional[int] = None
    rows_updated: Optional[int] = None
    rows_deleted: Optional[int] = None
    version: Optional[int] = None
    files_added: Optional[int] = None
    files_removed: Optional[int] = None
    files_marked: Optional[int] = None  # files with a new deletion vector or position-delete file
    bytes_added: Optional[int] = None
    files_read: Optional[int] = None
    files_total: Optional[int] = None
    bytes_read: Optional[int] = None
    bytes_total: Optional[int] = None
    retries: Optional[int] = None
    seconds: Optional[Dict[str, float]] = None


def response_from(outcome: StatementOutcome) -> RowmergeResponse:
    """Return dbt's adapter response for the engine's outcome of a statement."""
    operation, changes = str(outcome.operation), outcome.changes
    reads = _counts_of_reads(outcome.reads)
    reads_phrase = _reads_phrase(reads)
    if changes is None:
        message = f"OK: {reads_phrase}" if reads_phrase else "OK"
        return RowmergeResponse(_message=message, code=operation, version=outcome.version, **reads)
    retries = outcome.attempts - 1
    return RowmergeResponse(
        _message=_console_line(operation, changes, reads_phrase, outcome.version, retries),
        code=operation,
        rows_affected=changes.affected,
        rows_inserted=changes.inserted,
        rows_updated=changes.updated,
        rows_deleted=changes.deleted,
        version=outcome.version,
        files_added=changes.files_added,
        files_removed=changes.files_removed,
        files_marked=changes.files_marked,
        bytes_added=changes.bytes_added,
        **reads,
        retries=retries,
        seconds={stage: round(duration, 3) for stage, duration in outcome.seconds.items()} or None,
    )


def _counts_of_reads(reads: Optional[FileReads]) -> Dict[str, Optional[int]]:
    """Return the counts of files and bytes by their names in the response; an empty dictionary without reads."""
    if reads is None:
        return {}
    files: Dict[str, Optional[int]] = {"files_read": reads.files, "files_total": reads.total_files}
    return {**files, "bytes_read": reads.size, "bytes_total": reads.total_size}


def _reads_phrase(reads: Mapping[str, Optional[int]]) -> str:
    """Return a phrase such as `read 3 of 1,826 files`, or an empty string if the tables have no files."""
    files, total = reads.get("files_read"), reads.get("files_total")
    if files is None or total == 0:
        return ""
    return f"read {count(files, 'file')}" if total is None else f"read {files:,} of {count(total, 'file')}"


def _console_line(operation: str, changes: RowCounts, reads_phrase: str, version: int | None, retries: int) -> str:
    """Return the line to print: `OK merge: 1,204 inserted, 310 updated, 3 files (1.2 MB), 2 marked, read 3 of 1,826 files, version 7`."""
    verb = operation.split(" ", 1)[0].lower()
    phrases = [*_row_phrases(verb, changes), *_file_phrases(changes)] or ["nothing to do"]
    if reads_phrase:
        phrases.append(reads_phrase)
    if version is not None:
        phrases.append(f"version {version}")
    if retries:
        phrases.append("1 retry" if retries == 1 else f"{retries:,} retries")
    return f"OK {verb}: {', '.join(phrases)}"


def _row_phrases(verb: str, changes: RowCounts) -> list[str]:
    """Return phrases for the changed rows, such as `1,204 rows` for a new table, or `310 updated` for other statements."""
    if verb in ("create", "replace"):
        return [count(changes.inserted, "row")]
    counts = {"inserted": changes.inserted, "updated": changes.updated, "deleted": changes.deleted}
    return [f"{number:,} {participle}" for participle, number in counts.items() if number]


def _file_phrases(changes: RowCounts) -> list[str]:
    """Return phrases for the changed files, such as `3 files (1.2 MB)` for new files. `changes`: the counts of rows, files and bytes.

    Removed files appear only if the statement does not add files or affect rows.
    """
    phrases = []
    if changes.files_added:
        # A shallow clone adds the files of another table and does not write any bytes.
        total_size = f" ({size(changes.bytes_added)})" if changes.bytes_added else ""
        phrases.append(f"{count(changes.files_added, 'file')}{total_size}")
    elif changes.files_removed and not changes.affected:
        phrases.append(f"{count(changes.files_removed, 'file')} removed")
    if changes.files_marked:  # A marked file has a new deletion vector or position-delete file.
        phrases.append(f"{changes.files_marked:,} marked")
    return phrases


def count(number: int, noun: str) -> str:
    """Return a number with its noun: `1 file`, `1,204 files`.

    Args:
        number: The number of items.
        noun: The noun in the singular. Its plural must end with `s`.
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def size(number: int) -> str:
    """Return a number of bytes with a decimal unit, such as `812 bytes` or `1.2 MB`."""
    value = float(number)
    for unit in ("bytes", "kB", "MB", "GB"):
        if value < 999.95:
            return count(number, "byte") if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1000
    return f"{value:,.1f} TB"
