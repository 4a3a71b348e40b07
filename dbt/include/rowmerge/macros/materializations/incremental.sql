{% materialization incremental, adapter='rowmerge', supported_languages=['sql', 'python'] %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- do rowmerge_check_table_configs() -%}
  {%- set rebuilds = existing_relation is none or existing_relation.is_view or should_full_refresh() -%}
  {%- set changed_relation = none if rebuilds else existing_relation -%}
  {#- An error in the configs stops the model here, before it runs a statement. -#}
  {%- set plan = adapter.incremental_plan(context, target_relation, changed_relation) -%}

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
    {% do rowmerge_build_incremental(plan, existing_relation) %}
  {% else %}
    {% call(source) rowmerge_model_rows(target_relation) %}
      {#- The columns of the rows are now available, because hooks and the SQL header may create tables that the query reads. -#}
      {% set plan = adapter.incremental_plan(context, target_relation, changed_relation, source) %}
      {% do rowmerge_change_columns(target_relation, plan.schema_changes) %}
      {% set strategy_sql = adapter.get_incremental_strategy_macro(context, plan.incremental_strategy) %}
      {% set build_sql = strategy_sql(plan.arg_dict) %}
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


{#- The query of a first run or of --full-refresh: the rows of the model, or the rows that remain if the strategy reduces them. -#}
{% macro rowmerge_build_incremental(plan, existing_relation) %}
  {% if not plan.newest_first %}
    {{ return(build_table(existing_relation, plan.target_relation)) }}
  {% endif %}
  {% call(source) rowmerge_model_rows(plan.target_relation) %}
    {% if plan.change_stream %}
      {% set rows = rowmerge_rows_of_changes(plan, source) %}
    {% else %}
      {% set rows = 'select * from ' ~ rowmerge_newest_rows(plan, source) %}
    {% endif %}
    {% call(relation) rowmerge_replace_table(existing_relation, plan.target_relation) %}
      {% call statement('main') -%}
        {{ create_table_as(False, relation, rows) }}
      {%- endcall %}
    {% endcall %}
  {% endcall %}
{% endmacro %}


{#-
  Calls its body with a relation that contains the rows of the model. For a SQL model, the relation is the query as a subquery, so no
  temporary table or view is necessary. For a Python model, the relation is a temporary view of the returned rows.
-#}
{% macro rowmerge_model_rows(target_relation) %}
  {% if model['language'] != 'python' %}
    {{ return(caller(adapter.query_relation(target_relation, compiled_code))) }}
  {% endif %}
  {% set source = adapter.python_model_view(target_relation, compiled_code, config) %}
  {% do caller(source) %}
  {% do adapter.drop_relation(source) %}
{% endmacro %}
