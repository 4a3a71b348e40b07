{#- A batch replaces the rows of its own stretch of time, in one commit; batches of other stretches may run meanwhile. -#}
{% macro rowmerge__get_incremental_microbatch_sql(arg_dict) -%}
  {{ rowmerge_replace_where(adapter.strategy_plan(config, 'microbatch', arg_dict)) }}
{%- endmacro %}
