"""The adapter: dbt's interface to a warehouse, implemented with the engine's catalog and snapshots."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import datetime, timezone
from functools import partial
from typing import TYPE_CHECKING, Any, Dict, FrozenSet, List, Optional, Set, Tuple, Union

from dbt.adapters.base import BaseRelation, available
from dbt.adapters.base.impl import ConstraintSupport, FreshnessResponse
from dbt.adapters.base.relation import InformationSchema
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.contracts.macros import MacroResolverProtocol
from dbt.adapters.contracts.relation import RelationConfig
from dbt.adapters.events.types import ConstraintNotSupported
from dbt.adapters.spark import SparkAdapter
from dbt.adapters.sql import SQLAdapter
from dbt_common.clients.agate_helper import merge_tables
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.contracts.metadata import CatalogTable as DocumentedTable
from dbt_common.events.functions import warn_or_error
from dbt_common.exceptions import DbtRuntimeError

from dbt.adapters.rowmerge.configs.catalog_integrations import WarehouseCatalog
from dbt.adapters.rowmerge.configs.config_values import as_list, raise_problems
from dbt.adapters.rowmerge.configs.constraints import Constraint, ContractColumn, table_contract
from dbt.adapters.rowmerge.configs.model_config import RowmergeConfig
from dbt.adapters.rowmerge.configs.table_format import TableFormats
from dbt.adapters.rowmerge.connections import RowmergeConnectionManager
from dbt.adapters.rowmerge.frames.python_models import check_python_config, create_model_view, package_problems, write_python_model
from dbt.adapters.rowmerge.frames.seeds import rows_of_file, write_seed
from dbt.adapters.rowmerge.frames.tables import TableToWrite
from dbt.adapters.rowmerge.incremental.models import IncrementalModels
from dbt.adapters.rowmerge.operations import Operations
from dbt.adapters.rowmerge.relations.catalog import catalog_rows, catalog_table
from dbt.adapters.rowmerge.relations.column import RowmergeColumn, columns_of
from dbt.adapters.rowmerge.relations.names import as_text, literal, quote
from dbt.adapters.rowmerge.relations.relation import RowmergeRelation
from dbt.adapters.rowmerge.response import RowmergeResponse, response_from
from rowmerge.errors import FilesNotFound, SchemaNotFound, TableNotFound

if TYPE_CHECKING:
    import agate


# The names of capabilities, because dbt-adapters has CatalogsV2 only since 1.24.1.
_CAPABILITIES = (
    *("SchemaMetadataByRelations", "TableLastModifiedMetadata", "TableLastModifiedMetadataBatch"),
    *("GetCatalogForSingleRelation", "MicrobatchConcurrency", "CatalogsV2"),
)


class RowmergeAdapter(IncrementalModels, Operations, TableFormats, SparkAdapter):
    """The rowmerge adapter of dbt. It inherits from dbt-spark only methods that do not access the warehouse."""

    Relation = RowmergeRelation
    Column = RowmergeColumn
    ConnectionManager = RowmergeConnectionManager
    AdapterSpecificConfigs = RowmergeConfig
    CATALOG_INTEGRATIONS = [WarehouseCatalog]

    CONSTRAINT_SUPPORT = {
        ConstraintType.check: ConstraintSupport.ENFORCED,
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.unique: ConstraintSupport.NOT_ENFORCED,
        ConstraintType.primary_key: ConstraintSupport.NOT_ENFORCED,
        ConstraintType.foreign_key: ConstraintSupport.NOT_ENFORCED,
    }

    _capabilities = CapabilityDict(
        {capability: CapabilitySupport(support=Support.Full) for capability in Capability if capability.value in _CAPABILITIES}
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._announcements: Dict[str, object] = {}
        RowmergeRelation.use_catalogs(self.config.credentials.databases, self.config.credentials.further_catalogs)

    @property
    def session(self) -> Any:
        """The engine's session. The first access in a thread opens the connection of the thread."""
        return self._handle.session

    @property
    def _handle(self) -> Any:
        return self.connections.get_thread_connection().handle

    def _call(self, function: Callable[..., Any], *args: Any) -> Any:
        """Call a function with the engine's session and further arguments, in the process that runs Spark."""
        return self._handle.connection.call(function, *args)

    @available
    @classmethod
    def quote(cls, identifier: Any) -> str:
        return quote(str(identifier))

    @available
    @classmethod
    def literal(cls, text: Any) -> str:
        return literal(text)

    @classmethod
    def _get_adapter_specific_run_info(cls, config: RelationConfig) -> Dict[str, Any]:
        """Return the entries for a model in dbt's usage statistics. The format is None if the model does not set `file_format`."""
        extra = getattr(config, "_extra", None) or {}
        return {"adapter_type": cls.type(), "table_format": extra.get("file_format")}

    def list_schemas(self, database: Optional[str]) -> List[str]:
        with self.connections.exception_handler("list schemas"):
            return list(self.session.schemas(database or self.config.credentials.database))

    @available.parse(lambda *a, **k: False)
    def check_schema_exists(self, database: Optional[str], schema: str) -> bool:
        return schema.lower() in (name.lower() for name in self.list_schemas(database))

    def list_relations(self, database: Optional[str], schema: str) -> List[BaseRelation]:
        """Return the relations of a schema, from dbt's cache if it contains the schema.

        Args:
            database: The name of the catalog; None for the catalog of the profile.
            schema: The name of the schema.
        """
        return SQLAdapter.list_relations(self, database or self.config.credentials.database, schema)

    @available.parse_none
    def get_relation(self, database: Optional[str], schema: str, identifier: str) -> Optional[BaseRelation]:
        """Return a table, a view or a function, or None if it does not exist.

        Args:
            database: The name of the catalog; None for the catalog of the profile.
            schema: The name of the schema.
            identifier: The name of the relation within the schema.
        """
        return SQLAdapter.get_relation(self, database or self.config.credentials.database, schema, identifier)

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> List[BaseRelation]:
        """Return the functions, tables and views of a schema; an empty list if the schema does not exist."""
        database, schema = schema_relation.database, schema_relation.schema
        engine_schema = self.Relation.engine_schema_of(database, str(schema))
        with self.connections.exception_handler(f"list relations in {schema}"):
            try:
                relations = self.session.relations(engine_schema)
            except SchemaNotFound:
                return []
            # dbt's cache has one relation per name. If a function and a table share a name, dbt manages the table.
            function_names = set(self.session.functions(engine_schema)) - {relation.name for relation in relations}
        # SQL contains only the names of further catalogs, but dbt's cache needs it to find a relation.
        create_function = partial(self.Relation.create, database=database, schema=schema.lower(), type=self.Relation.Function)
        functions = [create_function(identifier=name) for name in sorted(function_names)]
        return [*functions, *(self.Relation.from_engine(relation, database) for relation in relations)]

    @available.parse_list
    def get_columns_in_relation(self, relation: BaseRelation) -> List[RowmergeColumn]:
        """Return the columns of a table, view, query or source of files, or an empty list if the relation does not exist."""
        with self.connections.exception_handler(f"columns of {relation}"):
            if relation.is_read_by_query:
                return self._columns_of_query(relation)
            try:
                fields = self.session.describe(relation.engine_schema, relation.identifier).columns
            except (TableNotFound, SchemaNotFound):
                source = self._source_of_files(relation)
                return [] if source is None else self._columns_of_query(source)
            return columns_of(relation, [(field.name, field.sql_type) for field in fields])

    def _columns_of_query(self, relation: BaseRelation) -> List[RowmergeColumn]:
        fields = self._schema_of_query(relation).fields
        return columns_of(relation, [(field.name, field.dataType.simpleString()) for field in fields])

    def _source_of_files(self, relation: BaseRelation) -> Optional[RowmergeRelation]:
        """Return the source with this relation's name if its rows are in files. dbt's unit tests pass sources by name only."""
        for source in getattr(self.get_macro_resolver(), "sources", {}).values():
            if (source.schema.lower(), source.identifier.lower()) == (str(relation.schema).lower(), str(relation.identifier).lower()):
                candidate = self.Relation.create_from(self.config, source)
                return candidate if candidate.files is not None else None
        return None

    def expand_column_types(self, goal: BaseRelation, current: BaseRelation) -> None:
        """Keep the columns unchanged, because strings have no length limit, and other types are not expanded in place."""

    @available
    def query_relation(self, like: BaseRelation, sql: str) -> RowmergeRelation:
        """Return a relation that renders as a subquery. Nothing is created in the warehouse.

        Args:
            like: A relation with the schema and the identifier of the result.
            sql: A SELECT statement. A trailing semicolon is removed.
        """
        return self.Relation.create(schema=like.schema, identifier=like.identifier, query=sql.strip().rstrip(";"))

    @available
    def temporary_name(self, stem: str) -> str:
        """Return a unique name for a temporary relation, which begins with `stem`. No other thread, run or model uses this name."""
        return f"{stem}__dbt_tmp_{uuid.uuid4().hex}"

    @available.parse_none
    def check_packages(self, packages: Any, requirer: str) -> None:
        """Check that pip packages are installed in dbt's environment.

        Args:
            packages: A pip requirement, or a list of pip requirements.
            requirer: The subject of the error message, such as `function <name>`.

        Raises:
            CompilationError: A package is missing or has another version, or a requirement is not valid.
        """
        raise_problems(package_problems(packages), f"The {requirer} cannot run:")

    @available.parse_none
    def descriptions_in(self, relation: BaseRelation) -> Dict[str, Any]:
        """Return the comments of a table and of its columns: {"relation": comment or None, "columns": {name: comment or None}}."""
        with self.connections.exception_handler(f"comments of {relation}"):
            description = self.session.describe(relation.engine_schema, relation.identifier)
        return {"relation": description.comment, "columns": {field.name: field.comment for field in description.columns}}

    @available.parse(lambda *a, **k: RowmergeResponse(_message="OK"))
    def load_seed(
        self, relation: BaseRelation, rows: agate.Table, column_types: Dict[str, str], delimiter: str = ",", **definition: Any
    ) -> AdapterResponse:
        """Create or replace a table with the rows of a seed, in one commit.

        Args:
            relation: The table.
            rows: The rows that dbt has read from the CSV file; none with `dbt seed --empty`.
            column_types: The config `column_types`, with SQL types by column name.
            delimiter: The delimiter of the CSV file.
            **definition: The result of the macro `rowmerge_table_definition`: the keyword arguments of `_table_to_write`.

        Raises:
            DbtRuntimeError: A column has a value that does not fit its inferred type, or the run was cancelled.
            DbtDatabaseError: Spark cannot cast a value to a type of `column_types`, or the engine fails.
        """
        # The columns get their types in two steps. First, dbt infers a type from the values of each column: string for the columns in
        # `column_types`. `dbt seed --empty` passes no rows, so the types then come from the rows in the file, which are not written.
        rows_with_types = rows_of_file(rows, text_columns=column_types, delimiter=delimiter)
        inferred_types = [self.convert_type(rows_with_types, index) for index in range(len(rows.column_names))]
        # Second, `cast_columns` below lets Spark cast the columns in `column_types` from string to their configured types.
        configured_types = {name.lower(): self.Column.translate_type(type_) for name, type_ in column_types.items()}
        values = [tuple(column.values()) for column in rows.columns]
        columns = list(zip(rows.column_names, inferred_types, values, strict=True))
        with self.connections.exception_handler(f"seed {relation}"):
            return response_from(self._call(write_seed, columns, configured_types, _table_to_write(relation, **definition)))

    @available.parse(lambda *a, **k: RowmergeResponse(_message="OK"))
    def write_python_model(self, relation: BaseRelation, compiled_code: str, config: Any, **definition: Any) -> AdapterResponse:
        """Create or replace a table with the rows that a Python model returns, in one commit.

        Args:
            relation: The table.
            compiled_code: The Python code of the model, as dbt compiles it.
            config: The configs of the model.
            **definition: The result of the macro `rowmerge_table_definition`: the keyword arguments of `_table_to_write`.

        Raises:
            CompilationError: A package is not installed, or a config belongs to another adapter.
            DbtRuntimeError: The model raises an error or does not return a DataFrame, or the run was cancelled.
            DbtDatabaseError: Spark or the engine fails.
        """
        check_python_config(config)
        table = _table_to_write(relation, **definition)
        with self.connections.exception_handler(f"python model {relation}"):
            return response_from(self._call(write_python_model, compiled_code, str(relation.identifier), table))

    @available.parse(lambda relation, *a, **k: relation)
    def python_model_view(self, relation: BaseRelation, compiled_code: str, config: Any) -> RowmergeRelation:
        """Run a Python model, and return a temporary view of its rows. The view has a unique name, and the caller must drop it.

        Args:
            relation: The table of the model. The name of the view begins with its name.
            compiled_code: The Python code of the model, as dbt compiles it.
            config: The configs of the model.

        Raises:
            CompilationError: A package is not installed, or a config belongs to another adapter.
            DbtRuntimeError: The model raises an error or does not return a DataFrame, or the run was cancelled.
            DbtDatabaseError: Spark or the engine fails.
        """
        check_python_config(config)
        name = self.temporary_name(str(relation.identifier))
        with self.connections.exception_handler(f"python model {relation}"):
            self._call(create_model_view, compiled_code, str(relation.identifier), name)
        return self.Relation.create(identifier=name, type="view").include(schema=False)

    @available.parse(lambda *a, **k: {"elements": [], "properties": {}})
    def contract_clauses(self, columns: Dict[str, Any], constraints: List[Dict[str, Any]], file_format: str) -> Dict[str, Any]:
        """Return the clauses of CREATE TABLE for a model's contract. Warn, as dbt does, about constraints that the table does not enforce.

        Args:
            columns: The columns in the model's YAML, by name, with their `data_type` and `constraints`.
            constraints: The model-level constraints in the model's YAML.
            file_format: The table format: `delta` or `iceberg`.

        Returns:
            A dictionary: `elements` contains the SQL of columns and CHECK constraints, and `properties` contains table properties for keys.

        Raises:
            CompilationError: A constraint is incomplete.
        """
        contract_columns = [self._contract_column(column) for column in columns.values()]
        table_constraints = [self._parse_model_constraint(constraint) for constraint in constraints]
        contract = table_contract(contract_columns, table_constraints, is_supported=partial(self._supports_or_warns, file_format))
        return {"elements": [*contract.column_definitions, *contract.checks], "properties": contract.properties}

    def _contract_column(self, column: Dict[str, Any]) -> ContractColumn:
        constraints = [self._parse_column_constraint(constraint) for constraint in column["constraints"]]
        return column["name"], self.Column.translate_type(column["data_type"]), constraints

    def _supports_or_warns(self, file_format: str, constraint: Constraint) -> bool:
        """Return whether a table of this format can have a constraint. Warn if the constraint is not supported or not enforced."""
        if constraint.type == ConstraintType.check and file_format == "iceberg":
            if constraint.warn_unsupported:
                warn_or_error(ConstraintNotSupported(constraint="check", adapter="Iceberg tables"))
            return False
        return self.process_parsed_constraint(constraint, lambda _: "") is not None

    @available.parse(lambda *a, **k: False)
    def is_first_time(self, topic: str) -> bool:
        """Return whether this is the first call with a topic in this run. Callers use it to issue a warning only once."""
        marker = object()  # `setdefault` is atomic: in all threads, one marker is stored for each topic.
        return self._announcements.setdefault(topic, marker) is marker

    def get_catalog(
        self, relation_configs: Iterable[RelationConfig], used_schemas: FrozenSet[Tuple[str, str]]
    ) -> Tuple[agate.Table, List[Exception]]:
        table, errors = SQLAdapter.get_catalog(self, relation_configs, used_schemas)
        sources = [relation for relation in self._get_catalog_relations(relation_configs) if relation.files is not None]
        return merge_tables([table, *(catalog_rows(self._describe_existing([source]), source.database) for source in sources)]), errors

    def _get_one_catalog(
        self, information_schema: InformationSchema, schemas: Set[str], used_schemas: FrozenSet[Tuple[str, str]]
    ) -> agate.Table:
        relations = [relation for schema in sorted(schemas) for relation in self.list_relations(information_schema.database, schema)]
        return catalog_rows(self._describe_existing(relations), information_schema.database)

    def _get_one_catalog_by_relations(
        self, information_schema: InformationSchema, relations: List[BaseRelation], used_schemas: FrozenSet[Tuple[str, str]]
    ) -> agate.Table:
        return catalog_rows(self._describe_existing(relations), information_schema.database)

    def get_catalog_for_single_relation(self, relation: BaseRelation) -> Optional[DocumentedTable]:
        for description in self._describe_existing([relation]):
            return catalog_table(description, relation.database)
        return None

    def calculate_freshness_from_metadata_batch(
        self, sources: List[BaseRelation], macro_resolver: Optional[MacroResolverProtocol] = None
    ) -> Tuple[List[Optional[AdapterResponse]], Dict[BaseRelation, FreshnessResponse]]:
        """Return the age of the newest commit to each source table. Raises DbtRuntimeError for a source that is not a table."""
        now = datetime.now(timezone.utc)
        freshness = {source: self._create_freshness_response(self._last_modified(source), now) for source in sources}
        return [RowmergeResponse(_message="OK", code="METADATA")], freshness

    def _last_modified(self, source: BaseRelation) -> datetime:
        """Return the time of the newest commit to a source. Raises DbtRuntimeError for a source that is not a table."""
        for description in self._describe_existing([source]):
            if description.modified is not None:
                return datetime.fromtimestamp(description.modified / 1000, timezone.utc)
        raise DbtRuntimeError(f"The source {source} is not a table with a history. Set its `loaded_at_field`, or check its name.")

    def _describe_existing(self, relations: Iterable[BaseRelation]) -> List[Any]:
        """Return the engine's descriptions of relations. Omit relations that do not exist. For a source of files, read the files."""
        descriptions = []
        for relation in relations:
            not_found = suppress(TableNotFound, SchemaNotFound, FilesNotFound)
            with self.connections.exception_handler(f"describe {relation}"), not_found:
                descriptions.append(self._describe(relation))
        return descriptions

    def _describe(self, relation: BaseRelation) -> Any:
        files = getattr(relation, "files", None)
        return self.session.describe(relation.engine_schema, relation.identifier) if files is None else self.session.describe_files(files)


def _table_to_write(
    relation: BaseRelation,
    *,
    file_format: Optional[str] = None,
    partition_by: Union[List[str], str, None] = None,
    properties: Optional[Dict[str, Any]] = None,
    comment: Optional[str] = None,
    column_comments: Optional[Dict[str, str]] = None,
) -> TableToWrite:
    """Return the table of a relation. The keyword arguments come from the macro `rowmerge_table_definition`."""
    set_properties = {str(key): as_text(value) for key, value in (properties or {}).items() if value is not None}
    comments = {name.lower(): text for name, text in (column_comments or {}).items()}
    return TableToWrite(relation.render(), file_format, tuple(as_list(partition_by)), set_properties, comment, comments)
