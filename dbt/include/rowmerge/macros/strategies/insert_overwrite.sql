{#-
  Replaces the partitions of the new rows, and keeps the other partitions. A table without partitions is replaced as a whole. The statement
  compares partition columns for each row. The write computes the partition values of transforms.
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
