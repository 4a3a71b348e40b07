{#- A config that may be a name or a list of names: a list in any case, empty for none and for ''. -#}
{% macro rowmerge_as_list(value) %}
  {{ return([value] if value is string and value else (value or []) | list) }}
{% endmacro %}
