{#- Compares names case-insensitively, as Spark does. dbt calls this macro without dispatch. -#}
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


{#- dbt's interface, for macros of projects. The adapter's materialization renders the changes of its plan. -#}
{% macro rowmerge__process_schema_changes(on_schema_change, source_relation, target_relation) %}
  {% if on_schema_change == 'ignore' %}
    {{ return({}) }}
  {% endif %}
  {% do rowmerge_change_columns(target_relation, adapter.schema_changes(config, on_schema_change, source_relation, target_relation)) %}
  {{ return(adapter.get_columns_in_relation(source_relation)) }}
{% endmacro %}


{% macro rowmerge__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% if remove_columns %}
    {% do rowmerge_change_columns(relation, adapter.column_changes(relation, dropped=remove_columns | map(attribute='quoted'))) %}
  {% endif %}
  {% do create_columns(relation, add_columns or []) %}
{% endmacro %}


{% macro rowmerge__create_columns(relation, columns) %}
  {% set added = [] %}
  {% for column in columns %}
    {% do added.append((column.quoted, api.Column.translate_type(column.data_type))) %}
  {% endfor %}
  {% do rowmerge_change_columns(relation, adapter.column_changes(relation, added=added)) %}
{% endmacro %}


{% macro rowmerge__alter_column_type(relation, column_name, new_column_type) %}
  {% set path, type = adapter.quote(column_name), api.Column.translate_type(new_column_type) %}
  {% set present = {} %}
  {% for column in adapter.get_columns_in_relation(relation) %}
    {% do present.update({column.name | lower: column.data_type | lower}) %}
  {% endfor %}
  {% if present.get(column_name | lower) != type | lower %}
    {% do rowmerge_change_columns(relation, adapter.column_changes(relation, retyped=[(path, type)])) %}
  {% endif %}
{% endmacro %}


{#-
  Changes the columns of a table, at any depth. Type changes precede dropped columns. So the table rejects an invalid change before a step
  that is hard to undo. Each step is one commit, and the table is valid after each step.
-#}
{% macro rowmerge_change_columns(relation, changes) %}
  {% if changes.properties %}
    {% call statement() -%}
alter table {{ relation.render() }} set tblproperties (
      {%- for key, value in changes.properties -%}
        {{ adapter.literal(key) }} = {{ adapter.literal(value) }}{{ ', ' if not loop.last }}
      {%- endfor -%}
)
    {%- endcall %}
  {% endif %}
  {% for path, type in changes.retyped %}
    {% call statement() -%}
      alter table {{ relation.render() }} alter column {{ path }} type {{ type }}
    {%- endcall %}
  {% endfor %}
  {% if changes.dropped %}
    {% call statement() -%}
alter table {{ relation.render() }} drop columns ({{ changes.dropped | join(', ') }})
    {%- endcall %}
  {% endif %}
  {% if changes.added %}
    {% call statement() -%}
alter table {{ relation.render() }} add columns (
      {%- for path, type in changes.added -%}
        {{ path }} {{ type }}{{ ', ' if not loop.last }}
      {%- endfor -%}
)
    {%- endcall %}
  {% endif %}
{% endmacro %}
