{#- One statement and one commit: nobody sees the table between the delete and the insert. -#}
{% macro rowmerge__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
  {%- set columns = dest_columns | map(attribute='quoted') | join(', ') -%}
  {%- set keys = [] -%}
  {%- for key in rowmerge_as_list(unique_key) -%}
    {%- do keys.append(adapter.quote_key(key, dest_columns)) -%}
  {%- endfor -%}
  {%- if not keys -%}
    {{ rowmerge_insert_by_name(target, source, dest_columns) }}
  {%- elif incremental_predicates -%}
    {{ rowmerge_delete_insert_by_merge(target, source, keys, dest_columns, incremental_predicates) }}
  {%- else -%}
    {{ rowmerge_replace_on(target, source, keys, columns) }}
  {%- endif -%}
{%- endmacro %}


{#- Rows of the target that have the keys of a new row leave, all new rows come in; a NULL key is a key like any other. -#}
{% macro rowmerge_replace_on(target, source, keys, columns) -%}
insert {{ rowmerge_evolution() }}into {{ target.render() }} as DBT_INTERNAL_DEST by name
replace on {% for key in keys -%}
  {{ 'and ' if not loop.first }}DBT_INTERNAL_SOURCE.{{ key }} <=> DBT_INTERNAL_DEST.{{ key }}
{% endfor -%}
(
select {{ columns }}
from {{ source }}
) as DBT_INTERNAL_SOURCE
{%- endmacro %}


{#-
  Predicates narrow what is deleted; in REPLACE ON a column in one would be the target's or the source's. As a MERGE: every source row
  comes once to be inserted,
  and the first row of each key once more to delete the rows of the target that it matches. The source's columns get names
  of their own, so that a column in a predicate is the target's, with an alias before it or without.
-#}
{% macro rowmerge_delete_insert_by_merge(target, source, keys, dest_columns, predicates) -%}
  {%- set dest, src = 'DBT_INTERNAL_DEST', 'DBT_INTERNAL_SOURCE' -%}
merge {{ rowmerge_evolution() }}into {{ target.render() }} as {{ dest }}
using (
  select rows.*, __dbt_step
  from (
    select
      {%- for column in dest_columns %}
      {{ column.quoted }} as __dbt_column_{{ loop.index }},
      {%- endfor %}
      {%- for key in keys %}
      {{ key }} as __dbt_key_{{ loop.index }},
      {%- endfor %}
      row_number() over (partition by {{ keys | join(', ') }} order by {{ keys | join(', ') }}) as __dbt_rank
    from {{ source }}
  ) as rows
  cross join (values ('delete'), ('insert')) as steps(__dbt_step)
  where __dbt_step = 'insert' or __dbt_rank = 1
) as {{ src }}
on {{ src }}.__dbt_step = 'delete'
  {%- for key in keys %}
    and {{ src }}.__dbt_key_{{ loop.index }} <=> {{ dest }}.{{ key }}
  {%- endfor %}
  {%- for predicate in rowmerge_as_list(predicates) %}
    and ({{ predicate }})
  {%- endfor %}
when matched then delete
when not matched and {{ src }}.__dbt_step = 'insert' then insert
    ({{ dest_columns | map(attribute='quoted') | join(', ') }})
    values ({% for column in dest_columns %}{{ src }}.__dbt_column_{{ loop.index }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
