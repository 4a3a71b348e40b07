"""The catalog that `dbt docs generate` writes for tables and views."""

from __future__ import annotations

import pytest
from dbt.tests.adapter.basic.expected_catalog import base_expected_catalog, expected_references_catalog
from dbt.tests.adapter.basic.test_docs_generate import BaseDocsGenerate, BaseDocsGenReferences
from dbt.tests.adapter.basic.test_get_catalog_for_single_relation import BaseGetCatalogForSingleRelation
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, TableMetadata

pytestmark = pytest.mark.artifacts

TYPES = {"id_type": "bigint", "text_type": "string", "time_type": "timestamp", "view_type": "view", "table_type": "table"}


class AnyStats(dict):
    """Equal to any statistics of a relation, because sizes and times of files differ between runs."""

    def __eq__(self, other):
        return isinstance(other, dict)

    __hash__ = None


class TestDocsGenerate(BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project, profile_user):
        """Return the catalog of the suite, with Spark's names of types."""
        return base_expected_catalog(project, role=profile_user, model_stats=AnyStats(), **TYPES)


class TestDocsGenReferences(BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project, profile_user):
        """Return the catalog of the suite, with Spark's names of types."""
        return expected_references_catalog(project, role=profile_user, model_stats=AnyStats(), bigint_type="bigint", **TYPES)


def expected(project, kind, name):
    types = {"id": "bigint", "first_name": "string", "email": "string", "ip_address": "string", "updated_at": "timestamp"}
    return CatalogTable(
        metadata=TableMetadata(type=kind, database=project.database, schema=project.test_schema, name=name),
        columns={each: ColumnMetadata(type=type_, index=index, name=each) for index, (each, type_) in enumerate(types.items(), start=1)},
        stats=AnyStats(),
    )


class TestGetCatalogForSingleRelation(BaseGetCatalogForSingleRelation):
    @pytest.fixture(scope="class")
    def expected_catalog_my_seed(self, project):
        """Return the entry, which the suite leaves to the adapter."""
        return expected(project, "table", "my_seed")

    @pytest.fixture(scope="class")
    def expected_catalog_my_view_model(self, project):
        """Return the entry, which the suite leaves to the adapter."""
        return expected(project, "view", "my_view_model")
