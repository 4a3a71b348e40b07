"""All errors that the engine raises, in one class tree. Each has its own fields, and a message that ends with what to do.

docs/errors.md is generated from the docstrings: the cause, a paragraph `Remedy: …`, and the fields. The page follows the order of these
imports.
"""

# ruff: noqa: I001 - see above
from rowmerge.errors.base import RowmergeError as RowmergeError
from rowmerge.errors.statements import (
    StatementError as StatementError,
    Unparsable as Unparsable,
    UnsupportedStatement as UnsupportedStatement,
    PlanError as PlanError,
    UnknownColumn as UnknownColumn,
    AmbiguousColumn as AmbiguousColumn,
    TypeMismatch as TypeMismatch,
    RowError as RowError,
    MultipleSourceRowsMatch as MultipleSourceRowsMatch,
    ConstraintViolated as ConstraintViolated,
    ConstraintNotFound as ConstraintNotFound,
    ValueOutOfRange as ValueOutOfRange,
)
from rowmerge.errors.tables import (
    TableError as TableError,
    TableNotFound as TableNotFound,
    FunctionNotFound as FunctionNotFound,
    SchemaNotFound as SchemaNotFound,
    AlreadyExists as AlreadyExists,
    AppendOnly as AppendOnly,
    VersionNotFound as VersionNotFound,
    ChangesNotRecorded as ChangesNotRecorded,
    IncompatibleSchemaChange as IncompatibleSchemaChange,
    UnsupportedTableFeature as UnsupportedTableFeature,
    RowsMustStay as RowsMustStay,
    CorruptLog as CorruptLog,
    ChecksumMismatch as ChecksumMismatch,
    MissingDataFile as MissingDataFile,
    LiveFileProtected as LiveFileProtected,
    FilesNotFound as FilesNotFound,
    UnreadableDataFile as UnreadableDataFile,
)
from rowmerge.errors.commits import (
    CommitConflict as CommitConflict,
    ConcurrentAppend as ConcurrentAppend,
    ConcurrentDeleteRead as ConcurrentDeleteRead,
    ConcurrentDeleteDelete as ConcurrentDeleteDelete,
    MetadataChanged as MetadataChanged,
    ProtocolChanged as ProtocolChanged,
    ConcurrentTransaction as ConcurrentTransaction,
    CommitStateUnknown as CommitStateUnknown,
)
from rowmerge.errors.environment import (
    StorageError as StorageError,
    ConditionalPutsUnsupported as ConditionalPutsUnsupported,
    NotDurable as NotDurable,
    CatalogFailed as CatalogFailed,
    ConfigurationError as ConfigurationError,
    SparkTooOld as SparkTooOld,
    SparkFailed as SparkFailed,
)
