"""The tests of dbt's adapter suite that do not run, with reasons. tests/unit/test_conformance.py compares the list with the suite."""

from __future__ import annotations

LEFT_OUT = {
    "The adapter has no materialized views.": [
        "catalog.relation_types.CatalogRelationTypes.test_relation_types_populate_correctly[model.test.my_materialized_view]",
        "materialized_view.basic.MaterializedViewBasic",
        "materialized_view.changes.MaterializedViewChanges",
        "materialized_view.changes.MaterializedViewChangesApplyMixin",
        "materialized_view.changes.MaterializedViewChangesContinueMixin",
        "materialized_view.changes.MaterializedViewChangesFailMixin",
        "simple_copy.test_simple_copy.SimpleCopyBase.test_simple_copy_with_materialized_views",
    ],
    "A warehouse has no users, so grants are not possible. A `grants` config causes a warning, and the permissions of the files apply.": [
        "grants.test_incremental_grants.BaseIncrementalGrants",
        "grants.test_invalid_grants.BaseInvalidGrants",
        "grants.test_model_grants.BaseModelGrants",
        "grants.test_seed_grants.BaseSeedGrants",
        "grants.test_snapshot_grants.BaseSnapshotGrants",
    ],
    "Spark runs no JavaScript.": [
        "functions.test_js_udfs.BasicJSUDF",
        "functions.test_js_udfs.JSUDFMultiLineBody",
        "functions.test_js_udfs.JSUDFDeterministicVolatility",
        "functions.test_js_udfs.JSUDFNonDeterministicVolatility",
        "functions.test_js_udfs.JSUDFStableVolatilityWarns",
        "functions.test_js_udfs.JSUDFDefaultArgSupport",
        "functions.test_js_udfs.BasicJSAggregateUDF",
        "functions.test_js_udfs.JSAggregateUDFVolatilityIgnored",
    ],
    "The test expects that an adapter rejects functions in Python, and dbt-rowmerge supports them.": [
        "functions.test_udfs.PythonUDFNotSupported.test_udfs",
    ],
    "The class is for timestamps without a time zone. Timestamps of Spark have one, and the class for timestamps with a time zone runs.": [
        "utils.test_current_timestamp.BaseCurrentTimestampNaive",
    ],
}
