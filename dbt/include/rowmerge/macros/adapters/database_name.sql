{#- The adapter has one catalog with one name. dbt-spark returns no name. -#}
{% macro rowmerge__generate_database_name(custom_database_name=none, node=none) -%}
  {{ return(target.database) }}
{%- endmacro %}
