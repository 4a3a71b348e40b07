{% macro get_incremental_cdc_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_incremental_cdc_sql', 'dbt')(arg_dict)) }}
{% endmacro %}


{#-
  The model is a stream of changes. Of each key its newest one counts, and only when it is not older than the row that is there: the table
  keeps the columns of the order to know.
-#}
{% macro rowmerge__get_incremental_cdc_sql(arg_dict) -%}
  {%- set stream = adapter.change_stream(config, arg_dict['dest_columns'], arg_dict['unique_key'], arg_dict['incremental_predicates']) -%}
  {%- set src = stream.aliases.source -%}
  {%- set columns = arg_dict['dest_columns'] | map(attribute='quoted') | list -%}
merge {{ rowmerge_evolution() }}into {{ arg_dict['target_relation'].render() }} as {{ stream.aliases.dest }}
using {{ rowmerge_newest_changes(arg_dict['temp_relation'], stream) }} as {{ src }}
on {{ rowmerge_on_clause(stream) }}
when matched and {{ src }}.__dbt_deleted and {{ stream.not_late }} then
  {%- if stream.keeps_deletes %} update set
    {% for column in [stream.operation] + stream.order | list -%}
      {{ column }} = {{ src }}.{{ column }}{{ ',\n    ' if not loop.last }}
    {%- endfor -%}
  {%- else %} delete
  {%- endif %}
when matched and not {{ src }}.__dbt_deleted and {{ stream.not_late }} then update set
    {% for column in columns -%}
      {{ column }} = {{ src }}.{{ column }}{{ ',\n    ' if not loop.last }}
    {%- endfor %}
when not matched{{ '' if stream.keeps_deletes else ' and not ' ~ src ~ '.__dbt_deleted' }} then insert
    ({{ columns | join(', ') }})
    values ({{ src }}.{{ columns | join(', ' ~ src ~ '.') }})
{%- endmacro %}


{#- Of each key the newest change, and whether it is a deletion. A value that is no operation stops the statement. -#}
{% macro rowmerge_newest_changes(source, stream) -%}
(
select * except (__dbt_rank)
from (
  select *, {{ rowmerge_is_deletion(stream) }} as __dbt_deleted, row_number() over (
    partition by {{ stream.keys | join(', ') }}
    order by {{ stream.newest_first | join(', ') }}
  ) as __dbt_rank
  from {{ source }}
  where coalesce(lower({{ stream.operation }}), '') not in ({{ rowmerge_literals(stream.ignored) }})
)
where __dbt_rank = 1
)
{%- endmacro %}


{% macro rowmerge_is_deletion(stream) -%}
case when lower({{ stream.operation }}) in ({{ rowmerge_literals(stream.deleted) }}) then true
    when lower({{ stream.operation }}) in ({{ rowmerge_literals(stream.written) }}) then false
    else raise_error(concat({{ adapter.literal('No operation of cdc_operations: ' ~ stream.operation ~ ' is ') }}, coalesce({{ stream.operation }}, 'NULL')))
  end
{%- endmacro %}


{#- What the table is made of the first time: what the changes leave. -#}
{% macro rowmerge_rows_of_changes(source) -%}
  {%- set stream = adapter.change_stream(config, [], adapter.unique_key(config)) -%}
select * except (__dbt_deleted{{ '' if stream.keeps_deletes else ', ' ~ stream.operation }})
from {{ rowmerge_newest_changes(source, stream) }}
  {%- if not stream.keeps_deletes %}
where not __dbt_deleted
  {%- endif %}
{%- endmacro %}


{% macro rowmerge_literals(values) -%}
  {%- for value in values -%}{{ adapter.literal(value) }}{{ ', ' if not loop.last }}{%- else -%}''{%- endfor -%}
{%- endmacro %}
