{% macro rowmerge__safe_cast(field, type) %}
{%- set plain = field.strip('"').strip("'") if cast_from_string_unsupported_for(type) and field is string else field -%}
try_cast({{ plain }} as {{ type }})
{% endmacro %}
