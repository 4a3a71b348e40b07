{#- dbt's materialization `function` selects a macro by the type and the language of a function, and runs the returned SQL. -#}
{% macro rowmerge__scalar_function_sql(target_relation) %}
  {{ rowmerge_create_function(target_relation, 'FUNCTION') }}
{% endmacro %}


{% macro rowmerge__scalar_function_python(target_relation) %}
  {{ rowmerge_create_function(target_relation, 'FUNCTION') }}
{% endmacro %}


{% macro rowmerge__aggregate_function_sql(target_relation) %}
  {{ rowmerge_create_function(target_relation, 'AGGREGATE FUNCTION') }}
{% endmacro %}


{% macro rowmerge__aggregate_function_python(target_relation) %}
  {{ rowmerge_create_function(target_relation, 'AGGREGATE FUNCTION') }}
{% endmacro %}


{% macro rowmerge_create_function(target_relation, kind) %}
  {%- if model.get('overloads') -%}
    {%- do exceptions.raise_compiler_error(
        'The function ' ~ model.name ~ ' has `overloads`, and a warehouse keeps one function of a name. Give each overload a name of its own, '
        ~ 'or give the arguments default values.'
    ) -%}
  {%- endif -%}
  {%- if model.language == 'python' -%}
    {%- do adapter.check_packages(config.get('packages'), 'function ' ~ model.name) -%}
  {%- endif -%}
  CREATE OR REPLACE {{ kind }} {{ target_relation.render() }} ({{ formatted_scalar_function_args_sql() | trim }})
  RETURNS {{ api.Column.translate_type(model.returns.data_type) }}
  {{ scalar_function_volatility_sql() | trim }}
  {%- if config.persist_relation_docs() and model.description %}
  COMMENT {{ adapter.literal(model.description) }}
  {%- endif %}
  {%- if model.language == 'python' %}
  LANGUAGE PYTHON
  {{ get_function_python_options() | trim }}
  {%- endif %}
  AS {{ rowmerge_function_body(model.compiled_code) }}
{% endmacro %}


{% macro rowmerge__formatted_scalar_function_args_sql() %}
  {%- set arguments = [] -%}
  {%- for argument in model.arguments -%}
    {%- set default = argument.get('default_value') -%}
    {%- set comment = argument.get('description') if config.persist_column_docs() else none -%}
    {%- do arguments.append(
        adapter.quote(argument.name) ~ ' ' ~ api.Column.translate_type(argument.data_type)
        ~ (' DEFAULT ' ~ default if default is not none else '')
        ~ (' COMMENT ' ~ adapter.literal(comment) if comment else '')
    ) -%}
  {%- endfor -%}
  {{ arguments | join(', ') }}
{% endmacro %}


{#- Renders the body between `$$`, or as a string literal if the body contains `$$`. -#}
{% macro rowmerge_function_body(code) -%}
  {%- if '$$' in code -%}{{ adapter.literal(code) }}{%- else -%}$$
{{ code }}
$${%- endif -%}
{%- endmacro %}
