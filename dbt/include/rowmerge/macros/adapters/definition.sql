{#- The table definition of a model, without its rows, for the methods that write rows without SQL. -#}
{% macro rowmerge_table_definition() %}
  {% set comments = {} %}
  {% if config.persist_column_docs() %}
    {% for name, column in model.columns.items() if column['description'] %}
      {% do comments.update({name: column['description']}) %}
    {% endfor %}
  {% endif %}
  {{ return({
      'file_format': adapter.table_format(config),
      'partition_by': config.get('partition_by'),
      'properties': config.get('tblproperties'),
      'comment': model.description if config.persist_relation_docs() and model.description else none,
      'column_comments': comments
  }) }}
{% endmacro %}
