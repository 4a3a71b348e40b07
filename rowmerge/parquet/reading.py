"""Open data files for reading."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from rowmerge.parquet.filesystems import Options, filesystem_of, without_secrets
from rowmerge.parquet.fitting import has_field_ids

UNREADABLE = "rowmerge cannot read"


class UnreadableFile(Exception):
    """Raised when an executor cannot read a data file.

    Remedy: None is needed. The text travels through Spark to the driver, which raises `MissingDataFile` or `UnreadableDataFile`.

    `reason` is None for a missing file.
    """

    def __init__(self, path: str, reason: str | None) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{UNREADABLE} {json.dumps([path, reason])}")


@contextmanager
def open_data_file(path: str, filesystem_options: Options, *, by_field_id: bool) -> Iterator[pq.ParquetFile]:
    """Open a data file for reading. Raises UnreadableFile, also for an error while the block reads the file."""
    filesystem, inner_path = filesystem_of(path, filesystem_options)
    try:
        with filesystem.open_input_file(inner_path) as stream:
            source = pq.ParquetFile(stream, coerce_int96_timestamp_unit="us")
            if by_field_id and not has_field_ids(source.schema_arrow):
                raise UnreadableFile(path, "its columns have no field ids")
            yield source
    except FileNotFoundError as error:
        raise UnreadableFile(path, None) from error
    except (OSError, pa.ArrowException) as error:
        raise UnreadableFile(path, without_secrets(str(error), filesystem_options)) from error
