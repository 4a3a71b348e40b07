{#- Writes nothing into the text around it, so that `{{ optimize(this) }}` is a hook, too. `others` are arguments that there are not. -#}
{% macro rowmerge_operation(name, arguments, others) %}
  {% if execute %}
    {% do log(adapter.run_operation(name, arguments, others.keys() | list, graph), info=True) %}
  {% endif %}
{% endmacro %}
