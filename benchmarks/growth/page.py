"""Print docs/performance_growth.md, with its charts, from the results of the growth curves.

python -m benchmarks.growth.page benchmarks/measured/growth.jsonl
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import ceil, floor, log10
from pathlib import Path
from typing import Any

from benchmarks.growth.measure import OPERATIONS
from benchmarks.growth.points import CURVES, FORMATS, Point
from benchmarks.results import read_lines

DOCS = Path(__file__).resolve().parents[2] / "docs"
PICTURE = "performance-growth.svg"
BEND = 0.5
"""The least difference between the exponents of neighbouring segments that is a bend of the curve."""
NOISE = 0.3
"""The seconds by which the points of a curve must differ at least. Curves with smaller differences have no bends."""
_HEAD = """<!-- Written by `python -m benchmarks.growth.page`; change benchmarks/growth/page.py instead. -->
# Growth

How a statement's time, requests, bytes and memory grow with one property of its table. All other properties stay at their defaults: 2
million rows, 8 columns, files of 500,000 rows, no partitions, and a source of 1 % as many rows, of which a fifth are new. The statement is
an upsert by a key of type BIGINT. A hash of the key selects its rows, so they are scattered over all files. Delta Lake has the mode `auto`,
Iceberg merge-on-read.

- `rows`: 1 to 60 million.
- `columns`: 4 to 256, with 200,000 rows.
- `files`: 10 to 100,000. The table is metadata with the statistics of 16 columns, and one data file of 100,000 rows. The upsert changes 800
  rows of this file, and inserts 200.
- `commits`: 10 to 100,000, with the same data file and the same upsert. The newest checkpoint of Delta Lake is ten commits old. Iceberg's
  table has 1,000 files, and all snapshots in its metadata file.
- `partitions`: 1 to 10,000, with 1 million rows. The upsert changes rows of every partition, if it has so many.
- `share`: the source changes 0.001 to 100 % of the rows.

**Method.** Each table has a process of its own. Its first repetition does not count. Three more have a new copy of the table and a new
session on the same Spark. `open` is `SELECT count(*)`, which metadata answer. `select` reads one key. `merge` is the upsert, on the opened
table. Seconds, requests and bytes are medians, and memory is the highest one. *Requests* are the engine's calls to its store, such as GET
and LIST. On a disk, four tests of a file replace one LIST of an object store, so these counts show growth only. Reads of data files are in
the bytes. Memory is that of all processes, and Java has a heap of at most 8 GB.

In the runs of November 2026, `select` reads a key that the table lacks in the curves *rows* and *partitions*, and from a share of 1 %. So
bounds exclude all files. The curves *files* and *commits* were measured a day earlier, before mode `auto` marked rows of many small files.

**Exponent.** A line through the points, with both axes logarithmic, has the exponent as its slope: 1 is linear growth, 0 is none. The last
exponent is that of the two largest values. A curve *bends* where the exponents of neighbouring segments differ by at least {bend}.
Curves whose points differ by less than {noise} s have no bends, because such differences are noise.

![Seconds of all curves]({picture})
"""
REASONS: dict[str, str] = {
    "rows": """Opening does not grow, because metadata are in few files. The upsert changes 1 % of the rows, so its source grows too:
from 10,000 to 600,000 rows. Up to 5 million rows of the table, the jobs of Spark take most of the time. Above, the time to read the
key column of each file and to write the new rows is added, and the curve approaches linear growth. From 20 million rows, executors
write the new rows, in Python processes of about 200 MB each.""",
    "columns": """Each column adds time to analyze and compile the statement, to convert its rows, and to write its part of the file
and of the statistics: 4 to 6 ms for each column up to 128, in an upsert of 2,000 rows. Only the key column is read to find the rows.
The bend at 128 is probably a change of the way: a source row with 256 columns has more than 500 bytes of texts. Then the driver does
not write the rows, and executors read them again from Spark. With 4 columns, the Delta file is so small that it is rewritten.""",
    "partitions": """The upsert of 10,000 rows changes rows of each partition, so it writes a file for each partition. It also marks
rows of a file in each partition. From 1,000 partitions, that takes 4 ms for each touched partition, and grows linearly. Delta Lake
stores all deletion vectors in one file. Iceberg's tables of version 2 have a delete file for each data file, which takes about 3 ms
more, so their requests grow as well. With 10,000 partitions, the source has rows of about 6,000.""",
    "share": """The curve is a fixed time, of the jobs of Spark, and a time for each row of the source. Up to 1 % (20,000 rows), the
fixed time of about 0.6 s dominates, and the driver writes the rows. Above, executors write them.""",
    "files": """The statements do not grow: the bounds of all files are columns in Arrow, and exclude all files but one without
reading them. Opening grows above 10,000 files, in Iceberg linearly, because each entry of a manifest or of a checkpoint is decoded
once. Memory grows with it, by about 8 KB for each file of Iceberg and 2.5 KB for each of Delta Lake.""",
    "commits": """Opening a table of Delta Lake reads the newest checkpoint and ten commits. Each commit has added a file, so that
the number of files grows as well. At 100,000 commits, most of the time is the listing of the log, of which a folder on a disk returns
all names. Iceberg's metadata file contains each snapshot that has not expired: 28 MB for 100,000. Opening parses it, which grows
linearly, and a commit writes it again. Expire old snapshots.""",
}
"""Why a curve has its form, for the text below its table."""
_MEGABYTE = 1_000_000
Series = Mapping[str, Mapping[str, Mapping[float, Mapping[str, Mapping[str, float]]]]]
"""The measurements by curve, table format, value and operation."""


def main(words: list[str] | None = None) -> None:
    """Write the page and its picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--docs", type=Path, default=DOCS)
    arguments = parser.parse_args(words)
    results = read_lines(arguments.results)
    series = _series(results)
    (arguments.docs / PICTURE).write_text(chart(series), encoding="utf-8")
    parts = [
        _HEAD.format(bend=BEND, noise=NOISE, picture=PICTURE),
        _machine(results),
        *(_section(curve, series[curve]) for curve in CURVES if curve in series),
    ]
    (arguments.docs / "performance_growth.md").write_text("\n".join(parts), encoding="utf-8")


def _series(results: Sequence[Mapping[str, Any]]) -> Series:
    series: dict[str, dict[str, dict[float, Any]]] = {}
    for result in results:
        point = Point.from_name(result["point"])
        series.setdefault(point.curve, {}).setdefault(point.format, {})[point.value] = result["operations"]
    return {curve: {format_: dict(sorted(values.items())) for format_, values in formats.items()} for curve, formats in series.items()}


def exponent(points: Mapping[float, float]) -> float:
    """Return the slope of the line that fits points best, with both axes logarithmic (least squares).

    Args:
        points: At least two positive values of a measurement, by the positive value of the property.
    """
    xs, ys = [log10(x) for x in points], [log10(y) for y in points.values()]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / sum((x - x_mean) ** 2 for x in xs)


def segments(points: Mapping[float, float]) -> list[tuple[float, float]]:
    """Return for each two neighbouring points the smaller value of the property, and the exponent between them."""
    return [(low[0], exponent(dict((low, high)))) for low, high in pairwise(points.items())]


def bends(points: Mapping[float, float]) -> list[tuple[float, float, float]]:
    """Return the values at which a curve of seconds bends, each with the exponents of the segments before and after it."""
    if max(points.values()) - min(points.values()) < NOISE:
        return []
    pairs = pairwise(segments(points))
    return [
        (value, exponent_below, exponent_above)
        for (_, exponent_below), (value, exponent_above) in pairs
        if abs(exponent_above - exponent_below) >= BEND
    ]


def _machine(results: Sequence[Mapping[str, Any]]) -> str:
    dates = sorted({result["date"] for result in results})
    parts = {**results[0]["machine"], **results[0]["versions"]}
    return f"{dates[0]} to {dates[-1]}; {', '.join(f'{name} {value}' for name, value in parts.items())}.\n"


def _section(curve: str, formats: Mapping[str, Mapping[float, Any]]) -> str:
    lines = [
        f"## {curve.capitalize()}\n",
        f"| format | {curve} | open, s | select, s | merge, s | requests: open | select | merge | merge: MB read | MB written | files "
        "| Python, MB | Java, MB |",
        "| --- |" + " ---: |" * 12,
        *(_row(format_, value, operations) for format_ in FORMATS for value, operations in formats.get(format_, {}).items()),
        "",
        "| format | operation | exponent | last exponent | bends |",
        "| --- | --- | ---: | ---: | --- |",
        *(_growth_row(format_, operation, formats[format_]) for format_ in FORMATS if format_ in formats for operation in OPERATIONS),
        "",
    ]
    return "\n".join([*lines, REASONS[curve], ""] if curve in REASONS else lines)


def _row(format_: str, value: float, operations: Mapping[str, Mapping[str, float]]) -> str:
    seconds = [f"{operations[name]['seconds']:.2f}" for name in OPERATIONS]
    requests = [f"{operations[name]['requests']:.0f}" for name in OPERATIONS]
    merge = operations["merge"]
    sizes = [f"{merge['bytes_read'] / _MEGABYTE:,.1f}", f"{merge['bytes_written'] / _MEGABYTE:,.1f}", f"{merge['files']:,.0f}"]
    peaks = [max(operations[name][key] for name in OPERATIONS) for key in ("memory_of_python", "memory_of_java")]
    memory = [f"{peak / _MEGABYTE:,.0f}" for peak in peaks]
    return f"| {' | '.join([format_, f'{value:,.12g}', *seconds, *requests, *sizes, *memory])} |"


def _growth_row(format_: str, operation: str, values: Mapping[float, Any]) -> str:
    points = {value: operations[operation]["seconds"] for value, operations in values.items()}
    if len(points) < 2:
        return f"| {format_} | {operation} | – | – | – |"
    listed = "; ".join(f"at {value:,.12g}: from {low:.1f} to {high:.1f}" for value, low, high in bends(points))
    return f"| {format_} | {operation} | {exponent(points):.2f} | {segments(points)[-1][1]:.2f} | {listed or 'none'} |"


_PANEL_WIDTH, _PANEL_HEIGHT, _MARGIN = 340, 250, 44
_LEGEND = "Seconds. Blue: Delta Lake, green: Iceberg. Solid: merge, dashed: select, dotted: open. Grey: linear growth."
_COLORS = {"delta": "#2471a3", "iceberg": "#148f77"}
_DASHES = {"merge": "", "open": "2 3", "select": "7 3"}


def chart(series: Series) -> str:
    """Return an SVG with a panel for each curve: the seconds of each operation and format, with both axes logarithmic."""
    curves = [curve for curve in CURVES if curve in series]
    width, height = 3 * _PANEL_WIDTH, 30 + ceil(len(curves) / 3) * _PANEL_HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="44" y="18">{_LEGEND}</text>',
    ]
    for index, curve in enumerate(curves):
        parts += _panel(index % 3 * _PANEL_WIDTH, 30 + index // 3 * _PANEL_HEIGHT, curve, series[curve])
    return "\n".join([*parts, "</svg>\n"])


def _panel(x_offset: int, y_offset: int, curve: str, formats: Mapping[str, Mapping[float, Any]]) -> list[str]:
    xs = sorted({value for values in formats.values() for value in values})
    seconds = [run["seconds"] for values in formats.values() for operations in values.values() for run in operations.values()]
    low, high = floor(log10(min(seconds))), ceil(log10(max(seconds)))
    inner_width, inner_height = _PANEL_WIDTH - _MARGIN - 14, _PANEL_HEIGHT - 56
    x_span, y_span = log10(xs[-1] / xs[0]) or 1.0, (high - low) or 1

    def at(x: float, y: float) -> tuple[float, float]:
        return x_offset + _MARGIN + inner_width * log10(x / xs[0]) / x_span, y_offset + 20 + inner_height * (high - log10(y)) / y_span

    bottom = y_offset + 20 + inner_height
    parts = [f'<text x="{x_offset + _MARGIN}" y="{y_offset + 12}" font-weight="bold">{curve}</text>']
    for power in range(low, high + 1):
        _, y = at(xs[0], 10.0**power)
        parts.append(f'<line x1="{x_offset + _MARGIN}" y1="{y:.1f}" x2="{x_offset + _MARGIN + inner_width}" y2="{y:.1f}" stroke="#ddd"/>')
        parts.append(f'<text x="{x_offset + _MARGIN - 6}" y="{y + 4:.1f}" text-anchor="end">{10.0**power:g}</text>')
    for x in xs:
        parts.append(f'<text x="{at(x, 1.0)[0]:.1f}" y="{bottom + 16}" text-anchor="middle">{_short(x)}</text>')
    decades = min(x_span, y_span)  # a line of slope 1 from the lower left corner
    start, end = at(xs[0], 10.0**low), at(xs[0] * 10**decades, 10.0 ** (low + decades))
    parts.append(
        f'<line x1="{start[0]:.1f}" y1="{start[1]:.1f}" x2="{end[0]:.1f}" y2="{end[1]:.1f}" stroke="#aaa" stroke-dasharray="1 3"/>'
    )
    for format_, values in formats.items():
        for operation, dashes in _DASHES.items():
            line = " ".join("{:.1f},{:.1f}".format(*at(value, runs[operation]["seconds"])) for value, runs in values.items())
            style = f'stroke="{_COLORS[format_]}" stroke-width="1.6" stroke-dasharray="{dashes}"'
            parts.append(f'<polyline points="{line}" fill="none" {style}/>')
    return parts


def _short(value: float) -> str:
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


if __name__ == "__main__":
    main()
