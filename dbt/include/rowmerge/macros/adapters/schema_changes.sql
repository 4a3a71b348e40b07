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


{#-
  Makes the table's columns the model's, at any depth. Types first, dropped columns then: what the table refuses is refused before another
  step is made that is hard to undo, and each step is a commit that leaves a right table. New columns come with the rows, in their commit,
  where the strategy's statement brings them.
-#}
{% macro rowmerge__process_schema_changes(on_schema_change, source_relation, target_relation) %}
  {% if on_schema_change == 'ignore' %}
    {{ return({}) }}
  {% endif %}
  {% set changes = adapter.schema_changes(source_relation, target_relation) %}
  {% if on_schema_change == 'fail' and changes %}
    {% do exceptions.raise_compiler_error(
        'The columns of ' ~ target_relation.render() ~ ' differ from the model\'s: ' ~ changes
        ~ '. Set on_schema_change to append_new_columns or sync_all_columns, or run the model with --full-refresh.'
    ) %}
  {% endif %}
  {% if on_schema_change == 'sync_all_columns' %}
    {% do rowmerge_set_properties(target_relation, adapter.properties_for(target_relation, changes, config.get('tblproperties') or {})) %}
    {% for path, type in changes.retyped %}
      {% call statement() -%}
        alter table {{ target_relation.render() }} alter column {{ path }} type {{ type }}
      {%- endcall %}
    {% endfor %}
    {% do rowmerge_drop_columns(target_relation, changes.dropped) %}
  {% endif %}
  {% if on_schema_change != 'fail' and not adapter.brings_columns(config) %}
    {% do rowmerge_add_columns(target_relation, changes.added) %}
  {% endif %}
  {{ return(adapter.get_columns_in_relation(source_relation)) }}
{% endmacro %}


{% macro rowmerge__alter_relation_add_remove_columns(relation, add_columns, remove_columns) %}
  {% if remove_columns %}
    {% set paths = remove_columns | map(attribute='quoted') | list %}
    {% do rowmerge_set_properties(relation, adapter.properties_for(relation, adapter.dropping(paths), {})) %}
    {% do rowmerge_drop_columns(relation, paths) %}
  {% endif %}
  {% do create_columns(relation, add_columns or []) %}
{% endmacro %}


{% macro rowmerge__create_columns(relation, columns) %}
  {% set added = [] %}
  {% for column in columns %}
    {% do added.append((column.quoted, api.Column.translate_type(column.data_type))) %}
  {% endfor %}
  {% do rowmerge_add_columns(relation, added) %}
{% endmacro %}


{% macro rowmerge__alter_column_type(relation, column_name, new_column_type) %}
  {% set path, type = adapter.quote(column_name), api.Column.translate_type(new_column_type) %}
  {% set present = {} %}
  {% for column in adapter.get_columns_in_relation(relation) %}
    {% do present.update({column.name | lower: column.data_type | lower}) %}
  {% endfor %}
  {% if present.get(column_name | lower) != type | lower %}
    {% do rowmerge_set_properties(relation, adapter.properties_for(relation, adapter.retyping(path, type), {})) %}
    {% call statement() -%}
      alter table {{ relation.render() }} alter column {{ path }} type {{ type }}
    {%- endcall %}
  {% endif %}
{% endmacro %}


{% macro rowmerge_add_columns(relation, added) %}
  {% if added %}
    {% call statement() -%}
alter table {{ relation.render() }} add columns (
      {%- for path, type in added -%}
        {{ path }} {{ type }}{{ ', ' if not loop.last }}
      {%- endfor -%}
)
    {%- endcall %}
  {% endif %}
{% endmacro %}


{% macro rowmerge_drop_columns(relation, dropped) %}
  {% if dropped %}
    {% call statement() -%}
alter table {{ relation.render() }} drop columns ({{ dropped | join(', ') }})
    {%- endcall %}
  {% endif %}
{% endmacro %}


{% macro rowmerge_set_properties(relation, properties) %}
  {% if properties %}
    {% call statement() -%}
alter table {{ relation.render() }} set tblproperties (
      {%- for key, value in properties.items() -%}
        {{ adapter.literal(key) }} = {{ adapter.literal(value) }}{{ ', ' if not loop.last }}
      {%- endfor -%}
)
    {%- endcall %}
  {% endif %}
{% endmacro %}


{#- What lets a statement bring columns and fields that the table lacks, and leave out fields that the model lacks. -#}
{% macro rowmerge_evolution() -%}
  {{ 'with schema evolution ' if adapter.evolves(config) }}
{%- endmacro %}
