"""Run the benchmark on few rows, for CI: all available engines must end with the same rows. Its times have no meaning.

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
    """Run the benchmark in a folder, and return its page. Raises SystemExit if an engine fails or its rows differ."""
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
