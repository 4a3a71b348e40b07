"""The catalog of `dbt docs generate`, built from the engine's descriptions of tables and views."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import datetime, timezone
from itertools import chain
from typing import Any

import agate
from dbt_common.clients.agate_helper import Integer
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata

from dbt.adapters.rowmerge.relations.relation import RowmergeRelation
from rowmerge import RelationDescription

_TEXT, _NUMBER, _FLAG = agate.Text(null_values=()), Integer(), agate.Boolean()
_STATISTICS = {
    "format": ("Format", "The table format"),
    "location": ("Location", "The folder of the table's files"),
    "partition_columns": ("Partitioned by", "The columns, or transforms of columns, that define the partitions"),
    "version": ("Version", "The number of the newest commit, or the snapshot id of an Iceberg table"),
    "num_rows": ("Rows", "The number of rows in the newest version"),
    "bytes": ("Size", "The size of the newest version's data files, in bytes"),
    "num_files": ("Files", "The number of data files in the newest version"),
    "num_deleted_rows": ("Deleted rows", "The number of rows that are marked as deleted and remain in files until OPTIMIZE or a rewrite"),
    "last_modified": ("Last modified", "The time of the newest commit, in UTC"),
}
_TABLE_COLUMNS = ("table_database", "table_schema", "table_name", "table_type", "table_comment", "table_owner")
_STATISTIC_COLUMNS = {"label": _TEXT, "value": _TEXT, "description": _TEXT, "include": _FLAG}
_COLUMNS = {
    **dict.fromkeys(_TABLE_COLUMNS, _TEXT),
    "column_name": _TEXT,
    "column_index": _NUMBER,
    "column_type": _TEXT,
    "column_comment": _TEXT,
    **{f"stats:{key}:{attribute}": type_ for key in _STATISTICS for attribute, type_ in _STATISTIC_COLUMNS.items()},
}


def catalog_rows(descriptions: Iterable[RelationDescription], database: str | None = None) -> agate.Table:
    """Return the table from which dbt builds catalog.json, with a row for each column of each relation.

    Args:
        descriptions: The engine's descriptions of the relations.
        database: The database name of the relations in dbt; None if they have none.
    """
    rows = chain.from_iterable(_column_rows(description, database) for description in descriptions)
    return agate.Table([[row.get(name) for name in _COLUMNS] for row in rows], list(_COLUMNS), list(_COLUMNS.values()))


def catalog_table(description: RelationDescription, database: str | None = None) -> CatalogTable:
    """Return the engine's description of a relation as an entry of dbt's catalog.json.

    Args:
        description: The engine's description of a table or a view.
        database: The database name of the relation in dbt; None if it has none.
    """
    relation = description.relation
    schema = RowmergeRelation.from_engine(relation, database).schema
    metadata = TableMetadata(type=relation.kind, database=database, schema=str(schema), name=relation.name, comment=description.comment)
    columns = {
        field.name: ColumnMetadata(type=field.sql_type, index=index, name=field.name, comment=field.comment)
        for index, field in enumerate(description.columns, start=1)
    }
    return CatalogTable(metadata=metadata, columns=columns, stats=_statistics(description))


def _column_rows(description: RelationDescription, database: str | None) -> Iterator[dict[str, Any]]:
    """Yield a row for each column, as a dictionary with the keys in `_COLUMNS`. Each row repeats the statistics of the relation."""
    relation_values = {
        "table_database": database,
        "table_schema": RowmergeRelation.from_engine(description.relation, database).schema,
        "table_name": description.relation.name,
        "table_type": description.relation.kind,
        "table_comment": description.comment,
    }
    for name, statistic in _statistics(description).items():
        relation_values |= {f"stats:{name}:{attribute}": getattr(statistic, attribute) for attribute in _STATISTIC_COLUMNS}
        relation_values[f"stats:{name}:value"] = str(statistic.value)
    for index, field in enumerate(description.columns, start=1):
        column_values = {"column_name": field.name, "column_index": index, "column_type": field.sql_type, "column_comment": field.comment}
        yield {**relation_values, **column_values}


def _statistics(description: RelationDescription) -> dict[str, StatsItem]:
    """Return the statistics of a relation, by the keys in `_STATISTICS`. Omit statistics without a value, such as the size of a view."""
    is_size_known = description.files is not None or description.size > 0  # A view has no files, and its size is 0.
    values_by_key = {
        "format": description.relation.format,
        "location": description.location,
        "partition_columns": ", ".join(field.text for field in description.partitioning),
        "version": description.version,
        "num_rows": description.records,
        "bytes": description.size if is_size_known else None,
        "num_files": description.files,
        "num_deleted_rows": description.deleted,
        "last_modified": _utc_text(description.modified) if description.modified else None,
    }
    return {
        key: StatsItem(id=key, label=label, value=values_by_key[key], include=True, description=explanation)
        for key, (label, explanation) in _STATISTICS.items()
        if values_by_key[key] not in (None, "")
    }


def _utc_text(milliseconds: int) -> str:
    return datetime.fromtimestamp(milliseconds / 1000, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")
