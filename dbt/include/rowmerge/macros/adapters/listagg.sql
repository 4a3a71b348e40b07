{#-
  Joins the strings of a group. dbt-spark ignores the order. With an order, this macro joins the strings with a character that no string
  contains. So the macro can split the result again to apply a limit.
-#}
{% macro rowmerge__listagg(measure, delimiter_text, order_by_clause, limit_num) -%}
  {%- if not order_by_clause -%}
    {{ return(spark__listagg(measure, delimiter_text, order_by_clause, limit_num)) }}
  {%- endif -%}
  {%- if not limit_num -%}
    {{ return('listagg(' ~ measure ~ ', ' ~ delimiter_text ~ ') within group (' ~ order_by_clause ~ ')') }}
  {%- endif -%}
  {%- set ordered = "listagg(" ~ measure ~ ", '\\u0001') within group (" ~ order_by_clause ~ ")" -%}
  {{ return("array_join(slice(split(" ~ ordered ~ ", '\\u0001'), 1, " ~ limit_num ~ "), " ~ delimiter_text ~ ")") }}
{%- endmacro %}
