{% macro rowmerge__get_incremental_merge_sql(arg_dict) %}
  {% set merge_sql = adapter.dispatch('get_merge_sql', 'dbt') %}
  {% if rowmerge_is_overridden(merge_sql) %}
    {{ return(merge_sql(
        arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['unique_key'], arg_dict['dest_columns'], arg_dict['incremental_predicates']
    )) }}
  {% endif %}
  {{ return(rowmerge_merge(adapter.strategy_plan(config, 'merge', arg_dict))) }}
{% endmacro %}


{#- For strategies of projects. -#}
{% macro rowmerge__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) -%}
  {{ return(rowmerge_merge(adapter.strategy_plan(config, 'merge', {
      'target_relation': target, 'temp_relation': source, 'unique_key': unique_key, 'dest_columns': dest_columns,
      'incremental_predicates': incremental_predicates
  }))) }}
{%- endmacro %}


{% macro rowmerge_merge(plan) -%}
merge {{ rowmerge_evolution(plan) }}into {{ plan.target_relation.render() }} as {{ plan.target_alias }}
using {{ rowmerge_newest_rows(plan, plan.temp_relation) if plan.newest_first else plan.temp_relation }} as {{ plan.source_alias }}
on {{ rowmerge_on_clause(plan) }}
  {%- for clause in plan.clauses %}
when {{ clause.kind }}{% for condition in clause.conditions %} and ({{ condition }}){% endfor %} then {{ rowmerge_merge_action(clause) }}
  {%- endfor %}
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
