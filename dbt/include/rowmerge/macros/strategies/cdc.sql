{% macro get_incremental_cdc_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_incremental_cdc_sql', 'dbt')(arg_dict)) }}
{% endmacro %}


{#-
  The model is a change stream. The strategy applies the newest change of each key, if the change is not older than the row of the table.
  The table stores the order columns for this comparison.
-#}
{% macro rowmerge__get_incremental_cdc_sql(arg_dict) -%}
  {%- set plan = adapter.strategy_plan(config, 'cdc', arg_dict) -%}
  {%- set stream, src = plan.change_stream, plan.source_alias -%}
  {%- set columns = plan.dest_columns | map(attribute='quoted') | list -%}
merge {{ rowmerge_evolution(plan) }}into {{ plan.target_relation.render() }} as {{ plan.target_alias }}
using {{ rowmerge_newest_changes(plan, plan.temp_relation) }} as {{ src }}
on {{ rowmerge_on_clause(plan) }}
when matched and {{ src }}.__dbt_deleted and {{ stream.recency_condition }} then
  {%- if stream.keeps_deletes %} update set
    {% for column in (stream.operation,) + stream.order -%}
      {{ column }} = {{ src }}.{{ column }}{{ ',\n    ' if not loop.last }}
    {%- endfor -%}
  {%- else %} delete
  {%- endif %}
when matched and not {{ src }}.__dbt_deleted and {{ stream.recency_condition }} then update set
    {% for column in columns -%}
      {{ column }} = {{ src }}.{{ column }}{{ ',\n    ' if not loop.last }}
    {%- endfor %}
when not matched{{ '' if stream.keeps_deletes else ' and not ' ~ src ~ '.__dbt_deleted' }} then insert
    ({{ columns | join(', ') }})
    values ({{ src }}.{{ columns | join(', ' ~ src ~ '.') }})
{%- endmacro %}


{#- The newest change of each key, and whether the change is a deletion. An unknown operation is an error of the statement. -#}
{% macro rowmerge_newest_changes(plan, source) -%}
(
select * except (__dbt_rank)
from (
  select *, {{ rowmerge_is_deletion(plan.change_stream) }} as __dbt_deleted, row_number() over (
    partition by {{ plan.keys | join(', ') }}
    order by {{ plan.newest_first | join(', ') }}
  ) as __dbt_rank
  from {{ source }}
  where coalesce(lower({{ plan.change_stream.operation }}), '') not in ({{ rowmerge_literals(plan.change_stream.ignored_codes) }})
)
where __dbt_rank = 1
)
{%- endmacro %}


{% macro rowmerge_is_deletion(stream) -%}
case when lower({{ stream.operation }}) in ({{ rowmerge_literals(stream.delete_codes) }}) then true
    when lower({{ stream.operation }}) in ({{ rowmerge_literals(stream.write_codes) }}) then false
    else raise_error(concat({{ adapter.literal('No operation of cdc_operations: ' ~ stream.operation ~ ' is ') }}, coalesce({{ stream.operation }}, 'NULL')))
  end
{%- endmacro %}


{#- The rows of the first run: the rows that exist after all changes. -#}
{% macro rowmerge_rows_of_changes(plan, source) -%}
select * except (__dbt_deleted{{ '' if plan.change_stream.keeps_deletes else ', ' ~ plan.change_stream.operation }})
from {{ rowmerge_newest_changes(plan, source) }}
  {%- if not plan.change_stream.keeps_deletes %}
where not __dbt_deleted
  {%- endif %}
{%- endmacro %}


{% macro rowmerge_literals(values) -%}
  {%- for value in values -%}{{ adapter.literal(value) }}{{ ', ' if not loop.last }}{%- else -%}''{%- endfor -%}
{%- endmacro %}
