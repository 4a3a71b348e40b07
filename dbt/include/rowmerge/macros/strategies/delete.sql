{% macro get_incremental_delete_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_incremental_delete_sql', 'dbt')(arg_dict)) }}
{% endmacro %}


{#- Rows whose key the model selects leave; a key that it selects twice is deleted once. -#}
{% macro rowmerge__get_incremental_delete_sql(arg_dict) -%}
  {%- set merge = adapter.merge_keys(config, arg_dict['dest_columns'], arg_dict['unique_key'], arg_dict['incremental_predicates']) -%}
merge into {{ arg_dict['target_relation'].render() }} as {{ merge.aliases.dest }}
using {{ arg_dict['temp_relation'] }} as {{ merge.aliases.source }}
on {{ rowmerge_on_clause(merge) }}
when matched then delete
{%- endmacro %}
