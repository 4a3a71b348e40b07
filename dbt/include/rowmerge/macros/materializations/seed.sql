{#- A seed creates or replaces its table in one commit, with or without --full-refresh. -#}
{% materialization seed, adapter='rowmerge' %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- do rowmerge_check_table_configs() -%}
  {%- set agate_table = load_agate_table() -%}
  {%- do store_result('agate_table', response='OK', agate_table=agate_table) -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}

  {% if existing_relation is not none and existing_relation.is_view %}
    {% do exceptions.raise_compiler_error('Cannot seed ' ~ target_relation ~ ': it is a view. Drop the view, or give the seed another alias.') %}
  {% endif %}

  {% call(relation) rowmerge_replace_table(existing_relation, target_relation) %}
    {% set response = adapter.load_seed(
        relation, agate_table, config.get('column_types') or {}, config.get('delimiter') or ',', **rowmerge_table_definition()
    ) %}
    {% do store_result('main', response=response, agate_table=none) %}
  {% endcall %}

  {% do apply_grants(target_relation, config.get('grants')) %}
  {#- The commit of the rows sets the comments, except the column comments of a table whose format changes. -#}
  {% do persist_docs(target_relation, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}
