"""Sources whose rows are in files or in tables of another warehouse. Their location is in the source's `meta` or `config`."""

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


def read_files_of(source: Any) -> Optional[str]:
    """Return the call of `read_files(…)` that reads a source with a `location`; None for a table of the warehouse.

    The `meta` and `config` of a table take precedence over those of its source. Raises CompilationError, which names the source, for
    settings that are not valid.
    """
    settings = _settings(source)
    subject = f"The source {source.source_name}.{source.name}"
    location = settings.get("external_location", settings.get("location"))
    if location is not None and not isinstance(location, str) and "format" in settings:
        raise CompilationError(f"{subject} has the location {location!r}. Give one path; patterns such as /data/*.parquet are understood.")
    if not isinstance(location, str) or _is_documentation(location, settings):
        return None
    options = settings.get("options") or {}
    if not isinstance(options, dict):
        raise CompilationError(f"{subject} has options that are no mapping of names to values. Indent its entries below `options`.")
    path = _absolute_path(source, location)
    ending = _ENDING.search(path)
    format_ = str(settings.get("format") or (ending[1] if ending else "")).lower()
    if not format_:
        raise CompilationError(
            f"{subject} has the location {path}, which does not say its format. Add `format`: parquet, csv, json, delta, …"
        )
    arguments = _arguments(source, format_, settings.get("schema"), options)
    return f"read_files({literal(path)}, {', '.join(f'{quote(name)} => {literal(as_text(value))}' for name, value in arguments.items())})"


def _is_documentation(location: str, settings: Dict[str, Any]) -> bool:
    """Return whether a `location` is text for readers of the documentation: nothing in the settings shows that it is a path of files."""
    return not ("external_location" in settings or "format" in settings or "/" in location or _ENDING.search(location))


def _arguments(source: Any, format_: str, schema: Optional[str], options: Dict[Any, Any]) -> Dict[str, Any]:
    """Return the named arguments of `read_files`. Options take precedence, and their names match without regard to case."""
    arguments = {"format": format_, "name": f"{quote(source.schema)}.{quote(source.identifier)}"}
    if schema:
        arguments["schema"] = schema
    if format_ == "csv":
        arguments |= {"header": True} if schema else {"header": True, "inferSchema": True}
    names = {name.lower(): name for name in arguments}
    return {**arguments, **{names.get(str(name).lower(), str(name)): value for name, value in options.items()}}


def _settings(source: Any) -> Dict[str, Any]:
    """Return the settings of a source; those of the table take precedence."""
    # `config.get` would warn of every key that it finds in `meta`.
    configs = {name: value for name, value in vars(source.config).get("_extra", {}).items() if name in _KEYS}
    return {**(source.source_meta or {}), **(source.meta or {}), **(source.config.meta or {}), **configs}


def _absolute_path(source: Any, location: str) -> str:
    """Return a location with the values of its placeholders; a path on a disk becomes absolute."""
    values = {
        "name": source.name,
        "identifier": source.identifier,
        "schema": source.schema,
        "database": source.database or "",
        "source": source.source_name,
    }
    path = _PLACEHOLDER.sub(lambda match: values[match[1]], location)
    return path if _SCHEME.match(path) else os.path.abspath(os.path.expanduser(path))
