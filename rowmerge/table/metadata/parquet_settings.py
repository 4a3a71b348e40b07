"""Settings of the pages and columns of Parquet files. The names of the properties are those of Iceberg (`write.parquet.*`)."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.errors import ConfigurationError

DICTIONARY_PREFIX = "write.parquet.dict-encoding-enabled.column."
STATISTICS_PREFIX = "write.parquet.stats-enabled.column."
BLOOM_FILTER_PREFIX = "write.parquet.bloom-filter-enabled.column."
FALSE_POSITIVES_PREFIX = "write.parquet.bloom-filter-fpp.column."
DISTINCT_VALUES_PREFIX = "write.parquet.bloom-filter-ndv.column."
BLOOM_FILTER_BYTES = "write.parquet.bloom-filter-max-bytes"
COLUMN_PREFIXES = (DICTIONARY_PREFIX, STATISTICS_PREFIX, BLOOM_FILTER_PREFIX, FALSE_POSITIVES_PREFIX, DISTINCT_VALUES_PREFIX)
"""The prefixes of properties whose names end with the name of a column."""
_T = TypeVar("_T")
_PAGE_VERSIONS = {"v1": "1.0", "v2": "2.0"}
_LARGEST_INT, _LARGEST_LONG = 2**31 - 1, 2**63 - 1
"""The largest values that Iceberg accepts: for sizes, and for the number of distinct values."""


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
    def of(cls, properties: Mapping[str, str], prefix: str) -> PageSettings:
        """Read the settings from a table's properties.

        Args:
            properties: The properties of the table.
            prefix: The prefix of the properties: `write.parquet.` for data files, `write.delete.parquet.` for delete files.

        Raises:
            ConfigurationError: A value is invalid, or the installed PyArrow cannot write such pages.
        """
        row_limit = parse_positive_number(properties, f"{prefix}page-row-limit")
        if row_limit is not None:
            _require_writer_option("max_rows_per_page", f"{prefix}page-row-limit", "23")
        return cls(
            size=parse_positive_number(properties, f"{prefix}page-size-bytes"),
            row_limit=row_limit,
            version=_parse_page_version(properties, f"{prefix}page-version"),
            dictionary_size=parse_positive_number(properties, f"{prefix}dict-size-bytes"),
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
        has_bloom_filter = _values_by_column(properties, BLOOM_FILTER_PREFIX, parse_flag)
        rates = _values_by_column(properties, FALSE_POSITIVES_PREFIX, _parse_rate)
        distinct_values = _values_by_column(properties, DISTINCT_VALUES_PREFIX, _parse_distinct_values)
        names = [name for name, is_enabled in has_bloom_filter.items() if is_enabled]
        if names:
            _require_writer_option("bloom_filter_options", f"{BLOOM_FILTER_PREFIX}{names[0]}", "24")
        return cls(
            without_dictionary=_disabled_columns(properties, DICTIONARY_PREFIX),
            without_statistics=_disabled_columns(properties, STATISTICS_PREFIX),
            bloom_filters={
                name: BloomFilterSettings(rates.get(name, BloomFilterSettings.false_positive_rate), distinct_values.get(name))
                for name in names
            },
            bloom_filter_bytes=parse_positive_number(properties, BLOOM_FILTER_BYTES) or cls.bloom_filter_bytes,
        )


def parse_positive_number(properties: Mapping[str, str], name: str, largest: int = _LARGEST_INT) -> int | None:
    """Return a property as a whole number, or None if it is not set.

    Args:
        properties: The properties of the table.
        name: The name of the property.
        largest: The largest valid number.

    Raises:
        ConfigurationError: The value is not a whole number from 1 to `largest`.
    """
    value = properties.get(name)
    if value is None:
        return None
    if not re.fullmatch(r"\s*\d{1,19}\s*", value) or not 1 <= int(value) <= largest:
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a whole number from 1 to {largest}.")
    return int(value)


def parse_flag(properties: Mapping[str, str], name: str) -> bool:
    """Return a property that is set as a flag.

    Args:
        properties: The properties of the table.
        name: The name of the property.

    Raises:
        ConfigurationError: The value is neither true nor false.
    """
    value = properties[name].strip().lower()
    if value not in ("true", "false"):
        raise ConfigurationError(f"The table property {name} is {properties[name]!r}. Set it to true or false.")
    return value == "true"


def _values_by_column(properties: Mapping[str, str], prefix: str, parse: Callable[[Mapping[str, str], str], _T]) -> dict[str, _T]:
    """Return the values of the properties with a prefix, by the name of the column."""
    return {name.removeprefix(prefix): parse(properties, name) for name in properties if name.startswith(prefix)}


def _disabled_columns(properties: Mapping[str, str], prefix: str) -> frozenset[str]:
    """Return the columns whose property with this prefix is false."""
    flags = _values_by_column(properties, prefix, parse_flag)
    return frozenset(name for name, is_enabled in flags.items() if not is_enabled)


def _parse_distinct_values(properties: Mapping[str, str], name: str) -> int | None:
    return parse_positive_number(properties, name, _LARGEST_LONG)


def _parse_rate(properties: Mapping[str, str], name: str) -> float:
    value = properties[name]
    try:
        rate = float(value)
    except ValueError:
        rate = 0.0
    if not 0.0 < rate < 1.0:
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to a number between 0 and 1, such as 0.01.")
    return rate


def _parse_page_version(properties: Mapping[str, str], name: str) -> str | None:
    value = properties.get(name)
    if value is None:
        return None
    version = _PAGE_VERSIONS.get(value.strip().lower())
    if version is None:
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to v1 or v2.")
    return version


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
