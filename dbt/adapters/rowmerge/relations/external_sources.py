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
_CSV = {"header": True, "inferSchema": True}


def read_files_of(source: Any) -> Optional[str]:
    """Return the call of `read_files(…)` that reads a source with a `location`; None for a table of the warehouse.

    The `meta` and `config` of a table take precedence over those of its source. Raises CompilationError, which names the source, for
    settings that are not valid.
    """
    settings = _settings(source)
    location = settings.get("external_location", settings.get("location"))
    subject = f"The source {source.source_name}.{source.name}"
    if not isinstance(location, str):
        if location is not None and "format" in settings:
            raise CompilationError(
                f"{subject} has the location {location!r}. Give one path; patterns such as /data/*.parquet are understood."
            )
        return None
    if "external_location" not in settings and "format" not in settings and "/" not in location and not _ENDING.search(location):
        return None  # a location for readers of the documentation
    options = settings.get("options") or {}
    if not isinstance(options, dict):
        raise CompilationError(f"{subject} has options that are no mapping of names to values. Indent its entries below `options`.")
    path = _path(source, location)
    ending = _ENDING.search(path)
    format_ = str(settings.get("format") or (ending[1] if ending else "")).lower()
    if not format_:
        raise CompilationError(
            f"{subject} has the location {path}, which does not say its format. Add `format`: parquet, csv, json, delta, …"
        )
    arguments = {"format": format_, "name": f"{quote(source.schema)}.{quote(source.identifier)}"}
    if settings.get("schema"):
        arguments["schema"] = settings["schema"]
    if format_ == "csv":
        arguments |= {name: value for name, value in _CSV.items() if not (name == "inferSchema" and settings.get("schema"))}
    spellings = {name.lower(): name for name in arguments}
    for name, value in options.items():
        arguments[spellings.get(str(name).lower(), str(name))] = value
    return f"read_files({literal(path)}, {', '.join(f'{quote(name)} => {literal(as_text(value))}' for name, value in arguments.items())})"


def _settings(source: Any) -> Dict[str, Any]:
    """Return the settings of a source; those of the table take precedence."""
    # Not by `get`, which warns of every key that it finds in `meta`.
    own = {name: value for name, value in vars(source.config).get("_extra", {}).items() if name in _KEYS}
    return {**(source.source_meta or {}), **(source.meta or {}), **(source.config.meta or {}), **own}


def _path(source: Any, location: str) -> str:
    values = {
        "name": source.name,
        "identifier": source.identifier,
        "schema": source.schema,
        "database": source.database or "",
        "source": source.source_name,
    }
    path = _PLACEHOLDER.sub(lambda match: values[match[1]], location)
    return path if _SCHEME.match(path) else os.path.abspath(os.path.expanduser(path))
