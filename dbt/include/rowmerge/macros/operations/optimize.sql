{#- dbt run-operation optimize --args '{relation: orders, where: "day >= date''2024-01-01''"}': combine small files. -#}
{% macro optimize(relation=none, where=none, table=none) %}
  {% do rowmerge_operation('optimize', {'relation': relation, 'table': table, 'where': where}, kwargs) %}
{% endmacro %}
