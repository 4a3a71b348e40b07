"""Names of schemas, tables and views as folder names: one safe folder for each name, and back."""

from __future__ import annotations

import re
from urllib.parse import unquote, unquote_to_bytes

from rowmerge.errors import TableError

LONGEST = 200
"""Bytes of a folder name: file systems end at 255, and files beside the folder add suffixes of their own."""

_PLAIN = frozenset(b"abcdefghijklmnopqrstuvwxyz0123456789_-")


def fold(name: str) -> str:
    """The form in which a name is kept and compared: lower case."""
    return name.lower()


def folder_of(name: str) -> str:
    """The folder of a schema, a table or a view.

    Lower-case letters, digits, `_` and `-` stand for themselves; every other byte of the UTF-8 form becomes `~` and two hexadecimal
    digits, and so does a leading `_`: Spark and Delta's readers skip folders that begin with it. Nothing that a path, a glob or a URL
    gives a meaning to is left; percent signs would be decoded by readers that take a path for a URL (delta-rs does).
    Raises TableError for an empty name, and for one whose folder would be longer than 200 bytes.
    """
    if not name:
        raise TableError("An empty name cannot be the name of a schema, a table or a view. Give it at least one character.")
    try:
        raw = fold(name).encode("utf-8")
    except UnicodeEncodeError:
        raise TableError(f"The name {name!r} is not valid Unicode. Use a name without lone surrogates.") from None
    folder = "".join(chr(byte) if byte in _PLAIN else f"~{byte:02X}" for byte in raw)
    if folder.startswith("_"):
        folder = "~5F" + folder[1:]
    if len(folder) > LONGEST:
        raise TableError(
            f"The name {name[:40]!r}… needs {len(folder)} bytes as a folder name; the limit is {LONGEST}. "
            f"Use a shorter name (a character outside a-z, 0-9, _ and - takes three bytes or more)."
        )
    return folder


def check_segment(kind: str, name: str) -> None:
    """Raise TableError unless a name is one segment of a path, however a catalog, a URL or a store reads it.

    Iceberg catalogs use names as they are: in the location of a new table, and in the URLs of requests.
    `kind`: what has the name, for the message.
    """
    readings = [name]
    while (decoded := unquote(readings[-1])) != readings[-1]:
        readings.append(decoded)
    for reading in readings:
        if reading.strip() in ("", ".", "..") or re.search(r"[/\\\x00-\x1f\x7f]", reading):
            raise TableError(
                f"The {kind} name {name!r} cannot be used in an Iceberg catalog: a name must be one segment of a path. "
                f"Choose a name that is not empty, is not . or .., and has no slash, backslash or control character, "
                f"percent-encoded ones included."
            )


def name_of(folder: str) -> str | None:
    """The name whose folder this is, or None when it is nobody's (it was not made by a catalog)."""
    if "%" in folder or re.search(r"~(?![0-9A-F]{2})", folder):
        return None
    try:
        name = unquote_to_bytes(folder.replace("~", "%")).decode("utf-8")
        return name if folder_of(name) == folder else None
    except (UnicodeDecodeError, TableError):
        return None


def has_folder(name: str) -> bool:
    """Whether anything can have this name."""
    try:
        folder_of(name)
    except TableError:
        return False
    return True
