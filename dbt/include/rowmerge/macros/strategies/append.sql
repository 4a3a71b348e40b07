{% macro rowmerge__get_incremental_append_sql(arg_dict) %}
  {{ return(get_insert_into_sql(arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['dest_columns'])) }}
{% endmacro %}


{#- dbt-spark has a macro of this name with other arguments; this is dbt's own order. -#}
{% macro get_insert_into_sql(target_relation, temp_relation, dest_columns) %}
insert {{ rowmerge_evolution() }}into {{ target_relation.render() }} by name
select {{ dest_columns | map(attribute='quoted') | join(', ') }}
from {{ temp_relation }}
{% endmacro %}
