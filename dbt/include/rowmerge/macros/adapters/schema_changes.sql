{#- Names are compared without regard to case, as Spark does. dbt calls this one without dispatching. -#}
{% macro diff_columns(source_columns, target_columns) %}
  {% set known = target_columns | map(attribute='name') | map('lower') | list %}
  {% set result = [] %}
  {% for column in source_columns if column.name | lower not in known %}
    {% do result.append(column) %}
  {% endfor %}
  {{ return(result) }}
{% endmacro %}


{% macro rowmerge__diff_column_data_types(source_columns, target_columns) %}
  {% set targets = {} %}
  {% for column in target_columns %}
    {% do targets.update({column.name | lower: column}) %}
  {% endfor %}
  {% set result = [] %}
  {% for column in source_columns %}
    {% set target = targets.get(column.name | lower) %}
    {% if target and column.data_type | lower != target.data_type | lower and not column.can_expand_to(target) %}
      {% do result.append({'column_name': target.name, 'new_type': column.data_type}) %}
    {% endif %}
  {% endfor %}
  {{ return(result) }}
{% endmacro %}


{#- Types first, dropped columns then: what the table refuses is refused before another step is made that is hard to undo. -#}
{% macro rowmerge__sync_column_schemas(on_schema_change, target_relation, schema_changes_dict) %}
  {% set removed = [] %}
  {% if on_schema_change == 'sync_all_columns' %}
    {% for change in schema_changes_dict['new_target_types'] %}
      {% do alter_column_type(target_relation, change['column_name'], change['new_type']) %}
    {% endfor %}
    {% set removed = schema_changes_dict['target_not_in_source'] %}
  {% endif %}
  {% do alter_relation_add_remove_columns(target_relation, schema_changes_dict['source_not_in_target'], removed) %}
{% endmacro %}


{% macro rowmerge__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% if remove_columns and adapter.changes_in_place(relation)['drop'] %}
    {% call statement() -%}
alter table {{ relation.render() }} drop columns ({{ remove_columns | map(attribute='quoted') | join(', ') }})
    {%- endcall %}
  {% elif remove_columns and execute %}
    {% do exceptions.raise_compiler_error(
        'Columns cannot be dropped from ' ~ relation.render() ~ ' in place: ' ~ remove_columns | map(attribute='name') | join(', ')
        ~ '. Run the model with --full-refresh, or set on_schema_change to append_new_columns to keep them.'
    ) %}
  {% endif %}
  {% do create_columns(relation, add_columns or []) %}
{% endmacro %}


{% macro rowmerge__create_columns(relation, columns) %}
  {% if columns %}
    {% call statement() -%}
alter table {{ relation.render() }} add columns (
      {%- for column in columns -%}
        {{ column.quoted }} {{ column.data_type }}{{ ', ' if not loop.last }}
      {%- endfor -%}
)
    {%- endcall %}
  {% endif %}
{% endmacro %}


{% macro rowmerge__alter_column_type(relation, column_name, new_column_type) %}
  {% if adapter.changes_in_place(relation)['type'] %}
    {% call statement() -%}
alter table {{ relation.render() }} alter column {{ adapter.quote(column_name) }} type {{ new_column_type }}
    {%- endcall %}
  {% elif execute %}
    {% do exceptions.raise_compiler_error(
        'The type of ' ~ column_name ~ ' in ' ~ relation.render() ~ ' cannot become ' ~ new_column_type
        ~ ' in place. Cast the column in the model to the type that it has, or run the model with --full-refresh.'
    ) %}
  {% endif %}
{% endmacro %}
