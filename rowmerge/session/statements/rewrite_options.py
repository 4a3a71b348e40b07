"""The options of the procedure rewrite_data_files, after Iceberg's RewriteDataFiles and its planners."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from typing import Any

from rowmerge.errors import PlanError
from rowmerge.plan.file_strategy import CompactionOptions

_RATIO = "delete-ratio-threshold"
_IGNORED = (
    *("max-concurrent-file-group-rewrites", "max-file-group-size-bytes", "max-file-group-input-files", "rewrite-job-order"),
    *("partial-progress.enabled", "partial-progress.max-commits", "partial-progress.max-failed-commits"),
    *("use-starting-sequence-number", "remove-dangling-deletes"),
)
"""Options that divide the work into parts or choose its order. Here a rewrite is one commit, its files are as old as those that they
replace, and delete files that apply to no file leave with it."""


def parse_rewrite_options(options: Mapping[str, str]) -> CompactionOptions:
    """Return the options of a compaction. Raises PlanError for an unknown option or a wrong value."""
    values: dict[str, Any] = {}
    for name, text in options.items():
        if name in _IGNORED:
            continue
        if name not in _OPTIONS:
            raise _unknown_option(name)
        field, parse = _OPTIONS[name]
        values[field] = parse(name, text)
    return CompactionOptions(**values)


def _parse_number(name: str, text: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9]\d*\s*", text):
        raise _wrong_value(name, text, "a whole number above 0")
    return int(text)


def _parse_boolean(name: str, text: str) -> bool:
    if text.strip().lower() not in ("true", "false"):
        raise _wrong_value(name, text, "true or false")
    return text.strip().lower() == "true"


def _parse_ratio(name: str, text: str) -> float:
    if not re.fullmatch(r"\s*(0(\.\d*)?|\.\d+|1(\.0*)?)\s*", text):
        raise _wrong_value(name, text, "a number from 0 to 1")
    return float(text)


def _parse_delete_threshold(name: str, text: str) -> float:
    """Return the ratio of deleted rows above which a file is rewritten. A threshold of one deleted row is a ratio of 0."""
    if _parse_number(name, text) > 1:
        raise _wrong_value(name, text, f"1: any deleted row; or choose by the share of deleted rows with {_RATIO}")
    return 0.0


def _wrong_value(name: str, text: str, advice: str) -> PlanError:
    return PlanError(f"The option {name} of rewrite_data_files is {text!r}. Set it to {advice}.")


def _unknown_option(name: str) -> PlanError:
    supported_options = sorted(_OPTIONS)
    similar_options = get_close_matches(name, [*supported_options, *_IGNORED], n=1, cutoff=0.7)
    advice = f"Did you mean {similar_options[0]}?" if similar_options else f"There are: {', '.join(supported_options)}."
    return PlanError(f"rewrite_data_files takes no option {name}. {advice}")


_OPTIONS: dict[str, tuple[str, Callable[[str, str], Any]]] = {
    "target-file-size-bytes": ("target_size", _parse_number),
    "min-file-size-bytes": ("min_size", _parse_number),
    "max-file-size-bytes": ("max_size", _parse_number),
    "min-input-files": ("min_files", _parse_number),
    "max-files-to-rewrite": ("max_files", _parse_number),
    "rewrite-all": ("rewrites_all", _parse_boolean),
    _RATIO: ("max_deleted_ratio", _parse_ratio),
    "delete-file-threshold": ("max_deleted_ratio", _parse_delete_threshold),
}
"""The field of `CompactionOptions` that an option sets, and the parser of its value."""
