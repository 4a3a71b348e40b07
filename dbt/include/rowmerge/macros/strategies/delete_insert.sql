{#- Deletes and inserts in one statement and one commit. No reader sees the table between the delete and the insert. -#}
{% macro rowmerge__get_incremental_delete_insert_sql(arg_dict) %}
  {% set delete_insert_sql = adapter.dispatch('get_delete_insert_merge_sql', 'dbt') %}
  {% if rowmerge_is_overridden(delete_insert_sql) %}
    {{ return(delete_insert_sql(
        arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['unique_key'], arg_dict['dest_columns'], arg_dict['incremental_predicates']
    )) }}
  {% endif %}
  {{ return(rowmerge_delete_insert(adapter.strategy_plan(config, 'delete+insert', arg_dict))) }}
{% endmacro %}


{#- For strategies of projects. -#}
{% macro rowmerge__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
  {{ return(rowmerge_delete_insert(adapter.strategy_plan(config, 'delete+insert', {
      'target_relation': target, 'temp_relation': source, 'unique_key': unique_key, 'dest_columns': dest_columns,
      'incremental_predicates': incremental_predicates
  }))) }}
{%- endmacro %}


{% macro rowmerge_delete_insert(plan) -%}
  {%- if not plan.keys -%}
    {{ rowmerge_insert_by_name(plan) }}
  {%- elif plan.incremental_predicates -%}
    {{ rowmerge_delete_insert_by_merge(plan) }}
  {%- else -%}
    {{ rowmerge_replace_on(plan, plan.keys) }}
  {%- endif -%}
{%- endmacro %}


{#- Deletes the target rows whose key equals the key of a new row, and inserts all new rows. NULL keys are equal. -#}
{% macro rowmerge_replace_on(plan, keys) -%}
insert {{ rowmerge_evolution(plan) }}into {{ plan.target_relation.render() }} as DBT_INTERNAL_DEST by name
replace on {% for key in keys -%}
  {{ 'and ' if not loop.first }}DBT_INTERNAL_SOURCE.{{ key }} <=> DBT_INTERNAL_DEST.{{ key }}
{% endfor -%}
(
select {{ rowmerge_columns(plan) }}
from {{ plan.temp_relation }}
) as DBT_INTERNAL_SOURCE
{%- endmacro %}


{#-
  Predicates limit the deleted rows. In REPLACE ON, a column of a predicate is ambiguous between target and source. So this macro
  renders a MERGE. Each source row occurs once for the insert.
  The first row of each key occurs a second time, to delete the matching target rows. The source columns have unique names.
  So a column of a predicate always belongs to the target, with or without an alias.
-#}
{% macro rowmerge_delete_insert_by_merge(plan) -%}
  {%- set dest, src = 'DBT_INTERNAL_DEST', 'DBT_INTERNAL_SOURCE' -%}
merge {{ rowmerge_evolution(plan) }}into {{ plan.target_relation.render() }} as {{ dest }}
using (
  select rows.*, __dbt_step
  from (
    select
      {%- for column in plan.dest_columns %}
      {{ column.quoted }} as __dbt_column_{{ loop.index }},
      {%- endfor %}
      {%- for key in plan.keys %}
      {{ key }} as __dbt_key_{{ loop.index }},
      {%- endfor %}
      row_number() over (partition by {{ plan.keys | join(', ') }} order by {{ plan.keys | join(', ') }}) as __dbt_rank
    from {{ plan.temp_relation }}
  ) as rows
  cross join (values ('delete'), ('insert')) as steps(__dbt_step)
  where __dbt_step = 'insert' or __dbt_rank = 1
) as {{ src }}
on {{ src }}.__dbt_step = 'delete'
  {%- for key in plan.keys %}
    and {{ src }}.__dbt_key_{{ loop.index }} <=> {{ dest }}.{{ key }}
  {%- endfor %}
  {%- for predicate in plan.incremental_predicates %}
    and ({{ predicate }})
  {%- endfor %}
when matched then delete
when not matched and {{ src }}.__dbt_step = 'insert' then insert
    ({{ rowmerge_columns(plan) }})
    values ({% for column in plan.dest_columns %}{{ src }}.__dbt_column_{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
