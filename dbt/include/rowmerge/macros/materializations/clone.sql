{#- Creates a shallow clone, which references the files of the other table. Where shallow clones are not possible, it creates a view. -#}
{% materialization clone, adapter='rowmerge' %}
  {{ return(materialization_clone_default()) }}
{% endmaterialization %}


{% macro rowmerge__can_clone_table() %}
  {{ return(adapter.can_clone(defer_relation)) }}
{% endmacro %}


{#- The files of the clone are in the warehouse, because a `location_root` is also the folder of the other table. -#}
{% macro rowmerge__create_or_replace_clone(this_relation, defer_relation) %}
  {%- set present = adapter.format_of(this_relation) -%}
  {%- if present == 'iceberg' or present not in (none, adapter.format_of(defer_relation)) -%}
    {%- do log('Dropping ' ~ this_relation ~ ': a table of the format ' ~ present ~ ' cannot be replaced by this clone in place') -%}
    {%- do adapter.drop_relation(this_relation) -%}
  {%- endif -%}
create or replace table {{ this_relation.render() }} shallow clone {{ defer_relation.render() }}
{%- endmacro %}
