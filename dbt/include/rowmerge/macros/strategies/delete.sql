{% macro get_incremental_delete_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_incremental_delete_sql', 'dbt')(arg_dict)) }}
{% endmacro %}


{#- Deletes the rows whose key the model selects. The model may select a key twice. -#}
{% macro rowmerge__get_incremental_delete_sql(arg_dict) -%}
  {%- set plan = adapter.strategy_plan(config, 'delete', arg_dict) -%}
merge into {{ plan.target_relation.render() }} as {{ plan.target_alias }}
using {{ plan.temp_relation }} as {{ plan.source_alias }}
on {{ rowmerge_on_clause(plan) }}
when matched then delete
{%- endmacro %}
