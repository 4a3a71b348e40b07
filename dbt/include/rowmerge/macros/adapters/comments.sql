{% macro rowmerge__alter_relation_comment(relation, relation_comment) -%}
  comment on table {{ relation.render() }} is {{ adapter.literal(relation_comment) }}
{%- endmacro %}


{#- Sets the changed column comments in one commit. -#}
{% macro rowmerge__alter_column_comment(relation, column_dict) %}
  {% set present = {} %}
  {% for name, comment in adapter.descriptions_in(relation)['columns'].items() %}
    {% do present.update({name | lower: comment}) %}
  {% endfor %}
  {% set comments = [] %}
  {% for name, column in column_dict.items() if column['description'] and column['description'] != present.get(name | lower) %}
    {% do comments.append(adapter.quote(name) ~ ' comment ' ~ adapter.literal(column['description'])) %}
  {% endfor %}
  {% if comments %}
    {% do run_query('alter table ' ~ relation.render() ~ ' alter column ' ~ comments | join(', ')) %}
  {% endif %}
{% endmacro %}


{% macro rowmerge__persist_docs(relation, model, for_relation, for_columns) -%}
  {% if relation.is_function %}{{ return('') }}{% endif %}{#- CREATE FUNCTION sets the comments of a function. -#}
  {% set about_relation = for_relation and config.persist_relation_docs() and model.description %}
  {% set about_columns = for_columns and config.persist_column_docs() and model.columns %}
  {% if about_relation or about_columns %}
    {% set present = adapter.descriptions_in(relation) %}
    {% if about_relation and model.description != present['relation'] %}
      {% do run_query(alter_relation_comment(relation, model.description)) %}
    {% endif %}
    {% if about_columns %}
      {% do alter_column_comment(relation, validate_doc_columns(relation, model.columns, present['columns'].keys() | list)) %}
    {% endif %}
  {% endif %}
{%- endmacro %}
