{% macro rowmerge__get_incremental_append_sql(arg_dict) %}
  {{ return(rowmerge_insert_by_name(arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['dest_columns'])) }}
{% endmacro %}


{% macro rowmerge_insert_by_name(target_relation, temp_relation, dest_columns) %}
insert {{ rowmerge_evolution() }}into {{ target_relation.render() }} by name
select {{ dest_columns | map(attribute='quoted') | join(', ') }}
from {{ temp_relation }}
{% endmacro %}


{#-
  For strategies of projects. dbt-spark has a macro of this name with other arguments; this is dbt's own order. Our own strategies do not call
  it: since dbt-core 1.12 a macro of dbt that is run outside of a node finds dbt's macro of this name first.
-#}
{% macro get_insert_into_sql(target_relation, temp_relation, dest_columns) %}
  {{ return(rowmerge_insert_by_name(target_relation, temp_relation, dest_columns)) }}
{% endmacro %}
