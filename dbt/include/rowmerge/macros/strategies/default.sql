{#- A model with a key merges its rows. A model without a key appends its rows. -#}
{% macro rowmerge__get_incremental_default_sql(arg_dict) %}
  {% if arg_dict['unique_key'] %}
    {{ return(get_incremental_merge_sql(arg_dict)) }}
  {% endif %}
  {{ return(get_incremental_append_sql(arg_dict)) }}
{% endmacro %}
