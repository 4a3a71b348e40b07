"""The cache of decoded metadata keeps the values used last, within its limit in bytes."""

from __future__ import annotations

from rowmerge.storage.cache import Cache


def test_the_values_used_last_stay_within_the_limit() -> None:
    cache: Cache[str] = Cache(10)
    for key in "abc":
        cache.put(key, key.upper(), 4)
        cache.get("a")
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_a_value_above_the_limit_drives_nothing_out() -> None:
    cache: Cache[str] = Cache(10)
    cache.put("a", "A", 10)
    cache.put("b", "B", 11)
    assert (cache.get("a"), cache.get("b")) == ("A", None)


def test_a_value_that_is_there_stays_and_counts_once() -> None:
    cache: Cache[str] = Cache(10)
    for value in ("A", "B", "C"):
        cache.put("a", value, 6)
    cache.put("b", "B", 4)
    assert (cache.get("a"), cache.get("b")) == ("A", "B")
