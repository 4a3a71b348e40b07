"""Sources whose rows are in files, or in tables outside the warehouse. The location is in the `meta` or `config` of a source."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, Optional

from dbt_common.exceptions import CompilationError

from dbt.adapters.rowmerge.relations.names import as_text, literal, quote

_PLACEHOLDER = re.compile(r"\{(name|identifier|schema|database|source)\}")
_ENDING = re.compile(r"\.(parquet|csv|json|orc|avro)(\.\w+)?/?$", re.IGNORECASE)
_SCHEME = re.compile(r"^[A-Za-z][\w+.-]*:")
_KEYS = ("external_location", "location", "format", "options", "schema")


def read_files_call(source: Any) -> Optional[str]:
    """Return the SQL call `read_files(…)` for a source whose rows are in files, or None for a table in the warehouse.

    The `meta` and `config` of a source table take precedence over those of the source.

    Raises:
        CompilationError: A setting of the source is not valid, or the format of its files is not specified.
    """
    settings = _settings(source)
    subject = f"the source {source.source_name}.{source.name}"
    location = _location_of_files(settings, subject)
    if location is None:
        return None
    options = settings.get("options") or {}
    if not isinstance(options, dict):
        raise CompilationError(f"The options of {subject} are not a mapping of names to values. Indent the entries below `options`.")
    path = _absolute_path(source, location)
    arguments = _arguments(source, _file_format(path, settings, subject), settings.get("schema"), options)
    named_arguments = [f"{quote(name)} => {literal(as_text(value))}" for name, value in arguments.items() if value is not None]
    return f"read_files({literal(path)}, {', '.join(named_arguments)})"


def _location_of_files(settings: Dict[str, Any], subject: str) -> Optional[str]:
    """Return the location of a source's files, or None if it has no files. `subject`: the subject of error messages."""
    location = settings.get("external_location", settings.get("location"))
    if isinstance(location, str):
        # A `location` that is not a path is a description for the documentation.
        is_path = "external_location" in settings or "format" in settings or "/" in location or _ENDING.search(location)
        return location if is_path else None
    if location is not None and "format" in settings:
        raise CompilationError(f"The location of {subject} is {location!r}. Set it to one path or pattern, such as /data/*.parquet.")
    return None


def _file_format(path: str, settings: Dict[str, Any], subject: str) -> str:
    """Return the format of a source's files: the setting `format`, or the file extension. Raises CompilationError without either."""
    ending = _ENDING.search(path)
    file_format = settings.get("format") or (ending[1] if ending else "")
    if not file_format:
        raise CompilationError(
            f"The location of {subject} is {path}, which does not show the format. Set `format` to parquet, csv, json, delta, …"
        )
    return str(file_format).lower()


def _arguments(source: Any, file_format: str, schema: Optional[str], options: Dict[Any, Any]) -> Dict[str, Any]:
    """Return the named arguments of `read_files`. Options take precedence, and their names are not case-sensitive. None is no argument."""
    arguments = {"format": file_format, "name": f"{quote(source.schema)}.{quote(source.identifier)}"}
    if schema:
        arguments["schema"] = schema
    if file_format == "csv":
        arguments |= {"header": True} if schema else {"header": True, "inferSchema": True}
    names = {name.lower(): name for name in arguments}
    return {**arguments, **{names.get(str(name).lower(), str(name)): value for name, value in options.items()}}


def _settings(source: Any) -> Dict[str, Any]:
    """Return the settings for a source table. Settings of the table take precedence over those of the source."""
    # `config.get` would log a warning for each key that it finds in `meta`.
    configs = {name: value for name, value in vars(source.config).get("_extra", {}).items() if name in _KEYS}
    return {**(source.source_meta or {}), **(source.meta or {}), **(source.config.meta or {}), **configs}


def _absolute_path(source: Any, location: str) -> str:
    """Return the location of files, with placeholders such as `{name}` replaced. A path on a local disk becomes absolute."""
    values_by_placeholder = {
        "name": source.name,
        "identifier": source.identifier,
        "schema": source.schema,
        "database": source.database or "",
        "source": source.source_name,
    }
    path = _PLACEHOLDER.sub(lambda match: values_by_placeholder[match[1]], location)
    return path if _SCHEME.match(path) else os.path.abspath(os.path.expanduser(path))
