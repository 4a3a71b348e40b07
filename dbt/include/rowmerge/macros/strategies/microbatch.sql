{#- A batch replaces the rows of its time interval in one commit. Batches of other intervals can run at the same time. -#}
{% macro rowmerge__get_incremental_microbatch_sql(arg_dict) -%}
  {{ rowmerge_replace_where(adapter.strategy_plan(config, 'microbatch', arg_dict)) }}
{%- endmacro %}
