{% macro rowmerge__create_view_as(relation, sql) -%}
  {%- if config.get('contract').enforced -%}
    {{ get_assert_columns_equivalent(sql) }}
  {%- endif -%}
create or replace view {{ relation.render() }}
  {%- if config.persist_column_docs() and model.get('columns') %}
    {%- set comments = {} -%}
    {%- for name, column in model.columns.items() -%}
      {%- do comments.update({name | lower: column.get('description')}) -%}
    {%- endfor %} (
    {%- for name in get_columns_in_query(sql) -%}
      {{ adapter.quote(name) }}{% if comments.get(name | lower) %} comment {{ adapter.literal(comments[name | lower]) }}{% endif %}{{ ', ' if not loop.last }}
    {%- endfor -%}
    )
  {%- endif -%}
  {{- comment_clause() }}
as
{{ sql }}
{%- endmacro %}


{% macro rowmerge__create_temporary_view(relation, compiled_code) -%}
create or replace temporary view {{ relation.render() }} as
{{ compiled_code }}
{%- endmacro %}
