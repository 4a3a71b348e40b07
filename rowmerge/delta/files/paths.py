"""Paths of data files. The log contains URIs, all other modules use absolute decoded paths (PROTOCOL.md, Add File and Remove File)."""

from __future__ import annotations

from urllib.parse import quote, unquote

import pyarrow as pa
import pyarrow.compute as pc

# The characters that RFC 2396 allows in a path, except the colon. A relative path must not look like a path with a scheme.
_SAFE = "/=@!$&'()*+,;~-._"
_ABSOLUTE_PATTERN = r"^(/|[A-Za-z][A-Za-z0-9+.\-]*:/)"


def log_path(location: str, path: str) -> str:
    """Percent-encode a path for the log: `file:///t/x=A%2FA/p` in the table `file:///t` becomes `x=A%252FA/p`.

    Args:
        location: The absolute path of the table's folder.
        path: An absolute path. It becomes a relative path if it is in the table's folder. Otherwise it becomes an absolute URI.
    """
    prefix = f"{location}/"
    return quote(path[len(prefix) :], safe=_SAFE) if path.startswith(prefix) else uri_of(path)


def uri_of(path: str) -> str:
    """Percent-encode an absolute path, and return it as a URI."""
    scheme, separator, scheme_path = path.partition("://")
    return f"{scheme}{separator}{quote(scheme_path, safe=_SAFE + ':')}"


def percent_decoded(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Percent-decode paths from the log. Relative paths stay relative."""
    if not pc.any(pc.match_substring(paths, "%")).as_py():
        return paths
    return pa.chunked_array([pa.array([unquote(path) if "%" in path else path for path in paths.to_pylist()], pa.string())])


def absolute_paths(location: str, paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """Convert paths from the log to absolute, percent-decoded paths with a scheme.

    Most tables contain only relative paths, which Arrow joins in one step. Only absolute paths, such as those of a clone, are converted
    one by one.

    Args:
        location: The absolute path of the table's folder, the base of relative paths.
        paths: The percent-encoded paths, relative or absolute.
    """
    joined_paths = pc.binary_join_element_wise(location, percent_decoded(paths), "/")
    absolute_mask = pc.match_substring_regex(paths, _ABSOLUTE_PATTERN)
    if not pc.any(absolute_mask).as_py():
        return joined_paths
    # Null for a relative path, so that `coalesce` selects the joined path.
    log_paths = zip(paths.to_pylist(), absolute_mask.to_pylist(), strict=True)
    completed_paths = [absolute_path(location, path) if is_absolute else None for path, is_absolute in log_paths]
    return pc.coalesce(pa.chunked_array([pa.array(completed_paths, pa.string())]), joined_paths)


def absolute_path(location: str, path: str) -> str:
    """Percent-decode an absolute path from the log, and add a scheme if it has none.

    Args:
        location: The absolute path of the table's folder. Its scheme and bucket are added to a path without a scheme.
        path: A percent-encoded path, such as `/x`, `file:/x` or `s3://b/x`.
    """
    decoded_path = unquote(path)
    if decoded_path.startswith("/"):
        scheme, _, location_path = location.partition("://")
        authority = "" if scheme == "file" else location_path.split("/", 1)[0]
        return f"{scheme}://{authority}{decoded_path}"
    scheme, _, after_scheme = decoded_path.partition(":")
    if after_scheme.startswith("//"):
        return decoded_path  # s3://b/x
    return f"{scheme}://{after_scheme}"  # file:/x becomes file:///x
