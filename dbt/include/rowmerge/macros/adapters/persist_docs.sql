{#- Writes only the comments that are not there yet: each one is a commit. -#}
{% macro rowmerge__persist_docs(relation, model, for_relation, for_columns) -%}
  {% set about_relation = for_relation and config.persist_relation_docs() and model.description %}
  {% set about_columns = for_columns and config.persist_column_docs() and model.columns %}
  {% if about_relation or about_columns %}
    {% set present = adapter.descriptions_in(relation) %}
    {% if about_relation and model.description != present['relation'] %}
      {% do run_query('comment on table ' ~ relation ~ ' is ' ~ adapter.literal(model.description)) %}
    {% endif %}
    {% if about_columns %}
      {% set comments = {} %}
      {% for name, comment in present['columns'].items() %}
        {% do comments.update({name | lower: comment}) %}
      {% endfor %}
      {% set documented = validate_doc_columns(relation, model.columns, present['columns'].keys() | list) %}
      {% for name, column in documented.items() if column['description'] and column['description'] != comments[name | lower] %}
        {% do run_query('alter table ' ~ relation ~ ' alter column ' ~ adapter.quote(name) ~ ' comment ' ~ adapter.literal(column['description'])) %}
      {% endfor %}
    {% endif %}
  {% endif %}
{%- endmacro %}
