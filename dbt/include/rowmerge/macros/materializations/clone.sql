{#- A clone is a view of the other relation: table files belong to one table. -#}
{% materialization clone, adapter='rowmerge' %}
  {{ return(materialization_clone_default()) }}
{% endmaterialization %}


{% macro rowmerge__can_clone_table() %}
  {{ return(False) }}
{% endmacro %}
