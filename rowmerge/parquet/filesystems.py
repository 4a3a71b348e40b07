"""Choose Arrow's file system for the location of a data file, and open data files for reading."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.fs
import pyarrow.parquet as pq

from rowmerge.parquet.fitting import has_field_ids
from rowmerge.redaction import hide

Options = Mapping[str, Mapping[str, Any]]
"""The arguments of Arrow's file systems by provider (`s3`, `gs`, `azure`), from `StorageConfiguration.filesystem_options`."""
MAX_CONTENT_BYTES = 8 * 1024 * 1024
"""The maximum size in bytes of a file in a store that is read with one request. Several files may be in memory at a time."""
BYTES_WITHOUT_THREADS = 4 * 1024 * 1024
"""The maximum size in bytes of a row group that one thread reads. The size is that of decompressed pages."""
S3_ATTEMPTS, S3_TIMEOUT, S3_CONNECT_TIMEOUT = 11, 30.0, 5.0
"""The number of attempts of a request, and its timeouts in seconds, as in obstore. The defaults of Arrow are 3 attempts, 3 s and 1 s."""
UNREADABLE = "rowmerge cannot read"
ENDED = "the credentials with which the job has started have ended"
_SECRETS = ("access_key", "secret_key", "session_token", "access_token", "account_key", "sas_token", "client_secret")


def filesystem_of(path: str, options: Options) -> tuple[pyarrow.fs.FileSystem, str]:
    """Return Arrow's file system for an absolute path, and the path inside this file system.

    Args:
        path: The path with its scheme, such as `s3://bucket/key`.
        options: The arguments of Arrow's file systems, including credentials.
    """
    scheme, _, inner_path = path.partition("://")
    authority, _, key = inner_path.partition("/")
    match scheme:
        case "file":
            return pyarrow.fs.LocalFileSystem(), inner_path
        case "s3" | "s3a" | "s3n":
            retries = pyarrow.fs.AwsStandardS3RetryStrategy(max_attempts=S3_ATTEMPTS)
            defaults = {"request_timeout": S3_TIMEOUT, "connect_timeout": S3_CONNECT_TIMEOUT, "retry_strategy": retries}
            return pyarrow.fs.S3FileSystem(**{**defaults, **options.get("s3", {})}), inner_path
        case "gs":
            arguments = options.get("gs", {})
            # Arrow requires the time at which a token expires, but the configuration lacks it. So the latest possible time is given. Google
            # rejects an expired token.
            expiration = {"credential_token_expiration": datetime.max} if "access_token" in arguments else {}
            return pyarrow.fs.GcsFileSystem(**arguments, **expiration), inner_path
        case "az" | "azure" | "abfs" | "abfss":
            container, _, host = authority.partition("@")  # such as `data@shop.dfs.core.windows.net`, or only the container
            arguments = options.get("azure", {})
            return pyarrow.fs.AzureFileSystem(**(azure_arguments(arguments, host) if host else arguments)), f"{container}/{key}"
    return pyarrow.fs.FileSystem.from_uri(f"{scheme}://{authority}")[0], inner_path


def azure_arguments(arguments: Mapping[str, Any], host: str) -> dict[str, Any]:
    """Return the arguments of `pyarrow.fs.AzureFileSystem` for the account and the service that a location names.

    Args:
        arguments: The arguments from the storage options. Their service takes precedence.
        host: The host of the location, such as `shop.dfs.core.windows.net` or `onelake.dfs.fabric.microsoft.com`.
    """
    account, _, service = host.partition(".")
    located: dict[str, Any] = {**arguments, "account_name": account}
    for name in ("blob", "dfs"):
        argument = f"{name}_storage_authority"
        if arguments.get(argument):
            # Arrow adds the account to an authority that begins with a dot, and to the path of any other authority.
            located[argument] = arguments[argument].removeprefix(account).removesuffix(f"/{account}")
        elif service.startswith(("blob.", "dfs.")):
            located[argument] = f".{name}.{service.partition('.')[2]}"
    return located


def safe_reason(text: str, options: Options) -> str:
    """Return an error message in which asterisks replace all secrets of the options. It says if the credentials have ended.

    An answer of a store to HEAD has no content, and so no reason.

    Args:
        text: A string that may contain secrets, such as an error message of Arrow.
        options: The arguments of Arrow's file systems, including credentials.
    """
    hidden_text = hide(text, (arguments[name] for arguments in options.values() for name in _SECRETS if name in arguments))
    has_ended = min(options.get("ends_at", {}).values(), default=float("inf")) <= time.time()
    return f"{hidden_text} ({ENDED})" if has_ended and ENDED not in text else hidden_text


@contextmanager
def hiding_secrets(options: Options) -> Iterator[None]:
    """Raise an error of Arrow in a `with` block again without its secrets. Azure's errors contain the URL with the SAS token.

    Args:
        options: The arguments of Arrow's file systems, including credentials.

    Raises:
        OSError: A file system failed, as in the block.
        pa.ArrowException: Arrow failed, as in the block.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        text = str(error)
        hidden_text = safe_reason(text, options)
        if hidden_text == text:
            raise
        raise type(error)(hidden_text) from None  # a traceback would show the message of the cause


class UnreadableFile(Exception):
    """Raised when an executor cannot read a data file.

    Remedy: No action is needed. Spark passes the error message to the driver, which raises `MissingDataFile` or `UnreadableDataFile`.

    `path`: The absolute path of the file. `reason`: Why the file cannot be read, None for a missing file.
    """

    def __init__(self, path: str, reason: str | None) -> None:
        self.path, self.reason = path, reason
        super().__init__(f"{UNREADABLE} {json.dumps([path, reason])}")


@contextmanager
def as_unreadable_file(path: str, filesystem_options: Options) -> Iterator[None]:
    """Raise an error of Arrow in a `with` block again as UnreadableFile, which names the file.

    Args:
        path: The absolute path of the file that the block reads.
        filesystem_options: The arguments of Arrow's file systems, including credentials.

    Raises:
        UnreadableFile: The block raised an error because the file is missing or unreadable.
    """
    try:
        yield
    except FileNotFoundError:
        raise UnreadableFile(path, None) from None
    except (OSError, pa.ArrowException) as error:
        # A traceback, which Spark's user interface shows, would contain the message of the cause.
        raise UnreadableFile(path, safe_reason(str(error), filesystem_options)) from None


@contextmanager
def open_data_file(
    path: str, filesystem_options: Options, *, by_field_id: bool, columns_as_codes: Callable[[pq.ParquetFile], Sequence[str]] | None = None
) -> Iterator[pq.ParquetFile]:
    """Open a data file for reading.

    Args:
        path: The absolute path.
        filesystem_options: The arguments of Arrow's file systems, including credentials.
        by_field_id: Whether columns are identified by field id. If true, the file must have field ids.
        columns_as_codes: A function that returns the names of the columns to read as codes and a dictionary. None to read no such columns.

    Raises:
        UnreadableFile: The file is missing or unreadable, or a read in the body of the `with` statement fails.
    """
    with as_unreadable_file(path, filesystem_options):
        filesystem, inner_path = filesystem_of(path, filesystem_options)
        with filesystem.open_input_file(inner_path) as stream:
            # One request for a small file in a store is faster than one for the footer and for each column.
            is_read_whole = not isinstance(filesystem, pyarrow.fs.LocalFileSystem) and stream.size() <= MAX_CONTENT_BYTES
            content = pa.BufferReader(stream.read_buffer()) if is_read_whole else stream
            source = pq.ParquetFile(content, coerce_int96_timestamp_unit="us")
            if by_field_id and not has_field_ids(source.schema_arrow):
                raise UnreadableFile(path, "its columns have no field ids")
            if columns_as_codes is not None and (names := columns_as_codes(source)):
                source = pq.ParquetFile(content, metadata=source.metadata, read_dictionary=list(names), coerce_int96_timestamp_unit="us")
            yield source


def read_tables(
    source: pq.ParquetFile, columns: Sequence[str], row_groups: Sequence[int], *, batch_rows: int, use_threads: bool = True
) -> Iterator[pa.Table]:
    """Yield the rows of row groups of a Parquet file as Arrow tables.

    Starting threads and an iterator of batches takes as long as the read of a small row group. So a small row group is read without them.

    Args:
        source: The open file.
        columns: The names of the columns to read.
        row_groups: The indexes of the row groups.
        batch_rows: The maximum number of rows of a table.
        use_threads: Whether threads may decode the columns of a large row group.
    """
    if len(row_groups) == 1:
        row_group = source.metadata.row_group(row_groups[0])
        if row_group.num_rows <= batch_rows and row_group.total_byte_size <= BYTES_WITHOUT_THREADS:
            yield source.read_row_group(row_groups[0], columns, use_threads=False)
            return
    for batch in source.iter_batches(batch_size=batch_rows, row_groups=row_groups, columns=columns, use_threads=use_threads):
        yield pa.Table.from_batches([batch])
