{#- dbt run-operation history --args '{relation: orders, limit: 10}': list the versions of a table, newest first. -#}
{% macro history(relation=none, limit=none, table=none) %}
  {% do rowmerge_operation('history', {'relation': relation, 'table': table, 'limit': limit}, kwargs) %}
{% endmacro %}
