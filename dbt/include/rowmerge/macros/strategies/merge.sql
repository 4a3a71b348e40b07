{% macro rowmerge__get_incremental_merge_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_merge_sql', 'dbt')(
      arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['unique_key'], arg_dict['dest_columns'], arg_dict['incremental_predicates']
  )) }}
{% endmacro %}


{% macro rowmerge__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) -%}
  {%- set merge = adapter.merge_config(config, source, dest_columns, unique_key, incremental_predicates) -%}
merge {{ rowmerge_evolution() }}into {{ target.render() }} as {{ merge.aliases.dest }}
using {{ rowmerge_newest_rows(source, merge.keys, dest_columns) if config.get('merge_deduplicate_by') else source }} as {{ merge.aliases.source }}
on {{ rowmerge_on_clause(merge) }}
  {%- for clause in merge.clauses %}
when {{ clause.kind }}{% for condition in clause.conditions %} and ({{ condition }}){% endfor %} then {{ rowmerge_merge_action(clause) }}
  {%- endfor %}
{%- endmacro %}


{#- Rows without a value in a key column match one another: a NULL key does not duplicate its row with every run. -#}
{% macro rowmerge_on_clause(merge) -%}
  {%- set terms = [] -%}
  {%- for key in merge.keys -%}
    {%- do terms.append(merge.aliases.source ~ '.' ~ key ~ ' <=> ' ~ merge.aliases.dest ~ '.' ~ key) -%}
  {%- endfor -%}
  {%- if not terms -%}
    {%- do terms.append('false') -%}
  {%- endif -%}
  {%- for predicate in merge.predicates -%}
    {%- do terms.append('(' ~ predicate ~ ')') -%}
  {%- endfor -%}
  {{ terms | join('\n    and ') }}
{%- endmacro %}


{% macro rowmerge_merge_action(clause) -%}
  {%- if clause.action == 'update' -%}
update set
    {% for column, value in clause.assignments -%}
      {{ column }} = {{ value }}{{ ',\n    ' if not loop.last }}
    {%- else -%}
      *
    {%- endfor -%}
  {%- elif clause.action == 'insert' and clause.assignments -%}
insert
    ({{ clause.assignments | map('first') | join(', ') }})
    values ({{ clause.assignments | map('last') | join(', ') }})
  {%- elif clause.action == 'insert' -%}
insert
    *
  {%- else -%}
    {{ clause.action }}
  {%- endif -%}
{%- endmacro %}


{#- Of each key the newest row, after merge_deduplicate_by; the others would make the merge fail. -#}
{% macro rowmerge_newest_rows(source, keys, columns=[]) -%}
(
select * except (__dbt_rank)
from (
  select *, row_number() over (
    partition by {{ keys | join(', ') }}
    order by {{ adapter.newest_first(config, columns) | join(', ') }}
  ) as __dbt_rank
  from {{ source }}
)
where __dbt_rank = 1
)
{%- endmacro %}
