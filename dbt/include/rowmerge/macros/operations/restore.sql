{#- dbt run-operation restore --args '{relation: orders, version: 3}': make an older version the newest one. Only metadata changes. -#}
{% macro restore(relation=none, version=none, timestamp=none, reference=none, table=none) %}
  {% do rowmerge_operation(
      'restore',
      {'relation': relation, 'table': table, 'version': version, 'timestamp': timestamp, 'reference': reference},
      kwargs
  ) %}
{% endmacro %}
