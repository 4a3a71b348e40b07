"""The definition of a table in a statement, and the resulting shape for readers and writers of data files."""

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
class IdentifierChange:
    """SET or DROP IDENTIFIER FIELDS of an Iceberg table. `columns`: the paths of the fields. SET replaces all identifier fields."""

    columns: tuple[tuple[str, ...], ...]
    drop: bool


@dataclass(frozen=True)
class TableDefinition:
    """The definition of a table in a statement: columns, partitioning, properties and rules. Values that are None stay unchanged."""

    schema: Struct | None = None
    partitioning: tuple[PartitionField, ...] | None = None
    properties: Mapping[str, str] | None = None
    description: str | None = None
    checks: Mapping[str, str] | None = None
    """The complete set of CHECK constraints: SQL conditions by name."""
    ordering: tuple[SortField, ...] | None = None
    distribution: Distribution | None = None
    identifiers: IdentifierChange | None = None
    highest_column_id: int = 0
    """For a Delta table of existing files with field ids, the highest id that a column of the files had, which no new column may get."""


@dataclass(frozen=True)
class TableShape:
    """The columns, partitioning and data files of an existing version of a table, or of the version that a commit will create.

    `name`: the table's name in the catalog or its location, for messages. `location`, `data_location`: the folders of the table and of its
    new data files. These paths are absolute and not percent-encoded, with a scheme and no trailing slash (`file:///w/analytics/orders`).
    `stored_schema`: the columns of `schema` as in data files. Names may differ at every level, and fields may have a FIELD_ID.
    `by_field_id`: whether readers identify columns only by FIELD_ID, regardless of their names in a file.
    `partitioning`: the partition fields of new data files. `partition_values_in_files`: whether data files contain partition columns.
    `filesystem_options`: the arguments for Arrow filesystems with the data files, by kind of store. They may contain secrets.
    `row_lineage`: the hidden columns of rows that move to another file, or None for a table without row lineage.
    `change_data_location`: the folder for change data files, or None if commits do not write them.
    `rewrite_blocker`: the table feature that prevents rows from moving to another file, or None if rows may move.
    `kind_of_deletes`: what marks rows of a file as deleted: a deletion vector or a position delete file.
    `supports_merge_on_read`: whether a commit may write such deletes.
    `supports_initial_defaults`: whether a new column may have a default value for existing rows.
    `can_widen`: returns whether a leaf column may change from an old type to a new type without rewriting its files.
    `parse_rules`, `parse_ordering`: return the values of `rules` and `ordering` on first use.
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
    kind_of_deletes: str = "deletion vector"
    supports_merge_on_read: bool = True
    supports_initial_defaults: bool = False
    can_widen: Callable[[DataType, DataType], bool] = field(default=lambda old, new: False, compare=False)
    identifiers: tuple[tuple[str, ...], ...] = ()
    """The paths of the identifier fields of an Iceberg table."""
    parse_rules: Callable[[], Rules] = field(default=Rules, compare=False)
    parse_ordering: Callable[[], tuple[SortField, ...]] = field(default=tuple, compare=False)

    @property
    def shares_deletion_files(self) -> bool:
        """Whether a commit lists the deleted rows of many data files in one file.

        It does so with deletion vectors. By default, each data file has a position delete file of its own.
        """
        return self.kind_of_deletes == "deletion vector"

    @cached_property
    def rules(self) -> Rules:
        """The rules for every written row. Raises UnsupportedTableFeature if a rule is unknown. Such a table can still be read."""
        return self.parse_rules()

    @cached_property
    def ordering(self) -> tuple[SortField, ...]:
        """The sort order of rows in new data files. Raises UnsupportedTableFeature if a transform is unknown."""
        return self.parse_ordering()

    def check_rows_may_move(self, action: str) -> None:
        """Check that rows may move to another file. `action` describes the statement in the error, for example "rewrite files of".

        Raises:
            RowsMustStay: A feature of the table, such as Delta's row tracking, prevents this.
        """
        if self.rewrite_blocker is not None:
            raise RowsMustStay(self.name, self.rewrite_blocker, action)


@dataclass(frozen=True)
class Lineage:
    """The hidden columns in data files for rows from other files: the id of a row, and the version that last changed the row.

    The fields have their names in data files, as in `stored_schema`. If they are null or missing in a file, `RowOrigin` has the values.
    """

    row_id: Field
    changed_in: Field
