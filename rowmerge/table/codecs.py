"""How Parquet is written, as table properties say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from rowmerge.errors import ConfigurationError

_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "lz4_raw": "lz4", "uncompressed": "none", "none": "none"}


@dataclass(frozen=True)
class ParquetSettings:
    """What a table says of its data files; None of what it does not say.

    `codec`: `zstd`, `snappy`, `gzip`, `lz4`, `none`; `level`: of zstd and gzip; `row_group_size`: in bytes.
    """

    codec: str | None = None
    level: int | None = None
    row_group_size: int | None = None


def codec(properties: Mapping[str, str], name: str) -> str | None:
    """The codec that a property names, as Arrow's Parquet writer calls it; None where it is not set.

    Raises ConfigurationError, also for codecs that not every reader of Parquet has.
    """
    value = properties.get(name)
    if value is None:
        return None
    found = _CODECS.get(value.strip().lower())
    if found is None:
        raise ConfigurationError(f"The table property {name} is {value!r}. Set it to one of zstd, snappy, gzip, lz4 and uncompressed.")
    return found
