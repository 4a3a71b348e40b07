{#-
  The parts of a plan that several strategies render. The strategy macros get dbt's `arg_dict`, and render the plan that
  adapter.strategy_plan returns. dbt/adapters/rowmerge/incremental/plan.py describes the fields of a plan.
-#}

{#- Allows a statement to add columns and fields that only the model has, and to omit fields that only the table has. -#}
{% macro rowmerge_evolution(plan) -%}
  {{ 'with schema evolution ' if plan.with_schema_evolution }}
{%- endmacro %}


{% macro rowmerge_columns(plan) -%}
  {{ plan.dest_columns | map(attribute='quoted') | join(', ') }}
{%- endmacro %}


{#- NULL keys are equal. So repeated runs do not insert a row with a NULL key again. -#}
{% macro rowmerge_on_clause(plan) -%}
  {%- for key in plan.keys -%}
{{ plan.source_alias }}.{{ key }} <=> {{ plan.target_alias }}.{{ key }}{{ '\n    and ' if not loop.last }}
  {%- else -%}
false
  {%- endfor -%}
  {%- for predicate in plan.incremental_predicates %}
    and ({{ predicate }})
  {%- endfor -%}
{%- endmacro %}


{#- The newest row of each key. A merge with several rows of one key fails. -#}
{% macro rowmerge_newest_rows(plan, source) -%}
(
select * except (__dbt_rank)
from (
  select *, row_number() over (
    partition by {{ plan.keys | join(', ') }}
    order by {{ plan.newest_first | join(', ') }}
  ) as __dbt_rank
  from {{ source }}
)
where __dbt_rank = 1
)
{%- endmacro %}


{#- Whether adapter.dispatch resolves a macro of dbt to a macro of the project. Such a macro accepts only dbt's arguments. -#}
{% macro rowmerge_is_overridden(dispatched) %}
  {{ return(dispatched.macro.package_name != 'dbt_rowmerge') }}
{% endmacro %}
