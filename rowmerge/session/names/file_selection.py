"""The data files that a statement reads from each of its tables, by the conditions that were pushed down to the table.

Spark evaluates constants such as `current_date() - 7`. A condition with a subquery needs a query of its own (a dynamic filter). That query
must be cheap compared with the files that it can exclude.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rowmerge.plan.expressions.column_refs import rewrite, with_replacements
from rowmerge.plan.expressions.sides import Side
from rowmerge.plan.predicates.long_lists import shorten_lists
from rowmerge.plan.pruning.file_pruning import file_mask, key_mask, overlap_shares
from rowmerge.plan.queries.constants import constant_operands
from rowmerge.plan.queries.constraints import is_exact
from rowmerge.plan.queries.push_down import TableConditions
from rowmerge.plan.queries.subqueries import KeySource, has_query
from rowmerge.session.answers.results import TableScan
from rowmerge.spark.functions import BUILT_IN
from rowmerge.spark.reading.evaluation import distinct_values, evaluate, literals
from rowmerge.spark.time_zones import session_time_zone
from rowmerge.table.metadata.schema import backquote
from rowmerge.table.snapshots.files import FileListing, FileMask, MatchingFiles
from rowmerge.table.snapshots.snapshot import RowFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

logger = logging.getLogger(__name__)
_CALL = re.compile(r"([^\W\d]\w*)\s*\((\s*\))?")
"""A function name before a parenthesis, and the parenthesis that closes a call without arguments."""
_NOT_STABLE = re.compile(r"\b(?:current_time|localtime)\b", re.IGNORECASE)
_STABLE_CALLS = BUILT_IN | frozenset(
    "cast try_cast interval extract in and or not between like is decimal if date timestamp case when then else".split()
)
"""Built-in functions, and the keywords and types that may precede a parenthesis."""
OPEN_COST = 4 * 2**20
"""The number of bytes that take as long to read as opening a file, as in Spark's setting `spark.sql.files.openCostInBytes`."""
MIN_DYNAMIC_COST = 128 * 2**20
"""The least cost of the files that a dynamic filter may exclude. Reading cheaper files takes no more time than the filter's own query."""
MAX_KEY_SHARE = 1 / 8
"""The greatest share of this cost that the query for the keys of a dynamic filter may have."""
MAX_KEYS = 100_000
"""The maximum number of keys of a dynamic filter."""


class FileSelection:
    """The files of the tables of one statement that can contain a row for it.

    `files`: by placeholder, the files of each table with conditions. `values`: the literals by which the statement replaces subqueries, by
    the text of the subquery without parentheses.
    """

    def __init__(self, spark: SparkSession, snapshots: Mapping[str, RowFiles], conditions: TableConditions) -> None:
        """Select files by the conditions without subqueries.

        Args:
            spark: The session that evaluates constants.
            snapshots: The tables of the statement by placeholder.
            conditions: The conditions on each table.
        """
        self._spark, self._snapshots, self._conditions = spark, snapshots, conditions
        self._time_zone = session_time_zone(spark)
        self.files: dict[str, FileListing] = {}
        self.values: dict[str, str] = {}
        self._used: dict[str, list[str]] = {}
        self._all: dict[str, MatchingFiles] = {}
        texts = {name: [text for text in texts if not has_query(text)] for name, texts in conditions.by_table.items()}
        constants = _with_constant_values(spark, [text for table_texts in texts.values() for text in table_texts])
        for name in conditions.by_table:
            mask = self._mask(name, [constants[text] for text in texts[name]])
            self._all[name] = snapshots[name].files_matching(mask, self._columns_in_conditions(name))
            self.files[name] = self._all[name].listing

    def _columns_in_conditions(self, name: str) -> list[str]:
        """Return the columns of a table in its conditions, also in those that are evaluated later."""
        texts = " ".join(self._conditions.by_table[name])
        return [column for column in self._snapshots[name].schema.names if f".{backquote(column)}" in texts]

    def _mask(self, name: str, texts: Sequence[str]) -> FileMask:
        """Return the mask of the files of a table that can contain a row for which the conditions are true."""
        snapshot = self._snapshots[name]
        side = Side(name, (), snapshot.schema.names, qualified_only=True)
        self._used.setdefault(name, []).extend(self._unqualified(name, text) for text in texts)
        return file_mask(texts, side, snapshot.schema, snapshot.partition_columns, case_sensitive=True, time_zone=self._time_zone).mask

    def _unqualified(self, name: str, text: str) -> str:
        """Return a condition in which the columns of the table have no qualifier."""
        return text.replace(f"{backquote(name)}.", "")

    def apply_dynamic_filters(self, bound: Callable[[str], str], answer: Callable[[str], DataFrame | None]) -> None:
        """Evaluate the conditions with subqueries that can exclude many files, and exclude files by their values.

        Args:
            bound: The function that replaces the placeholders in the text of a query by names of Spark views over the selected files.
            answer: The function that returns the rows of a query from metadata, or None if it needs data files.
        """
        large = [name for name in self._conditions.by_table if self._dynamic_conditions(name) and self._is_worthwhile(name)]
        # Small tables first: their files are the keys of the larger ones.
        for name in sorted(large, key=lambda name: self.files[name].total_size):
            for text in self._dynamic_conditions(name):
                source = KeySource.parse(text)
                if source is not None:
                    self._exclude_by_keys(source, bound)
                else:
                    self._exclude_by_values(name, text, bound, answer)

    def _dynamic_conditions(self, name: str) -> list[str]:
        """Return the conditions on a table that contain a subquery."""
        return [text for text in self._conditions.by_table[name] if has_query(text)]

    def _explain_dynamic_filters(self, name: str) -> dict[str, str]:
        """Explain for each condition with a subquery whether it is evaluated when the query runs."""
        texts = self._dynamic_conditions(name) if len(self.files[name]) else []  # no file can be excluded if none is read
        return {self._unqualified(name, text): self._explain_dynamic_filter(name, text) for text in texts}

    def _explain_dynamic_filter(self, name: str, text: str) -> str:
        if not self._is_worthwhile(name):
            files = self.files[name]
            return f"not evaluated, because it could exclude at most {len(files)} file(s) with {files.total_size:,} bytes"
        source = KeySource.parse(text)
        reason = None if source is None else self._reason_against_keys(source)
        return "evaluated when the query runs (dynamic filter)" if reason is None else f"not evaluated, because {reason}"

    def _is_worthwhile(self, name: str) -> bool:
        """Return whether reading the files of a table takes so long that a query for a dynamic filter is worthwhile."""
        files = self.files[name]
        return len(files) > 1 and _cost(files) >= MIN_DYNAMIC_COST

    def _is_supported(self, source: KeySource) -> bool:
        """Return whether the keys have the type of the column, and equal values of this type are interchangeable."""
        field, key_field = (self._snapshots[name].schema.find(column) for name, column in source.columns)
        return field is not None and key_field is not None and field.type == key_field.type and is_exact(field.type)

    def _reason_against_keys(self, source: KeySource) -> str | None:
        """Return why the keys of another table are not used to exclude files, or None if they are used."""
        if not self._is_supported(source):
            return "the types of the columns differ"
        excludable_cost = self._excludable_cost(source)
        if excludable_cost < MIN_DYNAMIC_COST:
            return f"the files have much the same range of {backquote(source.column)}"
        key_files = self.files.get(source.key_table)
        key_cost = _cost(self._snapshots[source.key_table].files() if key_files is None else key_files)
        if key_cost > excludable_cost * MAX_KEY_SHARE:
            return f"the files of {self._snapshots[source.key_table].name} are not much smaller"
        return None

    def _excludable_cost(self, source: KeySource) -> float:
        """Return the cost of the files that keys may exclude. Keys hardly exclude files that all have the same range of the column."""
        files, snapshot = self.files[source.table], self._snapshots[source.table]
        shares = overlap_shares(source.column, files, snapshot.schema, snapshot.partition_columns)
        return float(((files.sizes.to_numpy() + OPEN_COST) * (1 - shares)).sum())

    def _exclude_by_keys(self, source: KeySource, bound: Callable[[str], str]) -> None:
        """Exclude the files of a table without any of the keys that another table has for the statement."""
        if self._reason_against_keys(source) is not None:
            return
        snapshot, files = self._snapshots[source.table], self.files[source.table]
        # A condition that is not stable could be true for other rows when the statement runs.
        key_texts = [text for text in self._conditions.by_table.get(source.key_table, ()) if not has_query(text) and _is_stable(text)]
        where = " where " + " and ".join(f"({text})" for text in key_texts) if key_texts else ""
        query = f"select {backquote(source.key_column)} from {bound(backquote(source.key_table))} as {backquote(source.key_table)}{where}"
        keys = distinct_values(self._spark, query, MAX_KEYS)
        if keys is None:
            return
        mask = key_mask((source.column,), "=", keys, False, snapshot.schema, snapshot.partition_columns).mask
        self.files[source.table] = files.filter(mask(files))
        self._used[source.table].append(f"{backquote(source.column)} IN ({len(keys)} keys of {self._snapshots[source.key_table].name})")

    def _exclude_by_values(self, name: str, text: str, bound: Callable[[str], str], answer: Callable[[str], DataFrame | None]) -> None:
        """Exclude the files of a table by a condition with subqueries, whose values also replace the subqueries in the statement."""
        for query in self._conditions.values:
            if query in text and query not in self.values:
                rows = answer(query)
                (literal,) = evaluate(self._spark, [f"({bound(query)})"]) if rows is None else literals(rows)
                if literal is None:
                    return
                self.values[query] = literal
        condition = self.with_values(text)
        mask = self._mask(name, [_with_constant_values(self._spark, [condition])[condition]])
        self.files[name] = self.files[name].filter(mask(self.files[name]))

    def with_values(self, text: str) -> str:
        """Return a text in which the evaluated subqueries are replaced by their values."""
        return with_replacements(text, self.values)

    def scan(self, name: str, *, explains: bool) -> TableScan:
        """Return the scan of a table with conditions. `explains`: whether it explains the conditions with subqueries."""
        conditions, matching = tuple(self._used.get(name, ())), replace(self._all[name], listing=self.files[name])
        scan = TableScan(self._snapshots[name], conditions, matching, self._explain_dynamic_filters(name) if explains else {})
        logger.debug("%s: reads %s of %s files for %s", scan.snapshot.name, scan.files, scan.total_files, " AND ".join(conditions))
        return scan

    def selected(self, name: str) -> FileListing | None:
        """Return the files of a table, or None if the statement reads all of them."""
        files = self.files.get(name)
        return None if files is None or len(files) == self._all[name].total_files else files


def _cost(files: FileListing) -> int:
    """Return the cost of reading files, in bytes."""
    return files.total_size + len(files) * OPEN_COST


def with_constant_values(spark: SparkSession, condition: str, columns: Sequence[str]) -> str:
    """Return a condition with its constant operands, such as `current_date() - 7`, replaced by their values.

    Args:
        spark: The session that evaluates the constants.
        condition: The SQL condition.
        columns: The columns that it can use.
    """
    return _with_constant_values(spark, [condition], columns)[condition]


def _with_constant_values(spark: SparkSession, texts: Sequence[str], columns: Sequence[str] | None = None) -> dict[str, str]:
    """Return each condition with its constant operands replaced by their values, which one query of Spark returns.

    `columns`: the columns that the conditions can use, or None if each column in them is in backquotes.
    """
    short_texts = {text: shorten_lists(text) for text in texts}
    spans = {text: constant_operands(text, columns) for text, _ in short_texts.values()}
    operands = list(dict.fromkeys(text[start:end] for text in spans for start, end in spans[text] if _is_stable(text[start:end])))
    values = dict(zip(operands, evaluate(spark, operands), strict=True)) if operands else {}

    def evaluated(text: str) -> str:
        return rewrite(text, ((start, end, values.get(text[start:end]) or text[start:end]) for start, end in spans[text]))

    return {text: with_replacements(evaluated(short_text), lists) for text, (short_text, lists) in short_texts.items()}


def _is_stable(operand: str) -> bool:
    """Return whether an operand has the same value now and when the statement runs: it calls only built-in functions with arguments.

    A user's function may return another value each time. Functions without arguments, such as `unix_timestamp()`, can depend on the time.
    """
    if _NOT_STABLE.search(operand):
        return False
    return all(not end and name.lower() in _STABLE_CALLS for name, end in _CALL.findall(operand))
