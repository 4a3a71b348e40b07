{#- A clone is a table of the other table's files (a shallow clone), or a view where there can be none. -#}
{% materialization clone, adapter='rowmerge' %}
  {{ return(materialization_clone_default()) }}
{% endmaterialization %}


{% macro rowmerge__can_clone_table() %}
  {{ return(adapter.can_clone(defer_relation)) }}
{% endmacro %}


{#- Its files are in the warehouse: a `location_root` is the other table's, too. -#}
{% macro rowmerge__create_or_replace_clone(this_relation, defer_relation) %}
  {%- set present = adapter.format_of(this_relation) -%}
  {%- if present == 'iceberg' or present not in (none, adapter.format_of(defer_relation)) -%}
    {%- do log('Dropping ' ~ this_relation ~ ': a table of the format ' ~ present ~ ' cannot be replaced by this clone in place') -%}
    {%- do adapter.drop_relation(this_relation) -%}
  {%- endif -%}
create or replace table {{ this_relation.render() }} shallow clone {{ defer_relation.render() }}
{%- endmacro %}
