{#- Spark casts no string to an array, a map or a struct. So a fixture's string for such a type is rendered as an expression. -#}
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


{#- In string literals of Spark, a backslash is an escape character. -#}
{% macro rowmerge__escape_single_quotes(expression) -%}
{{ expression | replace("\\", "\\\\") | replace("'", "\\'") }}
{%- endmacro %}
