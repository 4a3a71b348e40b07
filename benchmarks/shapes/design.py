"""The cells of the grid: a pairwise design over the properties of tables and statements, which a seed determines."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations

FACTORS: dict[str, tuple[str, ...]] = {
    "statement": ("upsert", "update", "delete", "insert-only", "cdc", "mirror", "delete+insert", "insert_overwrite", "scd2"),
    "key": ("int", "text", "composite", "uuid", "date+int", "decimal", "nested", "nullable"),
    "width": ("4", "20", "200", "nested", "long texts"),
    "share": ("0.01", "1", "10", "100"),
    "partitions": ("none", "30", "1000", "transform"),
    "state": ("fresh", "20 merges", "small files"),
    "order": ("sorted", "scattered"),
    "format": ("delta", "iceberg"),
}
"""The levels of each factor. `share`: the changed rows, as a percentage of the table's rows. `update` reads columns of the target."""
_CANDIDATES = 60
Pair = tuple[tuple[str, str], tuple[str, str]]
"""The levels of two factors, each with the name of its factor."""


@dataclass(frozen=True)
class Cell:
    """One table and one statement: a level of each factor. `scale`: the rows of the table, as a share of 5 million."""

    statement: str
    key: str
    width: str
    share: str
    partitions: str
    state: str
    order: str
    format: str
    scale: float = field(default=1.0, kw_only=True)

    @property
    def rows(self) -> int:
        """The number of rows of the table, at most 200,000 with 200 columns."""
        rows = round(self.scale * 5_000_000)
        return min(rows, 200_000) if self.width == "200" else rows

    @property
    def levels(self) -> dict[str, str]:
        """The level of each factor."""
        return {name: getattr(self, name) for name in FACTORS}

    @property
    def pairs(self) -> set[Pair]:
        """The pairs of levels that the cell covers."""
        return set(combinations(self.levels.items(), 2))


def is_possible(levels: dict[str, str]) -> bool:
    """Return whether a cell with these levels exists. `levels`: the levels of some or all factors."""
    if levels.get("format") == "delta" and levels.get("partitions") == "transform":
        return False  # Delta Lake has no partition transforms
    replaces_table = levels.get("statement") == "insert_overwrite" and levels.get("partitions") == "none"
    return not replaces_table or levels.get("share", "100") == "100"  # without partitions, all rows are replaced


def possible_pairs() -> set[Pair]:
    """Return the pairs of levels that a cell can have."""
    return {pair for pair in _all_pairs() if is_possible(dict(pair))}


def impossible_pairs() -> set[Pair]:
    """Return the pairs of levels that no cell can have."""
    return set(_all_pairs()) - possible_pairs()


def _all_pairs() -> Iterator[Pair]:
    for (first, first_levels), (second, second_levels) in combinations(FACTORS.items(), 2):
        yield from (((first, a), (second, b)) for a in first_levels for b in second_levels)


def cells(seed: int) -> list[Cell]:
    """Return cells that cover every possible pair of levels.

    Each cell is the best of several random candidates: the one that covers the most pairs that no earlier cell covers.

    Args:
        seed: The seed of the random candidates.
    """
    generator, uncovered, design = random.Random(seed), possible_pairs(), list[Cell]()
    while uncovered:
        candidates = [_candidate(generator, generator.choice(sorted(uncovered)), uncovered) for _ in range(_CANDIDATES)]
        best = max(candidates, key=lambda cell: len(cell.pairs & uncovered))
        uncovered -= best.pairs
        design.append(best)
    return design


@cache
def _cells_by_name(seed: int) -> dict[str, Cell]:
    return {f"shape-{seed}-{number:02}": cell for number, cell in enumerate(cells(seed))}


def cell_names(seed: int) -> list[str]:
    """Return the names of the cells of a design, such as `shape-1-17`."""
    return list(_cells_by_name(seed))


def cell_named(name: str) -> Cell:
    """Return the cell with a name."""
    return _cells_by_name(int(name.split("-")[1]))[name]


def _candidate(generator: random.Random, first: Pair, uncovered: set[Pair]) -> Cell:
    """Return a cell with an uncovered pair. The other factors get, in a random order, the level that covers the most uncovered pairs."""
    levels = dict(first)
    names = [name for name in FACTORS if name not in levels]
    generator.shuffle(names)
    for index, name in enumerate(names):
        allowed = [level for level in FACTORS[name] if _can_complete({**levels, name: level}, names[index + 1 :])]
        generator.shuffle(allowed)
        levels[name] = max(allowed, key=lambda level: _gain(levels, name, level, uncovered))
    return Cell(*(levels[name] for name in FACTORS))


def _can_complete(levels: dict[str, str], names: list[str]) -> bool:
    """Return whether levels for the factors `names` exist with which the cell is possible."""
    if not is_possible(levels):
        return False
    return not names or any(_can_complete({**levels, names[0]: level}, names[1:]) for level in FACTORS[names[0]])


def _gain(levels: dict[str, str], name: str, level: str, uncovered: set[Pair]) -> int:
    """Return the number of uncovered pairs of a level with the levels of the other factors."""
    order = list(FACTORS)
    pairs = (sorted(((other, levels[other]), (name, level)), key=lambda item: order.index(item[0])) for other in levels)
    return sum((first, second) in uncovered for first, second in pairs)


def peer_cell_names(seed: int, count: int = 20) -> list[str]:
    """Return the names of the cells in which engines on the JVM run, in the order of the design.

    Args:
        seed: The seed of the design, which also draws these cells.
        count: The number of cells.
    """
    return sorted(random.Random(f"peers {seed}").sample(cell_names(seed), count))
