{#-
  The partitions that the new rows are in are replaced, the others stay; a table without partitions is replaced whole. Columns are compared
  row by row. What a transform makes of a row is known when it is written.
-#}
{% macro rowmerge__get_incremental_insert_overwrite_sql(arg_dict) -%}
  {%- set plan = adapter.strategy_plan(config, 'insert_overwrite', arg_dict) -%}
  {%- if plan.partitions -%}
    {{ rowmerge_replace_on(plan, plan.partitions) }}
  {%- else -%}
insert {{ rowmerge_evolution(plan) }}overwrite {{ plan.target_relation.render() }}{{ " with ('partitionOverwriteMode' = 'dynamic')" if plan.overwrites_by_transform }} by name
select {{ rowmerge_columns(plan) }}
from {{ plan.temp_relation }}
  {%- endif -%}
{%- endmacro %}
