{#- dbt's own would double the backslashes of a quote in a name, for the names are written as JSON afterwards. -#}
{% macro rowmerge__resolve_model_name(input_model_name) -%}
  {{ input_model_name }}
{%- endmacro %}
