"""`make bench-reads`: count the files that queries open, measure their seconds, and print docs/reads.md.

python -m benchmarks.reads --engines ours shapes --files 100 --rows 1000000
python -m benchmarks.reads tpch --scale 10
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.reads import count, figures, tpch
from benchmarks.reads.count import count_files
from benchmarks.reads.figures import Figures, measure_figures
from benchmarks.reads.process import ROOT, Places
from benchmarks.reads.tables import Size
from benchmarks.reads.timing import Timings
from benchmarks.reads.tpch import LAYOUTS, Tpch, measure_tpch, queries

MEASURED = ROOT / "benchmarks" / "measured"


def main(words: list[str] | None = None) -> None:
    arguments = _parser().parse_args(words)
    places = Places(arguments.folder.resolve(), arguments.peers.resolve(), arguments.before and arguments.before.resolve())
    disagreements = arguments.run(arguments, places)
    print("\n".join(disagreements))
    if disagreements:
        sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.reads", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rowmerge-reads", help="the tables; kept")
    parser.add_argument("--peers", type=Path, default=ROOT / ".peers", help="jars and Python of the peers; see `make bench-peers`")
    parser.add_argument("--before", type=Path, help="a checkout of an earlier rowmerge, the engine `ours-before`")
    parser.add_argument("--engines", default="*", help="names with commas: ours, delta-spark, …; the results of others are kept")
    parser.add_argument("--repetitions", type=int, help="the measured runs of a statement")
    parts = parser.add_subparsers(required=True)
    part = _add_part(parts, "shapes", _shapes, "count the files that each query shape opens", {"files": Size.files, "rows": Size.rows})
    part.add_argument("--groups", default="*", help="a pattern of the groups of shapes, such as 'Dynamic*'")
    sizes = {"lookup-files": Figures.lookup_files, "small-files": Figures.small_files, "rows-of-a-file": Figures.rows_of_a_file}
    _add_part(parts, "figures", _figures, "measure a point lookup, one day, and small files", sizes)
    part = _add_part(parts, "tpch", _tpch, "measure the queries of TPC-H", {})
    part.add_argument("--scale", type=float, default=1.0)
    part.add_argument("--queries", default=",".join(queries(1)), help="numbers with commas")
    part.add_argument("--layouts", default=",".join(LAYOUTS), help="names with commas")
    return parser


def _add_part(parts: Any, name: str, run: Callable[..., list[str]], text: str, sizes: dict[str, int]) -> argparse.ArgumentParser:
    part: argparse.ArgumentParser = parts.add_parser(name, help=text)
    part.add_argument("--out", type=Path, help="the JSON file of the results")
    part.set_defaults(run=run)
    for option, default in sizes.items():
        part.add_argument(f"--{option}", type=int, default=default)
    return part


def _shapes(arguments: argparse.Namespace, places: Places) -> list[str]:
    size, out = Size(arguments.files, arguments.rows), arguments.out or MEASURED / "reads_shapes.json"
    places = places.below(f"shapes-{size.files}-{size.rows}")
    counts = count_files(places, size, _engines(count.ENGINES, arguments), arguments.groups, out)
    print("\n".join(counts.gaps()))
    return counts.disagreements()


def _figures(arguments: argparse.Namespace, places: Places) -> list[str]:
    sizes = Figures(lookup_files=arguments.lookup_files, small_files=arguments.small_files, rows_of_a_file=arguments.rows_of_a_file)
    out, engines = arguments.out or MEASURED / "reads_figures.json", _engines(figures.ENGINES, arguments)
    timings: Timings = measure_figures(places.below("figures"), sizes, out, engines, arguments.repetitions or 5)
    return timings.disagreements()


def _tpch(arguments: argparse.Namespace, places: Places) -> list[str]:
    out = arguments.out or MEASURED / f"reads_tpch_sf{arguments.scale:g}.json"
    timings = measure_tpch(
        Tpch(places, arguments.scale),
        out,
        _engines(tpch.ENGINES, arguments),
        layouts=arguments.layouts.split(","),
        numbers=arguments.queries.split(","),
        repetitions=arguments.repetitions or 3,
    )
    return timings.disagreements()


def _engines(engines: Sequence[tuple[str, str]], arguments: argparse.Namespace) -> list[tuple[str, str]]:
    """Return the engines that the arguments name. An earlier rowmerge needs its checkout."""
    names = arguments.engines.split(",")
    chosen = [entry for entry in engines if arguments.engines == "*" or entry[0] in names or "-".join(entry) in names]
    return [entry for entry in chosen if entry[0] != "ours-before" or arguments.before]


if __name__ == "__main__":
    main()
