"""Sources that are files, or tables of another warehouse: where they are stands in the source's `meta` or `config`."""

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
    """The SQL that reads a source with a `location`, as `read_files(…)`; None for a source that is a table of the warehouse.

    A table's `meta` and `config` go before those of its source. Raises CompilationError, naming the source, for what cannot be meant.
    """
    said = _settings(source)
    location = said.get("external_location", said.get("location"))
    told = f"The source {source.source_name}.{source.name}"
    if not isinstance(location, str):
        if location is not None and "format" in said:
            raise CompilationError(f"{told} has the location {location!r}. Give one path; patterns such as /data/*.parquet are understood.")
        return None
    if "external_location" not in said and "format" not in said and "/" not in location and not _ENDING.search(location):
        return None  # something that `meta` says for people
    options = said.get("options") or {}
    if not isinstance(options, dict):
        raise CompilationError(f"{told} has options that are no mapping of names to values. Indent its entries below `options`.")
    path = _path(source, location)
    ending = _ENDING.search(path)
    format_ = str(said.get("format") or (ending[1] if ending else "")).lower()
    if not format_:
        raise CompilationError(f"{told} has the location {path}, which does not say its format. Add `format`: parquet, csv, json, delta, …")
    arguments = {"format": format_, "name": f"{quote(source.schema)}.{quote(source.identifier)}"}
    if said.get("schema"):
        arguments["schema"] = said["schema"]
    if format_ == "csv":
        arguments |= {name: value for name, value in _CSV.items() if not (name == "inferSchema" and said.get("schema"))}
    known = {name.lower(): name for name in arguments}
    for name, value in options.items():
        arguments[known.get(str(name).lower(), str(name))] = value
    return f"read_files({literal(path)}, {', '.join(f'{quote(name)} => {literal(as_text(value))}' for name, value in arguments.items())})"


def _settings(source: Any) -> Dict[str, Any]:
    """What a source says, the nearest last."""
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
    path = _PLACEHOLDER.sub(lambda found: values[found[1]], location)
    return path if _SCHEME.match(path) else os.path.abspath(os.path.expanduser(path))
