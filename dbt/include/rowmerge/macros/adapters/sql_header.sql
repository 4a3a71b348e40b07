{#-
  Statements that a model wants to run before its own, in one session with it. They run before anything looks at the model's query, which may
  need what they make: the columns of a contract, of a view, of a schema change.
-#}
{% macro rowmerge_run_sql_header() %}
  {% if config.get('sql_header') %}
    {% call statement('sql_header', auto_begin=false) -%}
      {{ config.get('sql_header') }}
    {%- endcall %}
  {% endif %}
{% endmacro %}
