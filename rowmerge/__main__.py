"""The command line of the engine: `python -m rowmerge archive-classes`."""

from __future__ import annotations

import argparse
import sys

from rowmerge.errors import RowmergeError
from rowmerge.session.startup.class_archive import make_class_archive


def main() -> int:
    """Run the command that the arguments name, and return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m rowmerge")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser(
        "archive-classes",
        help="write a class archive, with which the embedded Spark starts faster: once for each installation of Java and PySpark",
    )
    parser.parse_args()
    try:
        path = make_class_archive()
    except RowmergeError as error:
        print(f"rowmerge: {error}", file=sys.stderr)
        return 1
    print(f"{path} ({path.stat().st_size / 1e6:.0f} MB): the embedded Spark uses this archive from now on. Delete it to stop this.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
