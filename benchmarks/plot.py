"""Draw the charts of the benchmark as plain SVG: ratios to our engine on a logarithmic scale, and seconds as bars."""

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


BAR_SCENARIOS = ("1", "5", "6", "8")
BAR_ENGINES = {
    "ours": "#2471a3",
    "ours-iceberg-mor": "#148f77",
    "delta-rs": "#c9ced6",
    "delta-spark-dv": "#a3abb8",
    "iceberg-spark-mor": "#7d8796",
}
"""Engines of the README's chart, from top to bottom, with their colors: ours in color, the others in grey."""
BAR, GAP, BARS_LEFT, BARS_WIDTH = 15, 38, 230, 580


def bar_chart(run: Run) -> str:
    """Return the README's chart: the warm seconds of a few scenarios as horizontal bars, one for each engine, on one linear scale."""
    seconds = {
        (scenario, engine): case.warm
        for scenario in BAR_SCENARIOS
        for engine in BAR_ENGINES
        if (case := run.case(scenario, engine)) is not None and case.warm is not None
    }
    scenarios = [scenario for scenario in BAR_SCENARIOS if any((scenario, engine) in seconds for engine in BAR_ENGINES)]
    scale = BARS_WIDTH / max(seconds.values(), default=1.0)
    width, height = BARS_LEFT + BARS_WIDTH + 80, len(scenarios) * (GAP + BAR * len(BAR_ENGINES))
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    y = 0
    for scenario in scenarios:
        parts.append(f'<text x="{BARS_LEFT}" y="{y + 24}" font-weight="bold">{escape(SCENARIOS[scenario].title)}</text>')
        y += GAP - 6
        for engine, color in BAR_ENGINES.items():
            if warm := seconds.get((scenario, engine)):
                length = scale * warm
                parts.append(f'<text x="{BARS_LEFT - 8}" y="{y + 11}" text-anchor="end">{escape(ENGINES[engine].title)}</text>')
                parts.append(f'<rect x="{BARS_LEFT}" y="{y}" width="{length:.1f}" height="{BAR - 3}" fill="{color}"/>')
                parts.append(f'<text x="{BARS_LEFT + length + 6:.1f}" y="{y + 11}">{warm:.2f} s</text>')
            y += BAR
        y += 6
    return "\n".join([*parts, "</svg>", ""])


def plot(run: Run) -> str:
    """Return a chart with a line for each scenario and a dot for each engine, at its warm seconds as a multiple of ours."""
    rows = [(name, _ratios(run, name)) for name in run.scenarios()]
    rows = [(name, ratios) for name, ratios in rows if ratios]
    ratios_of_all = [ratio for _, ratios in rows for ratio in ratios.values()] or [1.0]
    low, high = floor(log2(min(*ratios_of_all, 0.5))), ceil(log2(max(*ratios_of_all, 2.0)))
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
