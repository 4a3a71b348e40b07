{#- A batch replaces the rows of its own stretch of time, in one commit. -#}
{% macro rowmerge__get_incremental_microbatch_sql(arg_dict) -%}
  {%- set event_time = adapter.quote_key(model.config.event_time, arg_dict['dest_columns']) -%}
  {%- set columns = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') -%}
  {%- set start = model.config.get('__dbt_internal_microbatch_event_time_start') -%}
  {%- set end = model.config.get('__dbt_internal_microbatch_event_time_end') -%}
  {%- set terms = rowmerge_as_list(arg_dict['incremental_predicates']) -%}
  {%- if start %}{% do terms.append(event_time ~ " >= timestamp'" ~ start ~ "'") %}{% endif -%}
  {%- if end %}{% do terms.append(event_time ~ " < timestamp'" ~ end ~ "'") %}{% endif -%}
insert into {{ arg_dict['target_relation'].render() }} by name
replace where {{ terms | join(' and ') }}
select {{ columns }}
from {{ arg_dict['temp_relation'] }}
{%- endmacro %}
