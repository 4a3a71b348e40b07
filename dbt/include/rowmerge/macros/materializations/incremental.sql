{% materialization incremental, adapter='rowmerge', supported_languages=['sql', 'python'] %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- do rowmerge_check_table_configs() -%}
  {%- set rebuilds = existing_relation is none or existing_relation.is_view or should_full_refresh() -%}
  {#- Before anything runs: whatever is wrong with the configs stops the model here. -#}
  {%- set strategy = adapter.check_incremental_model(context, config, model.config.keys() | list, none if rebuilds else existing_relation) -%}

  {%- if rowmerge_changes_format(existing_relation) and not should_full_refresh() -%}
    {%- do exceptions.raise_compiler_error(
        target_relation.render() ~ ' is a table of the format ' ~ adapter.format_of(existing_relation) ~ ', and the model asks for '
        ~ adapter.table_format(config) ~ '. Run it with --full-refresh to build the table anew, or set file_format to '
        ~ adapter.format_of(existing_relation) ~ '.'
    ) -%}
  {%- endif -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {% do rowmerge_run_sql_header() %}

  {% if rebuilds %}
    {% do drop_other_kind(existing_relation, target_relation) %}
    {% do rowmerge_build_incremental(strategy, existing_relation, target_relation) %}
  {% else %}
    {% call(source) rowmerge_model_rows(target_relation) %}
      {% set strategy_sql = adapter.get_incremental_strategy_macro(context, strategy) %}
      {% set build_sql = strategy_sql({
          'target_relation': target_relation,
          'temp_relation': source,
          'unique_key': adapter.unique_key(config),
          'dest_columns': rowmerge_columns_to_write(strategy, source, existing_relation),
          'incremental_predicates': adapter.incremental_predicates(config)
      }) %}
      {% call statement('main') -%}
        {{ build_sql }}
      {%- endcall %}
    {% endcall %}
  {% endif %}

  {% do apply_grants(target_relation, config.get('grants')) %}
  {% do persist_docs(target_relation, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{#- The first time, and with --full-refresh: the model's rows as a table, or what a strategy makes of them that reduces its rows. -#}
{% macro rowmerge_build_incremental(strategy, existing_relation, target_relation) %}
  {% if strategy != 'cdc' and not config.get('merge_deduplicate_by') %}
    {{ return(build_table(existing_relation, target_relation)) }}
  {% endif %}
  {% call(source) rowmerge_model_rows(target_relation) %}
    {% if strategy == 'cdc' %}
      {% set rows = rowmerge_rows_of_changes(source) %}
    {% else %}
      {% set keys = adapter.merge_keys(config, [], adapter.unique_key(config), none).keys %}
      {% set rows = 'select * from ' ~ rowmerge_newest_rows(source, keys) %}
    {% endif %}
    {% call(relation) rowmerge_replace_table(existing_relation, target_relation) %}
      {% call statement('main') -%}
        {{ create_table_as(False, relation, rows) }}
      {%- endcall %}
    {% endcall %}
  {% endcall %}
{% endmacro %}


{#-
  Runs its body with the model's rows as a relation: a SQL model's query, which goes into a statement as a subquery, so that no temporary
  table or view stands between; or a temporary view of what a Python model returns.
-#}
{% macro rowmerge_model_rows(target_relation) %}
  {% if model['language'] != 'python' %}
    {{ return(caller(adapter.query_relation(target_relation, compiled_code))) }}
  {% endif %}
  {% set source = adapter.python_model_view(target_relation, compiled_code, config) %}
  {% do caller(source) %}
  {% do adapter.drop_relation(source) %}
{% endmacro %}


{#- The columns that a strategy writes, after the table's were changed as on_schema_change says. -#}
{% macro rowmerge_columns_to_write(strategy, source, existing_relation) %}
  {% set change = config.get('on_schema_change') or 'ignore' %}
  {% set written = none %}
  {#- A model that deletes selects keys alone, and one that merges may bring its columns with the merge. -#}
  {% if change != 'ignore' and strategy != 'delete' %}
    {% set written = process_schema_changes(change, adapter.stored_rows(config, strategy, source), existing_relation) %}
  {% endif %}
  {{ return(written or adapter.get_columns_in_relation(existing_relation)) }}
{% endmacro %}
