"""Measure the stages of a warm `dbt run` of 20 small incremental models: dbt, planning, Spark jobs, commits.

    python benchmarks/dbt_small_models.py

Each model merges 10 rows (half of them new) into a table of 1,000. Run 0 creates the tables; the later runs are incremental, in the same
process. With one thread, the stages and dbt add up to the total. With four threads they overlap, so only their sums are printed.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from statistics import median

from dbt_run import STAGES, invoke

import rowmerge

MODELS = 20
RUNS = 6
PROJECT = """
name: small
version: "1.0"
profile: small
models: {+materialized: incremental, +incremental_strategy: merge, +unique_key: id}
flags: {send_anonymous_usage_stats: false}
"""
PROFILE = """
small:
  target: dev
  outputs:
    dev: {{type: rowmerge, schema: small, warehouse: {warehouse}, threads: {threads}}}
"""
MODEL = """
{%- set run = var('batch') -%}
{% if is_incremental() %}
select 995 + 5 * {{ run }} - 5 + id as id, 'changed in {{ run }}' as name, id * 1.5 as amount from range(10)
{% else %}
select id, 'first' as name, id * 1.5 as amount from range(1000)
{% endif %}
"""


def main() -> None:
    rowmerge.connect(tempfile.mkdtemp(prefix="rowmerge-spark-"))
    print(f"{'threads':<10}{'wall':>8}{'dbt':>8}" + "".join(f"{stage:>8}" for stage in STAGES))
    for threads in (1, 4):
        folder = make_project(threads)
        runs = [invoke(folder, folder, ["run"], {"batch": run}, threads) for run in range(RUNS)]
        warm = [median(values) for values in zip(*runs[2:], strict=True)]
        if threads > 1:
            warm[1] = float("nan")
        print(f"{threads:<10}" + "".join(f"{seconds:8.2f}" for seconds in warm), flush=True)


def make_project(threads: int) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="rowmerge-small-"))
    (folder / "models").mkdir()
    (folder / "dbt_project.yml").write_text(PROJECT)
    (folder / "profiles.yml").write_text(PROFILE.format(warehouse=folder / "warehouse", threads=threads))
    for number in range(MODELS):
        (folder / "models" / f"m{number:02}.sql").write_text(MODEL)
    return folder


if __name__ == "__main__":
    main()
