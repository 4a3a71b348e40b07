{% materialization incremental, adapter='rowmerge', supported_languages=['sql', 'python'] %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- do adapter.table_format(config) -%}
  {%- set on_schema_change = incremental_validate_on_schema_change(config.get('on_schema_change'), default='ignore') -%}
  {#- Looked up before anything runs: an unknown strategy stops the model here. -#}
  {%- set strategy_sql = adapter.get_incremental_strategy_macro(context, config.get('incremental_strategy') or 'default') -%}

  {%- if rowmerge_changes_format(existing_relation) and not should_full_refresh() -%}
    {%- do exceptions.raise_compiler_error(
        target_relation.render() ~ ' is a table of the format ' ~ adapter.format_of(existing_relation) ~ ', and the model asks for '
        ~ adapter.table_format(config) ~ '. Run it with --full-refresh to build the table anew, or set file_format to '
        ~ adapter.format_of(existing_relation) ~ '.'
    ) -%}
  {%- endif -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if existing_relation is none or existing_relation.is_view or should_full_refresh() %}
    {% do drop_other_kind(existing_relation, target_relation) %}
    {% do build_table(existing_relation, target_relation) %}
  {% else %}
    {#- The model's query goes into the strategy's statement as a subquery: no temporary table or view stands between. -#}
    {% if model['language'] == 'python' %}
      {% set source = adapter.python_model_view(target_relation, compiled_code) %}
    {% else %}
      {% set source = adapter.query_relation(target_relation, compiled_code) %}
    {% endif %}
    {% set dest_columns = process_schema_changes(on_schema_change, source, existing_relation) %}
    {% set arguments = {
        'target_relation': target_relation,
        'temp_relation': source,
        'unique_key': config.get('unique_key'),
        'dest_columns': dest_columns or adapter.get_columns_in_relation(existing_relation),
        'incremental_predicates': config.get('predicates') or config.get('incremental_predicates')
    } %}
    {% set build_sql = strategy_sql(arguments) %}
    {% call statement('main') -%}
      {{ config.get('sql_header') or '' }}
      {{ build_sql }}
    {%- endcall %}
    {% if model['language'] == 'python' %}
      {% do adapter.drop_relation(source) %}
    {% endif %}
  {% endif %}

  {% do apply_grants(target_relation, config.get('grants')) %}
  {% do persist_docs(target_relation, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
