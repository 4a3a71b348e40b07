"""What a way of execution is, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NewType

from rowmerge.execution.ways.request import Request
from rowmerge.execution.ways.target_files import TargetFiles
from rowmerge.spark.source.source import Source
from rowmerge.spark.writing.written import Written
from rowmerge.table.snapshots.files import FileMask, Positions

Reason = NewType("Reason", str)
"""A short clause that EXPLAIN prints: why a way does not apply."""


@dataclass(frozen=True)
class ExecutionResult:
    """The rows of one statement, written but not committed.

    `files`: the files of the target that the way considered; `source`: the evaluated source, or None if the statement has none;
    `deciding_rows`: positions of unchanged target rows that decided the result, by path, or None if every row that was read did;
    `matching`: the mask of files of concurrent commits that hold rows which the statement would have read.
    """

    written: Written
    files: TargetFiles
    source: Source | None
    deciding_rows: Mapping[str, Positions] | None
    matching: FileMask


@dataclass(frozen=True)
class NotApplicable:
    """The discovery during `run` that a way does not apply. `written`: the files that it wrote in vain."""

    reason: Reason
    written: Written = field(default_factory=Written)


@dataclass(frozen=True)
class Way:
    """One way to execute a row-level statement.

    `why_not_applicable` returns None if the way applies. The function reads metadata only and runs no Spark job.
    `run` finds and writes the rows. `unless` completes the sentence "run returns NotApplicable if", and is "" if `run` never does.
    """

    name: str
    why_not_applicable: Callable[[Request], Reason | None]
    run: Callable[[Request], ExecutionResult | NotApplicable]
    unless: str = ""
