{#- The name of a catalog of the profile. dbt-spark returns no name. -#}
{% macro rowmerge__generate_database_name(custom_database_name=none, node=none) -%}
  {{ return(target.database if custom_database_name is none else custom_database_name | trim) }}
{%- endmacro %}
