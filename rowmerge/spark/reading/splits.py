"""Divide files into the work of tasks, as Iceberg's split planning does."""

from __future__ import annotations

from collections.abc import Sequence


def pack(weights: Sequence[int], target_weight: int, lookback: int) -> list[list[int]]:
    """Return the indexes of items in bins of about the same weight, as `BinPacking.PackingIterable` of Iceberg packs them.

    An item is put into the first open bin that has room for it. If there is none, it opens a bin. If more than `lookback` bins are then
    open, the heaviest bin is closed.

    Args:
        weights: The weight of each item.
        target_weight: The maximum weight of a bin, except for a bin with a single item.
        lookback: The maximum number of open bins, at least 1.
    """
    closed_bins: list[list[int]] = []
    open_bins: list[tuple[list[int], int]] = []
    for index, weight in enumerate(weights):
        for place, (bin_, bin_weight) in enumerate(open_bins):
            if bin_weight + weight <= target_weight:
                open_bins[place] = (bin_, bin_weight + weight)
                bin_.append(index)
                break
        else:
            open_bins.append(([index], weight))
            if len(open_bins) > lookback:
                heaviest = max(range(len(open_bins)), key=lambda place: open_bins[place][1])
                closed_bins.append(open_bins.pop(heaviest)[0])
    return closed_bins + [bin_ for bin_, _ in open_bins]
