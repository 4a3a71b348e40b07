"""The options of a query with the format `rowmerge`: where the table is, and what to read or how to write."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from functools import partial

from rowmerge.catalog import Catalog, DirectoryCatalog, IcebergCatalog, TablesByPath
from rowmerge.catalog.layout import TableFolder, inspect_folder
from rowmerge.catalog.names import normalize_location
from rowmerge.errors import ConfigurationError, FilesNotFound
from rowmerge.errors.base import suggest_names
from rowmerge.sql import parse_table_name
from rowmerge.storage.configuration import StorageConfiguration
from rowmerge.storage.store import Storage
from rowmerge.table.table import Table

TABLE = ("path", "table", "warehouse")
"""The options that name the table, beside those with a prefix: `catalog.` for pyiceberg and `storage.` for object stores."""
BATCH_READ = ("versionAsOf", "timestampAsOf")
STREAM_READ = (
    *("startingVersion", "startingTimestamp", "stream-from-timestamp", "skipChangeCommits"),
    *("maxFilesPerTrigger", "streaming-max-files-per-micro-batch"),
)
STREAM_WRITE = ("txnAppId", "mergeSchema", "checkpointLocation")
_CATALOG, _STORAGE = "catalog.", "storage."
_ADVICE = {
    "ignoredeletes": "Use skipChangeCommits, which skips each version that deletes or changes rows.",
    "ignorechanges": "Use skipChangeCommits, which skips each version that deletes or changes rows.",
    "streaming-skip-delete-snapshots": "Use skipChangeCommits, which skips each version that deletes or changes rows.",
    "streaming-skip-overwrite-snapshots": "Use skipChangeCommits, which skips each version that deletes or changes rows.",
    "readchangefeed": "Read the change data feed with table_changes(…) in SQL.",
    "readchangedata": "Read the change data feed with table_changes(…) in SQL.",
    "maxbytespertrigger": "Use maxFilesPerTrigger.",
    "streaming-max-rows-per-micro-batch": "Use maxFilesPerTrigger.",
    "txnversion": "The number of the batch is the version of the transaction. Set only txnAppId.",
    "partitionby": "The table has its own partitioning.",
}
"""Advice for options of other formats, by lower-case name."""


@dataclass(frozen=True)
class Options:
    """The options of a query by lower-case name, as PySpark passes them. Their values may be secrets, so they are not in messages."""

    values: Mapping[str, str] = field(repr=False)

    def check_names(self, names: Collection[str]) -> None:
        """Check that the query has no unknown options.

        Args:
            names: The names that the query may set, beside those of TABLE.

        Raises:
            ConfigurationError: An option has another name.
        """
        allowed_names = (*TABLE, *names)
        for name in self.values:
            if name.startswith((_CATALOG, _STORAGE)) or name in map(str.lower, allowed_names):
                continue
            advice = _ADVICE.get(name) or suggest_names(name, allowed_names)
            raise ConfigurationError(f"The format rowmerge has no option {name} here. {advice}")

    def text(self, *names: str) -> str | None:
        """Return the value of an option, or None if it is not set.

        Args:
            names: The names of the option.

        Raises:
            ConfigurationError: The query sets two of the names.
        """
        given_names = [name for name in names if name.lower() in self.values]
        if len(given_names) > 1:
            raise ConfigurationError(f"The options {' and '.join(given_names)} mean the same. Set only one of them.")
        return self.values[given_names[0].lower()] if given_names else None

    def flag(self, name: str) -> bool:
        """Return whether an option is `true`.

        Args:
            name: The name of the option.

        Raises:
            ConfigurationError: The value is neither `true` nor `false`.
        """
        value = (self.text(name) or "false").lower()
        if value not in ("true", "false"):
            raise ConfigurationError(f"The option {name} is {value!r}. Set it to true or false.")
        return value == "true"

    def number(self, *names: str, least: int = 0) -> int | None:
        """Return the value of an option as a whole number, or None if it is not set.

        Args:
            names: The names of the option.
            least: The least allowed number.

        Raises:
            ConfigurationError: The value is not a whole number or too small.
        """
        text = self.text(*names)
        if text is None:
            return None
        if not re.fullmatch(r"\d{1,19}", text) or int(text) < least:
            raise ConfigurationError(f"The option {names[0]} is {text!r}. Set it to a whole number, {least} or greater.")
        return int(text)

    def time(self, *names: str) -> int | None:
        """Return a time in milliseconds since the epoch, or None if the option is not set.

        Args:
            names: The names of the option. Its value is such a number, or a time with an offset from UTC.

        Raises:
            ConfigurationError: The value is neither. The worker does not know the time zone of the session, so a time needs an offset.
        """
        text = self.text(*names)
        if text is None or re.fullmatch(r"\d{1,19}", text):
            return None if text is None else int(text)
        try:
            moment = datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text))  # Python 3.10 does not parse the suffix Z
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            advice = "Set it to a time with an offset, such as 2024-01-31 12:00:00+00:00, or to milliseconds since 1970."
            raise ConfigurationError(f"The option {names[0]} is {text!r}. {advice}")
        return int((moment - datetime(1970, 1, 1, tzinfo=timezone.utc)).total_seconds() * 1000)

    def open_table(self) -> Table:
        """Return the table of the query, which must exist.

        Raises:
            ConfigurationError: The options do not name one table.
            TableNotFound, FilesNotFound: The table does not exist.
        """
        path, name = self.text("path"), self.text("table")
        if (path is None) is (name is None):
            advice = "Set either path, the folder of a table, or table, a name in a catalog or a warehouse."
            raise ConfigurationError(f"The options must name one table. {advice}")
        open_storage = partial(Storage, options=StorageConfiguration.parse(self._with_prefix(_STORAGE)))
        if name is not None:
            parts = parse_table_name(name).parts
            schema, table = parts if len(parts) == 2 else ("default", *parts[-1:])
            if len(parts) > 2:
                raise ConfigurationError(f"The option table is {name!r}. Set it to schema.table.")
            return self._open_catalog(open_storage).open(schema, table)
        assert path is not None
        if self.text("warehouse") is not None or self._with_prefix(_CATALOG):
            raise ConfigurationError("The option path names the folder of a table. With warehouse or a catalog, set table instead.")
        content = inspect_folder(open_storage(normalize_location(path)))
        if not isinstance(content, TableFolder):
            raise FilesNotFound(path, "table", "Check that the path is the table's own folder.")
        return TablesByPath(open_storage).open(path, content.format, path)

    def _open_catalog(self, open_storage: partial[Storage]) -> Catalog:
        """Return the catalog, or the warehouse folder if no option has the prefix of catalogs. Raises ConfigurationError without both."""
        warehouse, configuration = self.text("warehouse"), self._with_prefix(_CATALOG)
        if configuration:
            return IcebergCatalog(configuration, warehouse, open_storage)
        if warehouse is None:
            advice = "Set warehouse, or catalog.type and the other settings of a catalog of pyiceberg."
            raise ConfigurationError(f"The option table needs the catalog or the warehouse of the table. {advice}")
        return DirectoryCatalog(open_storage(warehouse))

    def _with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the options with a prefix, by their names without it."""
        return {name.removeprefix(prefix): value for name, value in self.values.items() if name.startswith(prefix)}
