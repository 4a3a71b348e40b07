"""The plugin that dbt loads for a profile of type `rowmerge`."""

from dbt.adapters.base import AdapterPlugin

from dbt.adapters.rowmerge.configs.credentials import RowmergeCredentials
from dbt.adapters.rowmerge.connections import RowmergeConnectionManager
from dbt.adapters.rowmerge.impl import RowmergeAdapter
from dbt.adapters.rowmerge.relations.column import RowmergeColumn
from dbt.adapters.rowmerge.relations.relation import RowmergeRelation
from dbt.include import rowmerge

Plugin = AdapterPlugin(RowmergeAdapter, RowmergeCredentials, rowmerge.PACKAGE_PATH, dependencies=["spark"])

__all__ = ["Plugin", "RowmergeAdapter", "RowmergeColumn", "RowmergeConnectionManager", "RowmergeCredentials", "RowmergeRelation"]
