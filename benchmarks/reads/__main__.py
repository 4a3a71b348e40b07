"""`make bench-reads`: count the files that queries open, measure their seconds, and print docs/reads.md.

python -m benchmarks.reads shapes --engines ours
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from benchmarks.reads.count import Counts, count_files, engines_of
from benchmarks.reads.process import ROOT, Places
from benchmarks.reads.tables import Size

MEASURED = ROOT / "benchmarks" / "measured"


def main(words: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="benchmarks.reads", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "rowmerge-reads", help="the tables; kept")
    parser.add_argument("--peers", type=Path, default=ROOT / ".peers", help="jars and Python of the peers; see `make bench-peers`")
    parts = parser.add_subparsers(required=True)
    shapes = parts.add_parser("shapes", help="count the files that each query shape opens")
    shapes.add_argument("--engines", default="*", help="names with commas: ours, delta-spark, iceberg-spark; the counts of others are kept")
    shapes.add_argument("--files", type=int, default=Size.files, help="the files of a table")
    shapes.add_argument("--rows", type=int, default=Size.rows, help="the rows of a table")
    shapes.add_argument("--out", type=Path, default=MEASURED / "reads_shapes.json")
    shapes.set_defaults(run=_shapes)
    arguments = parser.parse_args(words)
    arguments.run(arguments)


def _shapes(arguments: argparse.Namespace) -> None:
    size = Size(arguments.files, arguments.rows)
    places = Places((arguments.folder / f"shapes-{size.files}-{size.rows}").resolve(), arguments.peers.resolve())
    earlier = Counts.read(arguments.out) if arguments.out.exists() else None
    counts = count_files(places, size, tuple(engines_of(arguments.engines)), earlier)
    counts.write(arguments.out)
    print("\n".join([*counts.disagreements(), *counts.gaps()]))
    if counts.disagreements():
        sys.exit(1)


if __name__ == "__main__":
    main()
