"""The cache of decoded metadata keeps recently used values within a limit in bytes."""

from __future__ import annotations

from rowmerge.storage.cache import Cache


def test_least_recently_used_values_are_evicted_at_the_limit() -> None:
    cache: Cache[str] = Cache(10)
    for key in "abc":
        cache.put(key, key.upper(), 4)
        cache.get("a")
    assert [cache.get(key) for key in "abc"] == ["A", None, "C"]


def test_values_above_the_limit_are_not_cached() -> None:
    cache: Cache[str] = Cache(10)
    cache.put("a", "A", 10)
    cache.put("b", "B", 11)
    assert (cache.get("a"), cache.get("b")) == ("A", None)


def test_cached_values_count_once() -> None:
    cache: Cache[str] = Cache(10)
    for value in ("A", "B", "C"):
        cache.put("a", value, 6)
    cache.put("b", "B", 4)
    assert (cache.get("a"), cache.get("b")) == ("A", "B")
