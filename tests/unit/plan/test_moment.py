"""All functions of the current time in a statement return one timestamp, also in checks and defaults."""

from __future__ import annotations

import pytest

from rowmerge.plan.expressions.moment import replace_time_functions, rules_at
from rowmerge.table.metadata.rules import Check, Rules


@pytest.mark.parametrize(
    ("text", "fixed"),
    [
        ("current_timestamp()", "timestamp_micros(5)"),
        ("CURRENT_TIMESTAMP", "timestamp_micros(5)"),
        ("now() - interval 1 day", "timestamp_micros(5) - interval 1 day"),
        ("date_add(current_date( ), 1)", "date_add(cast(timestamp_micros(5) as date), 1)"),
        ("curdate() > localtimestamp", "cast(timestamp_micros(5) as date) > cast(timestamp_micros(5) as timestamp_ntz)"),
        ("'current_timestamp()' || `now` || s.now || now", "'current_timestamp()' || `now` || s.now || now"),
        ("current_date > day", "current_date > day"),
        ("ts < current_date()", "ts < cast(timestamp_micros(5) as date)"),
    ],
)
def test_current_time_functions_return_one_timestamp(text: str, fixed: str) -> None:
    assert replace_time_functions(text, 5, ["Current_Date", "ts", "day"]) == fixed


def test_checks_and_defaults_share_the_timestamp() -> None:
    rules = Rules(checks=(Check("c CHECK (a < now())", "a < now()", "c"),), defaults={"a": "now()"}, append_only=True)
    fixed = rules_at(rules, 7, ["a"])
    assert fixed.checks == (Check("c CHECK (a < now())", "a < timestamp_micros(7)", "c"),)
    assert fixed.defaults == {"a": "timestamp_micros(7)"}
    assert fixed.append_only
