{#- A temporary view with a unique name, which no other thread, model or run uses. -#}
{% macro rowmerge__make_temp_relation(base_relation, suffix) %}
  {% set relation = base_relation.incorporate(path={'identifier': adapter.temporary_name(base_relation.identifier)}, type='view') %}
  {{ return(relation.include(database=false, schema=false)) }}
{% endmacro %}


{% macro rowmerge__drop_relation(relation) -%}
  {% call statement('drop_relation', auto_begin=false) -%}
    drop {{ relation.type }} if exists {{ relation.render() }}
  {%- endcall %}
{% endmacro %}


{#- Functions have a separate namespace: a function and a model can have the same name. -#}
{% macro load_cached_relation(relation) %}
  {% set found = adapter.get_relation(database=relation.database, schema=relation.schema, identifier=relation.identifier) %}
  {{ return(none if found is not none and found.is_function and model.resource_type != 'function' else found) }}
{% endmacro %}


{% macro rowmerge__get_columns_in_query(select_sql) %}
  {{ return(adapter.get_column_schema_from_query(select_sql) | map(attribute='name') | list) }}
{% endmacro %}


{% macro rowmerge__get_columns_in_relation(relation) %}
  {{ return(adapter.get_columns_in_relation(relation)) }}
{% endmacro %}
