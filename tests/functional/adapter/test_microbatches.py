"""Concurrent batches of one microbatch model."""

from __future__ import annotations

import re

import pytest
from dbt.tests.util import patch_microbatch_end_time, run_dbt_and_capture

from tests.support.suites import examples

FORMATS = ("delta", "iceberg")
DAYS = examples(gate=3, full=6)
EVENTS = """
{{{{ config(materialized='table', event_time='at') }}}}
select id, timestamp'2024-01-01 00:00:00+00:00' + make_interval(0, 0, 0, id % {days}, 6) as at, {{{{ var('amount', 1) }}}} as amount
from range(60)
"""
# A batch that would need another attempt fails. The pause makes batches overlap on a busy machine.
BATCHES = """
{{{{ config(
    materialized='incremental', incremental_strategy='microbatch', event_time='at', batch_size='day', begin='2024-01-01', lookback={days},
    concurrent_batches=true, file_format='{format}', tblproperties={{'rowmerge.commit.retry.num-retries': '0'}}
) }}}}
{{% if execute %}}{{% do run_query("select java_method('java.lang.Thread', 'sleep', bigint(500))") %}}{{% endif %}}
select * from {{{{ ref('events') }}}}
"""


def most_at_once(log, model):
    running, most = 0, 0
    for line in log.splitlines():
        if re.search(rf"Batch \d+ of \d+ (START|OK).*\b\w*\.?{model}", line):
            running += 1 if "START" in line else -1
            most = max(most, running)
    return most


class TestBatchesAtOnce:
    @pytest.fixture(scope="class")
    def models(self):
        batches = {f"{format}_batches.sql": BATCHES.format(days=DAYS, format=format) for format in FORMATS}
        return {"events.sql": EVENTS.format(days=DAYS), **batches}

    def test_concurrent_batches_never_conflict(self, project):
        def build(amount):
            arguments = ["run", "--threads", "8", "--vars", f"{{amount: {amount}}}"]
            with patch_microbatch_end_time(f"2024-01-0{DAYS} 13:00:00"):
                results, log = run_dbt_and_capture(arguments)
            assert [result.status for result in results] == ["success"] * 3
            for format in FORMATS:
                count, total, days = project.run_sql(
                    f"select count(*), sum(amount), count(distinct date(at)) from {{schema}}.{format}_batches", fetch="one"
                )
                assert (count, total, days) == (60, 60 * amount, DAYS), format
            return log

        build(1)
        log = build(2)
        assert all(most_at_once(log, f"{format}_batches") > 1 for format in FORMATS)
        # All rows are in one file: batches mark its rows, or need another attempt if they must rewrite the file.
        for format in FORMATS:
            name = f"{project.test_schema}.{format}_batches"
            project.run_sql(f"alter table {name} unset tblproperties ('rowmerge.commit.retry.num-retries')")
            project.run_sql(f"optimize {name}")
        build(3)
