{% macro get_incremental_replace_where_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_incremental_replace_where_sql', 'dbt')(arg_dict)) }}
{% endmacro %}


{#- Deletes the rows for which the condition is true, and inserts the rows of the model. A model row for which it is not true is an error. -#}
{% macro rowmerge__get_incremental_replace_where_sql(arg_dict) -%}
  {{ rowmerge_replace_where(adapter.strategy_plan(config, 'replace_where', arg_dict)) }}
{%- endmacro %}


{% macro rowmerge_replace_where(plan) -%}
insert {{ rowmerge_evolution(plan) }}into {{ plan.target_relation.render() }} by name
replace where {{ plan.replaced_rows | join('\n    and ') }}
select {{ rowmerge_columns(plan) }}
from {{ plan.temp_relation }}
{%- endmacro %}
