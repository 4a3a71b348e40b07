"""The codecs of data files, by the names that table properties give them."""

from __future__ import annotations

from collections.abc import Mapping

from rowmerge.errors import ConfigurationError

_CODECS = {"zstd": "zstd", "snappy": "snappy", "gzip": "gzip", "lz4": "lz4", "lz4_raw": "lz4", "uncompressed": "none", "none": "none"}


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
