{#- dbt's macro doubles the backslash before a quote in a name, because dbt then writes the names as JSON. -#}
{% macro rowmerge__resolve_model_name(input_model_name) -%}
  {{ input_model_name }}
{%- endmacro %}
