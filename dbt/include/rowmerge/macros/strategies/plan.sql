{#-
  What several strategies render of a plan. Their macros get dbt's `arg_dict`, and render the plan that adapter.strategy_plan returns for it:
  dbt/adapters/rowmerge/incremental/plan.py describes its fields.
-#}

{#- Lets a statement add columns and fields that the table lacks, and leave out fields that the model lacks. -#}
{% macro rowmerge_evolution(plan) -%}
  {{ 'with schema evolution ' if plan.with_schema_evolution }}
{%- endmacro %}


{% macro rowmerge_columns(plan) -%}
  {{ plan.dest_columns | map(attribute='quoted') | join(', ') }}
{%- endmacro %}


{#- NULL keys are equal: a row with a NULL key does not become two rows with every run. -#}
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


{#- Of each key the newest row; the others would make a merge fail. -#}
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


{#- Whether a project has a macro of its own for a macro of dbt, as adapter.dispatch finds it. Such a macro takes dbt's arguments alone. -#}
{% macro rowmerge_is_overridden(dispatched) %}
  {{ return(dispatched.macro.package_name != 'dbt_rowmerge') }}
{% endmacro %}
