"""The benchmark on few rows, for CI: it runs, and all engines that are here end with the same rows. What it times says nothing.

python -m benchmarks.smoke
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from benchmarks.__main__ import main
from benchmarks.report import main as print_page

SCENARIOS = "1,6,12"
ENGINES = "ours,delta-rs"


def smoke(folder: Path) -> str:
    """Run it below a folder; the page that comes of it. Raises SystemExit when an engine fails or has other rows."""
    results, docs = folder / "benchmark.json", folder / "docs"
    docs.mkdir()
    size = ["--scale", "0.01", "--repetitions", "1", "--smoke", "--folder", str(folder), "--out", str(results)]
    main([*size, "--engines", ENGINES, "--scenarios", SCENARIOS])
    main([*size, "--engines", "delta-rs", "--scenarios", "1", "--cold", "1", "--add"])
    print_page([str(results), "--docs", str(docs)])
    return (docs / "performance.md").read_text(encoding="utf-8")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="rowmerge-smoke-") as place:
        sys.stdout.write(smoke(Path(place)))
