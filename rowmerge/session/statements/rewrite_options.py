"""The options of the procedure rewrite_data_files, after Iceberg's RewriteDataFiles and its planners."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from rowmerge.errors import PlanError
from rowmerge.plan.bins import Wishes

_NUMBERS = {
    "target-file-size-bytes": "target",
    "min-file-size-bytes": "smallest",
    "max-file-size-bytes": "largest",
    "min-input-files": "least",
    "max-files-to-rewrite": "most",
}
_RATIO, _THRESHOLD, _EVERYTHING = "delete-ratio-threshold", "delete-file-threshold", "rewrite-all"
_IGNORED = frozenset(
    {
        "max-concurrent-file-group-rewrites",
        "max-file-group-size-bytes",
        "max-file-group-input-files",
        "partial-progress.enabled",
        "partial-progress.max-commits",
        "partial-progress.max-failed-commits",
        "rewrite-job-order",
        "use-starting-sequence-number",
        "remove-dangling-deletes",
    }
)
"""How the work is cut into pieces elsewhere: here it is one commit, of files as old as those that they are made of, and delete files that
have nothing left to say leave with it."""


def wishes_of(options: Mapping[str, str]) -> Wishes:
    """Raises PlanError for an option that there is not, or that has no such value."""
    wishes = Wishes()
    for name, value in options.items():
        if name in _NUMBERS:
            number: dict[str, Any] = {_NUMBERS[name]: _number(name, value)}
            wishes = replace(wishes, **number)
        elif name == _EVERYTHING:
            wishes = replace(wishes, everything=_boolean(name, value))
        elif name == _RATIO:
            wishes = replace(wishes, worn=_share(value))
        elif name == _THRESHOLD:
            if _number(name, value) > 1:
                raise _wrong(name, value, f"1: any deleted row; or choose by the share of deleted rows with {_RATIO}")
            wishes = replace(wishes, worn=0.0)
        elif name not in _IGNORED:
            supported = sorted({*_NUMBERS, _RATIO, _THRESHOLD, _EVERYTHING})
            near = get_close_matches(name, [*supported, *_IGNORED], n=1, cutoff=0.7)
            advice = f"Did you mean {near[0]}?" if near else f"There are: {', '.join(supported)}."
            raise PlanError(f"rewrite_data_files takes no option {name}. {advice}")
    return wishes


def _number(name: str, value: str) -> int:
    if not re.fullmatch(r"\s*0*[1-9]\d*\s*", value):
        raise _wrong(name, value, "a whole number above 0")
    return int(value)


def _boolean(name: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise _wrong(name, value, "true or false")
    return value.strip().lower() == "true"


def _share(value: str) -> float:
    if not re.fullmatch(r"\s*(0(\.\d*)?|\.\d+|1(\.0*)?)\s*", value):
        raise _wrong(_RATIO, value, "a number from 0 to 1")
    return float(value)


def _wrong(name: str, value: str, wanted: str) -> PlanError:
    return PlanError(f"The option {name} of rewrite_data_files is {value!r}. Set it to {wanted}.")
