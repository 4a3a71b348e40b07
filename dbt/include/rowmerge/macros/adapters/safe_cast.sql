{#- No string becomes an array, a map or a struct: of a fixture's text for one, the expression that it holds is taken. -#}
{% macro rowmerge__safe_cast(field, type) %}
{%- set plain = field -%}
{%- if cast_from_string_unsupported_for(type) and field is string and field | length > 1 -%}
  {%- if field[0] == "'" and field[-1] == "'" -%}
    {%- set plain = field[1:-1] | replace("\\'", "'") | replace("\\\\", "\\") -%}
  {%- elif field[0] == '"' and field[-1] == '"' -%}
    {%- set plain = field[1:-1] -%}
  {%- endif -%}
{%- endif -%}
try_cast({{ plain }} as {{ type }})
{% endmacro %}


{#- In Spark's strings a backslash escapes, too. -#}
{% macro rowmerge__escape_single_quotes(expression) -%}
{{ expression | replace("\\", "\\\\") | replace("'", "\\'") }}
{%- endmacro %}
