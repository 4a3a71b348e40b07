{#- Validates the table configs of a node once, before the node runs a statement. -#}
{% macro rowmerge_check_table_configs() %}
  {% do adapter.table_format(config) %}
  {% for name in ['liquid_clustered_by', 'auto_liquid_cluster', 'zorder'] if config.get(name) %}
    {% do exceptions.warn(
        'The config ' ~ name ~ ' of ' ~ this ~ ' is not used: it is about the layout of files, not about rows. Leave it out; '
        ~ 'partition_by divides files, and OPTIMIZE in a post_hook writes small ones together.'
    ) %}
  {% endfor %}
{% endmacro %}
