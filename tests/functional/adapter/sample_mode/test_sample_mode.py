"""`dbt run --sample` reads only the rows of its time window, as dbt's suite requires."""

from __future__ import annotations

from dbt.tests.adapter.sample_mode.test_sample_mode import BaseSampleModeTest


class TestSampleMode(BaseSampleModeTest):
    pass
