{% macro rowmerge__get_incremental_append_sql(arg_dict) %}
  {{ return(rowmerge_insert_by_name(adapter.strategy_plan(config, 'append', arg_dict))) }}
{% endmacro %}


{% macro rowmerge_insert_by_name(plan) %}
insert {{ rowmerge_evolution(plan) }}into {{ plan.target_relation.render() }} by name
select {{ rowmerge_columns(plan) }}
from {{ plan.temp_relation }}
{% endmacro %}


{#-
  For strategies of projects. dbt-spark has a macro of this name with other arguments. This macro has the argument order of dbt. The
  strategies of the adapter do not call it: since dbt-core 1.12, a macro outside a node resolves this name to dbt's macro.
-#}
{% macro get_insert_into_sql(target_relation, temp_relation, dest_columns) %}
  {{ return(rowmerge__get_incremental_append_sql({
      'target_relation': target_relation, 'temp_relation': temp_relation, 'dest_columns': dest_columns
  })) }}
{% endmacro %}
