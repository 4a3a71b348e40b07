{% macro get_incremental_replace_where_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_incremental_replace_where_sql', 'dbt')(arg_dict)) }}
{% endmacro %}


{#- The rows for which the condition is true leave, the model's come in. A row of the model for which it is not true is an error. -#}
{% macro rowmerge__get_incremental_replace_where_sql(arg_dict) -%}
  {{ rowmerge_replace_where(arg_dict, adapter.replaced_rows(config, arg_dict['incremental_predicates'])) }}
{%- endmacro %}


{% macro rowmerge_replace_where(arg_dict, terms) -%}
insert {{ rowmerge_evolution() }}into {{ arg_dict['target_relation'].render() }} by name
replace where {{ terms | join('\n    and ') }}
select {{ arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') }}
from {{ arg_dict['temp_relation'] }}
{%- endmacro %}
