{#- Renders no text, so `{{ optimize(this) }}` is also valid as a hook. -#}
{% macro rowmerge_operation(name, arguments, unknown_arguments) %}
  {% if execute %}
    {% do log(adapter.run_operation(name, arguments, unknown_arguments.keys() | list, graph), info=True) %}
  {% endif %}
{% endmacro %}
