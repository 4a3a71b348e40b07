{#- A key says that rows are to be merged; without one they are appended. -#}
{% macro rowmerge__get_incremental_default_sql(arg_dict) %}
  {% if arg_dict['unique_key'] %}
    {{ return(get_incremental_merge_sql(arg_dict)) }}
  {% endif %}
  {{ return(get_incremental_append_sql(arg_dict)) }}
{% endmacro %}
