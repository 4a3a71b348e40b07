{#- Writes nothing into the text around it, so that `{{ optimize(this) }}` is a hook, too. -#}
{% macro rowmerge_operation(name, arguments, unknown_arguments) %}
  {% if execute %}
    {% do log(adapter.run_operation(name, arguments, unknown_arguments.keys() | list, graph), info=True) %}
  {% endif %}
{% endmacro %}
