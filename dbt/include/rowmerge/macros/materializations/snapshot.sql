{% materialization snapshot, adapter='rowmerge' %}
  {%- do rowmerge_check_table_configs() -%}
  {%- set strategy_name = config.get('strategy') -%}
  {%- set exists, target_relation = get_or_create_relation(
      database=model.database, schema=model.schema, identifier=model.get('alias', model.get('name')), type='table'
  ) -%}
  {%- if not target_relation.is_table -%}
    {% do exceptions.relation_wrong_type(target_relation, 'table') %}
  {%- endif -%}

  {%- if rowmerge_changes_format(target_relation if exists else none) -%}
    {%- do exceptions.raise_compiler_error(
        target_relation.render() ~ ' is a table of the format ' ~ adapter.format_of(target_relation) ~ ', and the snapshot asks for '
        ~ adapter.table_format(config) ~ '. A snapshot is never built anew: set its file_format to ' ~ adapter.format_of(target_relation)
        ~ ', or move its rows to a table of the other format first (CREATE TABLE ... USING ... AS SELECT).'
    ) -%}
  {%- endif -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {% do rowmerge_run_sql_header() %}

  {% set strategy_macro = strategy_dispatch(strategy_name) %}
  {% set strategy = strategy_macro(model, 'snapshotted_data', 'source_data', model['config'], exists) %}

  {% if not exists %}
    {% set select_sql = build_snapshot_table(strategy, model['compiled_code']) %}
    {% set final_sql = create_table_as(False, target_relation, select_sql) %}
  {% else %}
    {% set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() %}
    {% do adapter.assert_valid_snapshot_target_given_strategy(target_relation, names, strategy) %}
    {% set select_sql = snapshot_staging_table(strategy, sql, target_relation) %}
    {#- As in incremental models, the staging rows are a subquery of the MERGE statement. -#}
    {% set staging = adapter.query_relation(target_relation, select_sql) %}
    {% set helper_columns = ['dbt_change_type', 'dbt_unique_key'] %}
    {% for key in ([] if strategy.unique_key is string else strategy.unique_key) %}
      {% do helper_columns.append('dbt_unique_key_' ~ loop.index) %}
    {% endfor %}
    {% set columns = [] %}
    {% for column in adapter.get_columns_in_relation(staging) if column.name | lower not in helper_columns %}
      {% do columns.append(column) %}
    {% endfor %}
    {% set final_sql = snapshot_merge_sql(target=target_relation, source=staging, insert_cols=columns | map(attribute='quoted') | list) %}
  {% endif %}

  {{ check_time_data_types(select_sql) }}

  {% call statement('main') -%}
    {{ final_sql }}
  {%- endcall %}

  {% do apply_grants(target_relation, config.get('grants')) %}
  {% do persist_docs(target_relation, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{% macro rowmerge__snapshot_merge_sql(target, source, insert_cols) -%}
  {%- set names = config.get('snapshot_table_column_names') or get_snapshot_table_column_names() -%}
  {%- set current = config.get('dbt_valid_to_current') -%}
  {%- set dest, src = 'DBT_INTERNAL_DEST', 'DBT_INTERNAL_SOURCE' -%}
{#- The commit of the rows also adds the columns and fields that only the source has. -#}
merge with schema evolution into {{ target.render() }} as {{ dest }}
using {{ source }} as {{ src }}
on {{ src }}.{{ names.dbt_scd_id }} = {{ dest }}.{{ names.dbt_scd_id }}
when matched and {{ src }}.dbt_change_type in ('update', 'delete')
    and ({{ dest }}.{{ names.dbt_valid_to }} is null{% if current %} or {{ dest }}.{{ names.dbt_valid_to }} = {{ current }}{% endif %})
    then update set {{ names.dbt_valid_to }} = {{ src }}.{{ names.dbt_valid_to }}
when not matched and {{ src }}.dbt_change_type = 'insert'
    then insert ({{ insert_cols | join(', ') }})
    values ({% for column in insert_cols %}{{ src }}.{{ column }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
