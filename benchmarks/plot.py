"""The plot: a line of dots for each scenario, one an engine, at its warm seconds in multiples of ours; a logarithmic scale, plain SVG."""

from __future__ import annotations

from html import escape
from math import ceil, floor, log2

from benchmarks.engines.registry import ENGINES
from benchmarks.results import Run
from benchmarks.scenarios import SCENARIOS

ROW, LEFT, WIDTH, HEAD = 22, 330, 560, 116
COLORS = {
    "ours-cow": "#7fb3d5",
    "ours-mor": "#2471a3",
    "ours-iceberg": "#76d7c4",
    "ours-iceberg-cow": "#48c9b0",
    "ours-iceberg-mor": "#148f77",
    "delta-rs": "#e67e22",
    "delta-spark": "#e74c3c",
    "delta-spark-dv": "#922b21",
    "iceberg-spark-cow": "#bb8fce",
    "iceberg-spark-mor": "#6c3483",
    "limit-spark": "#909497",
    "limit-arrow": "#515a5a",
}


def plot(run: Run) -> str:
    """The SVG's text."""
    rows = [(name, _ratios(run, name)) for name in run.scenarios()]
    rows = [(name, ratios) for name, ratios in rows if ratios]
    found = [ratio for _, ratios in rows for ratio in ratios.values()] or [1.0]
    low, high = floor(log2(min(*found, 0.5))), ceil(log2(max(*found, 2.0)))
    height = HEAD + ROW * len(rows) + 30

    def at(ratio: float) -> float:
        return LEFT + WIDTH * (log2(ratio) - low) / (high - low)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {LEFT + WIDTH + 30} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{LEFT + WIDTH + 30}" height="{height}" fill="white"/>',
        *_legend(sorted({engine for _, ratios in rows for engine in ratios}, key=list(COLORS).index)),
    ]
    for power in range(low, high + 1):
        x, weight = at(2.0**power), 2 if power == 0 else 0.5
        parts.append(f'<line x1="{x:.1f}" y1="{HEAD - 6}" x2="{x:.1f}" y2="{height - 24}" stroke="#888" stroke-width="{weight}"/>')
        parts.append(f'<text x="{x:.1f}" y="{height - 8}" text-anchor="middle">{2.0**power:g} ×</text>')
    for index, (name, ratios) in enumerate(rows):
        y = HEAD + ROW * index + 8
        title = escape(f"{name}  {SCENARIOS[name].title}"[:54])
        parts.append(f'<text x="{LEFT - 10}" y="{y + 4}" text-anchor="end">{title}</text>')
        for engine, ratio in ratios.items():
            hint = escape(f"{ENGINES[engine].title}: {ratio:.2f} × ours")
            parts.append(f'<circle cx="{at(ratio):.1f}" cy="{y}" r="5" fill="{COLORS[engine]}"><title>{hint}</title></circle>')
    return "\n".join([*parts, "</svg>", ""])


def _ratios(run: Run, scenario: str) -> dict[str, float]:
    ours = run.case(scenario, "ours")
    if ours is None or not ours.warm:
        return {}
    cases = [(engine, run.case(scenario, engine)) for engine in COLORS]
    return {engine: case.warm / ours.warm for engine, case in cases if case is not None and case.warm}


def _legend(engines: list[str]) -> list[str]:
    parts = []
    for index, engine in enumerate(engines):
        x, y = 20 + 300 * (index % 3), 18 + 18 * (index // 3)
        parts.append(f'<circle cx="{x}" cy="{y}" r="5" fill="{COLORS[engine]}"/>')
        parts.append(f'<text x="{x + 10}" y="{y + 4}">{escape(ENGINES[engine].title)}</text>')
    return parts
