"""Settings of the pages and columns of Parquet files. The names of the properties are those of Iceberg (`write.parquet.*`)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.errors import ConfigurationError
from rowmerge.table.metadata.property_registry import TableProperty
from rowmerge.table.metadata.property_values import BOOLEAN, POSITIVE_NUMBER, PROBABILITY, Values, whole_number

_SIZE: Values[int] = whole_number(1, 2**31 - 1)
"""Iceberg stores sizes and numbers of rows of pages in 32 bits."""
_SINCE = "0.3.0"


def _page_version(text: str) -> str:
    versions = {"v1": "1.0", "v2": "2.0"}
    if text.lower() not in versions:
        raise ValueError(f"{text!r} is not a version of pages")
    return versions[text.lower()]


@dataclass(frozen=True)
class PageProperties:
    """The table properties about the pages of one kind of Parquet files. Its members are those of `PageSettings`."""

    size: TableProperty[int]
    row_limit: TableProperty[int]
    version: TableProperty[str]
    dictionary_size: TableProperty[int]

    @classmethod
    def below(cls, prefix: str, subject: str) -> PageProperties:
        """Define the properties.

        Args:
            prefix: The beginning of their names: `write.parquet.` for data files, `write.delete.parquet.` for delete files.
            subject: The name of the files in their documentation.
        """
        texts = {
            "page-size-bytes": f"the size of data pages in {subject}; by default 1 MiB",
            "page-row-limit": f"the most rows of a data page in {subject}; it needs PyArrow 23",
            "page-version": f"the version of data pages in {subject}",
            "dict-size-bytes": f"the size in bytes at which a column of {subject} stops to use its dictionary",
        }
        size, row_limit, version, dictionary_size = ((f"{prefix}{name}", text) for name, text in texts.items())
        return cls(
            TableProperty(size[0], _SIZE, size[1], since=_SINCE),
            TableProperty(row_limit[0], _SIZE, row_limit[1], since=_SINCE),
            TableProperty(version[0], Values("v1 or v2", _page_version), version[1], since=_SINCE),
            TableProperty(dictionary_size[0], _SIZE, dictionary_size[1], since=_SINCE),
        )

    @property
    def all(self) -> tuple[TableProperty[int], TableProperty[int], TableProperty[str], TableProperty[int]]:
        """All four properties."""
        return self.size, self.row_limit, self.version, self.dictionary_size


DATA_PAGES = PageProperties.below("write.parquet.", "data files")
DELETE_PAGES = PageProperties.below("write.delete.parquet.", "position-delete files")
DICTIONARIES = TableProperty(
    "write.parquet.dict-encoding-enabled.column.<column>",
    BOOLEAN,
    "`false`: the column has no dictionary; otherwise it has one unless most of its values are different",
    since=_SINCE,
)
STATISTICS = TableProperty(
    "write.parquet.stats-enabled.column.<column>",
    BOOLEAN,
    "`false`: the column has no statistics in data files, and no bounds and null counts in manifests",
    since=_SINCE,
)
BLOOM_FILTERS = TableProperty(
    "write.parquet.bloom-filter-enabled.column.<column>",
    BOOLEAN,
    "`true`: row groups have a Bloom filter of the column, unless it has floating-point numbers or Booleans; it needs PyArrow 24",
    since=_SINCE,
)
FALSE_POSITIVES = TableProperty(
    "write.parquet.bloom-filter-fpp.column.<column>",
    PROBABILITY,
    "the probability with which a Bloom filter does not exclude a row group without a value; by default 0.01",
    since=_SINCE,
)
DISTINCT_VALUES = TableProperty(
    "write.parquet.bloom-filter-ndv.column.<column>",
    POSITIVE_NUMBER,
    "the number of distinct values for which a Bloom filter is made; by default the number of rows",
    since=_SINCE,
)
BLOOM_FILTER_BYTES = TableProperty(
    "write.parquet.bloom-filter-max-bytes", _SIZE, "the maximum size of a Bloom filter", "1048576", since=_SINCE
)
COLUMN_PROPERTIES = (DICTIONARIES, STATISTICS, BLOOM_FILTERS, FALSE_POSITIVES, DISTINCT_VALUES)
"""The properties whose names end with the name of a column."""
PARQUET_PROPERTIES = (*DATA_PAGES.all, *DELETE_PAGES.all, *COLUMN_PROPERTIES, BLOOM_FILTER_BYTES)


@dataclass(frozen=True)
class PageSettings:
    """The pages of Parquet files. A setting is None if the table does not define it.

    `size`: the size of a data page in bytes. `row_limit`: the largest number of rows in a data page. `version`: the version of data pages,
    `1.0` or `2.0`. `dictionary_size`: the size in bytes at which the writer stops to use a dictionary.
    """

    size: int | None = None
    row_limit: int | None = None
    version: str | None = None
    dictionary_size: int | None = None

    @classmethod
    def of(cls, properties: Mapping[str, str], names: PageProperties) -> PageSettings:
        """Read the settings from a table's properties.

        Args:
            properties: The properties of the table.
            names: The properties to read: DATA_PAGES or DELETE_PAGES.

        Raises:
            ConfigurationError: A value is invalid, or the installed PyArrow cannot write such pages.
        """
        row_limit = names.row_limit.parse(properties)
        if row_limit is not None:
            _require_writer_option("max_rows_per_page", names.row_limit.name, "23")
        return cls(
            names.size.parse(properties),
            row_limit,
            names.version.parse(properties),
            names.dictionary_size.parse(properties),
        )

    def or_else(self, defaults: PageSettings) -> PageSettings:
        """Return these settings, with `defaults` for those that are None."""
        return PageSettings(
            size=self.size or defaults.size,
            row_limit=self.row_limit or defaults.row_limit,
            version=self.version or defaults.version,
            dictionary_size=self.dictionary_size or defaults.dictionary_size,
        )

    @property
    def writer_arguments(self) -> dict[str, int | str]:
        """The arguments of PyArrow's Parquet writer for the settings that the table defines."""
        arguments = {
            "data_page_size": self.size,
            "max_rows_per_page": self.row_limit,
            "data_page_version": self.version,
            "dictionary_pagesize_limit": self.dictionary_size,
        }
        return {name: value for name, value in arguments.items() if value is not None}


@dataclass(frozen=True)
class BloomFilterSettings:
    """The Bloom filter of a column, which lets readers skip row groups without a value.

    `false_positive_rate`: the probability that the filter of a row group without a value does not exclude it. `distinct_values`: the
    number of values for which the filter has this rate. If it is None, the writer uses the number of rows.
    """

    false_positive_rate: float = 0.01
    distinct_values: int | None = None


@dataclass(frozen=True)
class ColumnSettings:
    """Settings of single columns in Parquet files, by their names in the table, such as `a.b`. Names of other columns have no effect.

    `without_dictionary`, `without_statistics`: the columns without dictionaries and without statistics. `bloom_filters`: the columns with
    Bloom filters. `bloom_filter_bytes`: the maximum size in bytes of a Bloom filter.
    """

    without_dictionary: frozenset[str] = frozenset()
    without_statistics: frozenset[str] = frozenset()
    bloom_filters: Mapping[str, BloomFilterSettings] = field(default_factory=dict, hash=False)
    bloom_filter_bytes: int = 1024 * 1024

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> ColumnSettings:
        """Read the settings from a table's properties. As in Iceberg, a column without a property has a dictionary and statistics.

        Raises:
            ConfigurationError: A value is invalid, or the installed PyArrow cannot write Bloom filters.
        """
        rates, distinct_values = FALSE_POSITIVES.parse_all(properties), DISTINCT_VALUES.parse_all(properties)
        names = [name for name, is_enabled in BLOOM_FILTERS.parse_all(properties).items() if is_enabled]
        if names:
            _require_writer_option("bloom_filter_options", f"{BLOOM_FILTERS.prefix}{names[0]}", "24")
        return cls(
            without_dictionary=_disabled_columns(properties, DICTIONARIES),
            without_statistics=_disabled_columns(properties, STATISTICS),
            bloom_filters={
                name: BloomFilterSettings(rates.get(name, BloomFilterSettings.false_positive_rate), distinct_values.get(name))
                for name in names
            },
            bloom_filter_bytes=BLOOM_FILTER_BYTES.value(properties),
        )


def _disabled_columns(properties: Mapping[str, str], property_: TableProperty[bool]) -> frozenset[str]:
    """Return the columns whose property is false."""
    return frozenset(name for name, is_enabled in property_.parse_all(properties).items() if not is_enabled)


def _require_writer_option(option: str, name: str, version: str) -> None:
    """Raise ConfigurationError if PyArrow's Parquet writer lacks an option.

    Args:
        option: The argument of the writer.
        name: The table property that needs the option.
        version: The first version of PyArrow with the option.
    """
    if option not in inspect.signature(pq.ParquetWriter.__init__).parameters:
        raise ConfigurationError(
            f"The table property {name} requires PyArrow {version}, but PyArrow {pa.__version__} is installed. "
            f"Install PyArrow {version} or newer, or remove the property."
        )
