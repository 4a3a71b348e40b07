{#-
  Runs the SQL header of a model in the session of the model, before its statement. The header runs before any analysis of the model's
  query (for a contract, a view, or a schema change), because the query may use objects that the header creates.
-#}
{% macro rowmerge_run_sql_header() %}
  {% if config.get('sql_header') %}
    {% call statement('sql_header', auto_begin=false) -%}
      {{ config.get('sql_header') }}
    {%- endcall %}
  {% endif %}
{% endmacro %}
