{#- There is one catalog, and one name for it; dbt-spark says none. -#}
{% macro rowmerge__generate_database_name(custom_database_name=none, node=none) -%}
  {{ return(target.database) }}
{%- endmacro %}
