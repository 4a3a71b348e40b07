{% macro rowmerge__create_table_as(temporary, relation, compiled_code, language='sql') -%}
  {%- if temporary -%}
    {{ create_temporary_view(relation, compiled_code) }}
  {%- else -%}
    {%- set contract = {'elements': [], 'properties': {}} -%}
    {%- if config.get('contract').enforced -%}
      {{ get_assert_columns_equivalent(compiled_code) }}
      {%- set contract = adapter.contract_clauses(model['columns'], model['constraints'], adapter.table_format(config)) -%}
      {%- set compiled_code = get_select_subquery(compiled_code) -%}
    {%- endif -%}
create or replace table {{ relation.render() }}
    {{- rowmerge_column_list(contract['elements']) -}}
    {{- file_format_clause() -}}
    {{- options_clause() -}}
    {{- partition_cols(label='partitioned by') -}}
    {{- clustered_cols(label='clustered by') -}}
    {{- rowmerge_location_clause_of(relation) -}}
    {{- rowmerge__tblproperties_clause(contract['properties']) -}}
    {{- comment_clause() }}
as
{{ compiled_code }}
  {%- endif -%}
{%- endmacro %}


{#- The columns and checks of a contract. The engine validates the rows while it writes them. -#}
{% macro rowmerge_column_list(elements) -%}
  {%- if elements %} (
    {{ elements | join(',\n    ') }}
)
  {%- endif -%}
{%- endmacro %}


{% macro rowmerge__file_format_clause() -%}
{#- Always rendered: without the clause, an existing table keeps its own value. #}
using {{ adapter.table_format(config) }}
{%- endmacro %}


{% macro rowmerge__partition_cols(label, required=false) -%}
  {%- set columns = config.get('partition_by') -%}
  {%- if columns %}
{{ label }} ({{ columns if columns is string else columns | join(', ') }})
  {%- endif -%}
{%- endmacro %}


{#- The files of a table with a temporary name are in the warehouse. -#}
{% macro rowmerge_location_clause_of(relation) -%}
  {%- if relation.identifier == model['alias'] %}{{ location_clause() }}{% endif -%}
{%- endmacro %}


{% macro rowmerge__location_clause() -%}
  {%- set location_root = adapter.location_root(config) -%}
  {%- if location_root %}
location {{ adapter.literal(location_root ~ '/' ~ model['alias']) }}
  {%- endif -%}
{%- endmacro %}


{% macro rowmerge__tblproperties_clause(of_contract={}) -%}
  {#- A null is no property, so that a model can leave out a property of its project. -#}
  {%- set properties = dict(of_contract, **(config.get('tblproperties') or {})).items() | rejectattr('1', 'none') | list -%}
  {%- if properties %}
tblproperties (
    {%- for key, value in properties -%}
      {{ adapter.literal(key) }} = {{ adapter.literal(value | lower if value is boolean else value) }}{{ ', ' if not loop.last }}
    {%- endfor -%}
)
  {%- endif -%}
{%- endmacro %}


{% macro rowmerge__comment_clause() -%}
  {%- if config.persist_relation_docs() and model.get('description') %}
comment {{ adapter.literal(model.get('description')) }}
  {%- endif -%}
{%- endmacro %}
