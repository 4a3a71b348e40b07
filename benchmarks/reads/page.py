"""Print docs/reads.md from the results in `benchmarks/measured`: python -m benchmarks.reads.page.

The text above the tables is in page.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.reads.count import Counts
from benchmarks.reads.figures import Figures
from benchmarks.reads.process import OURS, ROOT, TITLES
from benchmarks.reads.shapes import shapes
from benchmarks.reads.tables import Size
from benchmarks.reads.timing import Timing, Timings

MEASURED = ROOT / "benchmarks" / "measured"
PAGE = ROOT / "docs" / "reads.md"
TEXT = Path(__file__).with_name("page.md")
COUNTED = (
    ("ours-before", "delta"),
    ("ours", "delta"),
    ("delta-spark", "delta"),
    ("ours", "iceberg"),
    ("iceberg-spark", "iceberg"),
)
"""The columns of the table of opened files. A shape that only Iceberg has shows the Iceberg table before."""
LAYOUT_TITLES = {
    "whole": "No deleted rows",
    "deleted": "1 % of the rows deleted",
    "months": "lineitem partitioned by month, filters on the ship date",
}
GOALS = (
    ("whole", ("ours", "delta"), ("parquet", "delta"), "at most 1.1"),
    ("whole", ("ours", "iceberg"), ("parquet", "iceberg"), "at most 1.1"),
    ("deleted", ("ours", "delta"), ("parquet", "delta"), "at most 1.3"),
    ("deleted", ("ours", "iceberg"), ("parquet", "iceberg"), "at most 1.3"),
    ("whole", ("ours", "delta"), ("delta-spark", "delta"), "below 1"),
    ("whole", ("ours", "iceberg"), ("iceberg-spark", "iceberg"), "below 1"),
    ("deleted", ("ours", "delta"), ("delta-spark", "delta"), "below 1"),
    ("deleted", ("ours", "iceberg"), ("iceberg-spark", "iceberg"), "below 1"),
    ("months", ("ours", "delta"), ("parquet", "delta"), "below 1"),
    ("months", ("ours", "iceberg"), ("parquet", "iceberg"), "below 1"),
)
"""Pairs of engines whose geometric mean of ratios has a goal."""
CASES = {
    "lookup": "a point lookup among {lookup_files:,} files",
    "day": "one day of {day_files:,} day partitions",
    "small": "all rows of {small_files:,} small files",
    "compacted": "the same rows in 2 files",
}


def main() -> None:
    text = page()
    PAGE.write_text(text, encoding="utf-8")
    print(text)


def page() -> str:
    """Return the whole page."""
    parts = [TEXT.read_text(encoding="utf-8").rstrip()]
    measured = MEASURED / "reads_figures.json"
    for name, title in (("reads_shapes", "Files opened"), ("reads_shapes_large", "Files opened of a larger table")):
        counted = MEASURED / f"{name}.json"
        if counted.exists():
            parts.append("\n".join(_shapes(title, Counts.read(counted))))
    if measured.exists():
        parts.append("\n".join(_figures(Timings.read(measured))))
    for path in sorted(MEASURED.glob("reads_tpch_sf*.json"), key=lambda path: float(path.stem.rsplit("sf", 1)[1])):
        parts.append("\n".join(_tpch(path.stem.rsplit("sf", 1)[1], Timings.read(path))))
    return "\n\n".join(parts) + "\n"


def _shapes(title: str, counts: Counts) -> Iterator[str]:
    columns = [entry for entry in COUNTED if any((count.engine, count.format) == entry for count in counts.counts)]
    yield f"## {title}"
    yield ""
    yield f"Tables of {counts.size['files']} files with {counts.size['rows']:,} rows. {_versions(counts.versions)} *Files* are those in the"
    yield "folders of the tables that the query reads; *before* is rowmerge when only Spark skipped files, by their folders."
    yield "A number in bold is higher than that of the better peer."
    for group in dict.fromkeys(shape.group for shape in shapes(Size()) if any(count.group == shape.group for count in counts.counts)):
        yield ""
        yield from _header(
            [group.lower(), "files", *("before" if engine == "ours-before" else _title(engine, format_) for engine, format_ in columns)]
        )
        for shape in dict.fromkeys(count.shape for count in counts.counts if count.group == group):
            yield _shape_row(counts, group, shape, columns)


def _shape_row(counts: Counts, group: str, shape: str, columns: Sequence[tuple[str, str]]) -> str:
    by_engine = {entry: count for entry in columns if (count := counts.of(shape, group, *entry)) is not None}
    peers = [count.opened for (engine, _), count in by_engine.items() if engine not in OURS and count.opened is not None]
    cells = []
    for entry in columns:
        count = by_engine.get(entry) or (counts.of(shape, group, "ours-before", "iceberg") if entry[0] == "ours-before" else None)
        opened = None if count is None else count.opened
        exceeds = opened is not None and entry[0] == "ours" and bool(peers) and opened > min(peers)
        cells.append(f"**{opened}**" if exceeds else "–" if count is None else "failed" if opened is None else str(opened))
    files = max(count.files for count in counts.counts if (count.group, count.shape) == (group, shape))
    return f"| {shape} | {files} | {' | '.join(cells)} |"


_NO_MEMORY = (
    "*Failed*: Spark had no memory for a sort in a process with 4 GB. In a repetition of this query, plain Parquet and Iceberg on Spark\n"
    "failed too."
)


def _figures(timings: Timings) -> Iterator[str]:
    engines = _engines(timings, "")
    sizes = Figures()
    fields = {"lookup_files": sizes.lookup_files, "day_files": sizes.day_files, "small_files": sizes.small_files}
    yield "## Many files"
    yield ""
    yield f"Seconds, {_runs(timings)}; in brackets the files opened. {_machine(timings)}"
    yield ""
    yield from _header(["engine", *(CASES[case].format(**fields) for case in timings.cases())])
    for engine, format_ in engines:
        cells = [_timing(timings.of(case, engine, format_)) for case in timings.cases()]
        yield f"| {_title(engine, format_)} | {' | '.join(cells)} |"


def _tpch(scale: str, timings: Timings) -> Iterator[str]:
    yield f"## TPC-H at scale factor {scale}"
    yield ""
    yield f"Seconds, {_runs(timings)}. Each engine has its own process. {_machine(timings)}"
    yield "*Plain Parquet* is Spark on the same files without their logs, so it also reads deleted rows."
    if any("UNABLE_TO_ACQUIRE_MEMORY" in (timing.error or "") for timing in timings.timings):
        yield _NO_MEMORY
    yield ""
    yield from _header(["geometric mean of ratios", "tables", "ratio", "goal"])
    for layout, own, other, goal in GOALS:
        ratio = timings.ratio(own, other, layout)
        if ratio is not None:
            name = f"{TITLES[own[0]]} to {TITLES[other[0]]}, {own[1].title()}"
            yield f"| {name} | {LAYOUT_TITLES[layout]} | {ratio:.2f} | {goal} |"
    for layout, title in LAYOUT_TITLES.items():
        engines = _engines(timings, layout)
        if engines:
            yield ""
            yield f"### {title}"
            yield ""
            yield from _header(["query", *(_title(engine, format_) for engine, format_ in engines)])
            for case in timings.cases(layout):
                yield f"| {case} | {' | '.join(_timing(timings.of(case, *entry, layout)) for entry in engines)} |"


def _runs(timings: Timings) -> str:
    counts = sorted({len(timing.seconds) for timing in timings.timings if timing.seconds})
    if counts == [1]:
        return "one run with all files in memory"
    return f"the median of {' or '.join(map(str, counts))} runs after one that is not measured"


def _engines(timings: Timings, layout: str) -> list[tuple[str, str]]:
    """Return the engines of a layout, Delta first."""
    return sorted(dict.fromkeys((t.engine, t.format) for t in timings.timings if t.layout == layout), key=lambda entry: entry[1])


def _title(engine: str, format_: str) -> str:
    return TITLES[engine] if engine in ("delta-spark", "iceberg-spark", "delta-rs") else f"{TITLES[engine]}, {format_.title()}"


def _header(titles: Sequence[str]) -> list[str]:
    return [f"| {' | '.join(titles)} |", f"| --- |{' ---: |' * (len(titles) - 1)}"]


def _timing(timing: Timing | None) -> str:
    if timing is None:
        return "–"
    if timing.median is None:
        return "failed"
    seconds = f"{timing.median:.3f}" if timing.median < 0.1 else f"{timing.median:.2f}"
    return seconds if timing.opened is None else f"{seconds} ({timing.opened:,})"


def _machine(timings: Timings) -> str:
    described = f"{timings.machine['cores']} cores, {timings.machine['CPU']}, {timings.machine['memory']}"
    return f"{described}. {_versions(timings.versions)}"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(versions.items()) if not name.startswith("Spark of")) + "."


if __name__ == "__main__":
    main()
