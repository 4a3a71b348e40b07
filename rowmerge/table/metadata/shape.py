"""The definition of a table in a statement, and the shape of a table for readers and writers of data files."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from rowmerge.errors import RowsMustStay
from rowmerge.storage.configuration import FilesystemOptions
from rowmerge.table.metadata.partitioning import Distribution, PartitionField, SortField
from rowmerge.table.metadata.rules import Rules
from rowmerge.table.metadata.schema import DataType, Field, Struct
from rowmerge.table.metadata.settings import TableSettings


@dataclass(frozen=True)
class TableDefinition:
    """The definition of a table: its columns, partitioning, properties and rules. None leaves a value unchanged."""

    schema: Struct | None = None
    partitioning: tuple[PartitionField, ...] | None = None
    properties: Mapping[str, str] | None = None
    description: str | None = None
    checks: Mapping[str, str] | None = None
    """The complete CHECK constraints, SQL text by name."""
    ordering: tuple[SortField, ...] | None = None
    distribution: Distribution | None = None


@dataclass(frozen=True)
class TableShape:
    """The columns, the partitioning and the data files of an existing version of a table, or of the version that a commit will make.

    `name`: for messages, the catalog's name or the location. `location`, `data_location`: the folders of the table and of its new data
    files. These paths are absolute and not percent-encoded. They have a scheme and no slash at the end (`file:///w/analytics/orders`).
    `stored_schema`: the columns of `schema` as in data files. Names may differ at every level, and fields may have a FIELD_ID.
    `by_field_id`: readers find columns by FIELD_ID alone, whatever their names in a file are.
    `partitioning`: the partition fields of new data files. `partition_values_in_files`: data files hold the partition columns too.
    `filesystem_options`: the arguments of Arrow filesystems that hold the data files, by kind of store. They may contain secrets.
    `row_lineage`: the hidden columns of rows that move to another file, None for a table without row lineage.
    `change_data_location`: the folder for change data files, None if commits write none.
    `rewrite_blocker`: the table feature that forbids rows to move to another file, None if rows may move.
    `supports_merge_on_read`: a commit may mark rows of a file as deleted, by a deletion vector or by a position delete file.
    `supports_initial_defaults`: a new column may have a default value for the rows that exist already.
    `can_widen`: whether a column of one type (a leaf) may change to another type while its files stay. Arguments: old type, new type.
    """

    name: str
    location: str
    data_location: str
    schema: Struct
    stored_schema: Struct
    by_field_id: bool
    partitioning: tuple[PartitionField, ...]
    partition_values_in_files: bool
    settings: TableSettings
    filesystem_options: FilesystemOptions = field(default_factory=FilesystemOptions, repr=False, compare=False)
    row_lineage: Lineage | None = None
    change_data_location: str | None = None
    rewrite_blocker: str | None = None
    supports_merge_on_read: bool = True
    supports_initial_defaults: bool = False
    can_widen: Callable[[DataType, DataType], bool] = field(default=lambda old, new: False, compare=False)
    parse_rules: Callable[[], Rules] = field(default=Rules, compare=False)
    parse_ordering: Callable[[], tuple[SortField, ...]] = field(default=tuple, compare=False)

    @cached_property
    def rules(self) -> Rules:
        """The rules for every written row. Raises UnsupportedTableFeature for an unknown rule. Such a table can still be read."""
        return self.parse_rules()

    @cached_property
    def ordering(self) -> tuple[SortField, ...]:
        """The sort order of rows in new data files. Raises UnsupportedTableFeature for an unknown transform, as `rules` does."""
        return self.parse_ordering()

    def check_rows_may_move(self, action: str) -> None:
        """Check that rows may move to another file. `action` describes the statement in the error, such as "rewrite files of".

        Raises:
            RowsMustStay: A feature of the table, such as Delta's row tracking, forbids it.
        """
        if self.rewrite_blocker is not None:
            raise RowsMustStay(self.name, self.rewrite_blocker, action)


@dataclass(frozen=True)
class Lineage:
    """The hidden columns of data files for rows that come from other files: a row's id, and the version that last changed it.

    The columns have their names in data files, as in `stored_schema`. If they are null or the file lacks them, `RowOrigin` has the values.
    """

    row_id: Field
    changed_in: Field
