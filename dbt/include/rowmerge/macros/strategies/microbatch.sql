{#- A batch replaces the rows of its own stretch of time, in one commit; batches of other stretches may run meanwhile. -#}
{% macro rowmerge__get_incremental_microbatch_sql(arg_dict) -%}
  {%- set event_time = adapter.quote_key(model.config.event_time, arg_dict['dest_columns']) -%}
  {%- set start = model.config.get('__dbt_internal_microbatch_event_time_start') -%}
  {%- set end = model.config.get('__dbt_internal_microbatch_event_time_end') -%}
  {%- set terms = adapter.replaced_rows({}, arg_dict['incremental_predicates']) -%}
  {%- if start %}{% do terms.append(event_time ~ " >= timestamp'" ~ start ~ "'") %}{% endif -%}
  {%- if end %}{% do terms.append(event_time ~ " < timestamp'" ~ end ~ "'") %}{% endif -%}
  {{ rowmerge_replace_where(arg_dict, terms) }}
{%- endmacro %}
