{% materialization table, adapter='rowmerge', supported_languages=['sql', 'python'] %}
  {%- set existing_relation = load_cached_relation(this) -%}
  {%- set target_relation = this.incorporate(type='table') -%}
  {%- do rowmerge_check_table_configs() -%}

  {{ run_hooks(pre_hooks, inside_transaction=False) }}
  {{ run_hooks(pre_hooks, inside_transaction=True) }}
  {% do rowmerge_run_sql_header() %}

  {% do drop_other_kind(existing_relation, target_relation) %}
  {% do build_table(existing_relation, target_relation) %}

  {% do apply_grants(target_relation, config.get('grants')) %}
  {% do persist_docs(target_relation, model) %}

  {{ run_hooks(post_hooks, inside_transaction=True) }}
  {{ run_hooks(post_hooks, inside_transaction=False) }}

  {{ return({'relations': [target_relation]}) }}
{% endmaterialization %}


{#- A table replaces a table, and a view replaces a view. A relation of the other kind must be dropped first. -#}
{% macro drop_other_kind(existing_relation, target_relation) %}
  {% if existing_relation is not none and existing_relation.type != target_relation.type %}
    {{ log('Dropping ' ~ existing_relation ~ ' because it is a ' ~ existing_relation.type) }}
    {% do adapter.drop_relation(existing_relation) %}
  {% endif %}
{% endmacro %}


{#- Writes the rows of the model as a table, in one commit. The result of the statement is the result of the node. -#}
{% macro build_table(existing_relation, target_relation) %}
  {% call(relation) rowmerge_replace_table(existing_relation, target_relation) %}
    {% if model['language'] == 'python' %}
      {% set response = adapter.write_python_model(relation, compiled_code, config, **rowmerge_table_definition()) %}
      {% do store_result('main', response=response, agate_table=none) %}
    {% else %}
      {% call statement('main') -%}
        {{ create_table_as(False, relation, compiled_code) }}
      {%- endcall %}
    {% endif %}
  {% endcall %}
{% endmacro %}
