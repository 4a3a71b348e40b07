{#- One statement and one commit: nobody sees the table between the delete and the insert. -#}
{% macro rowmerge__get_delete_insert_merge_sql(target, source, unique_key, dest_columns, incremental_predicates) -%}
  {%- set columns = dest_columns | map(attribute='quoted') | join(', ') -%}
  {%- set keys = [] -%}
  {%- for key in ([unique_key] if unique_key is string else unique_key or []) -%}
    {%- do keys.append(adapter.quote_key(key, dest_columns)) -%}
  {%- endfor -%}
  {%- if not keys -%}
    {{ get_insert_into_sql(target, source, dest_columns) }}
  {%- elif incremental_predicates -%}
    {{ rowmerge_delete_insert_by_merge(target, source, keys, dest_columns, incremental_predicates) }}
  {%- else -%}
insert into {{ target }} by name
replace using ({{ keys | join(', ') }})
select {{ columns }}
from {{ source }}
  {%- endif -%}
{%- endmacro %}


{#-
  Predicates narrow what is deleted, which REPLACE USING cannot say. As a MERGE: every source row comes once to be inserted,
  and the first row of each key once more to delete the rows of the target that it matches.
-#}
{% macro rowmerge_delete_insert_by_merge(target, source, keys, dest_columns, predicates) -%}
  {%- set dest, src = 'DBT_INTERNAL_DEST', 'DBT_INTERNAL_SOURCE' -%}
  {%- set columns = dest_columns | map(attribute='quoted') | join(', ') -%}
merge into {{ target }} as {{ dest }}
using (
  select {{ columns }}, __dbt_step
  from (
    select {{ columns }}, row_number() over (partition by {{ keys | join(', ') }} order by {{ keys | join(', ') }}) as __dbt_rank
    from {{ source }}
  ) as numbered
  cross join (values ('delete'), ('insert')) as steps(__dbt_step)
  where __dbt_step = 'insert' or __dbt_rank = 1
) as {{ src }}
on {{ src }}.__dbt_step = 'delete'
    and {{ rowmerge_on_clause(keys, dest, src, dest_columns, predicates) }}
when matched then delete
when not matched and {{ src }}.__dbt_step = 'insert' then insert
    ({{ columns }})
    values ({% for column in dest_columns %}{{ src }}.{{ column.quoted }}{{ ', ' if not loop.last }}{% endfor %})
{%- endmacro %}
