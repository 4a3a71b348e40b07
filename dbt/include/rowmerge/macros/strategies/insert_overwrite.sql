{#- The partitions that the new rows are in are replaced, the others stay; a table without partitions is replaced whole. -#}
{% macro rowmerge__get_incremental_insert_overwrite_sql(arg_dict) -%}
  {%- set columns = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') -%}
  {%- set partitions = [] -%}
  {%- for name in rowmerge_as_list(config.get('partition_by')) -%}
    {%- do partitions.append(adapter.quote_key(name, arg_dict['dest_columns'])) -%}
  {%- endfor -%}
  {%- if partitions -%}
    {{ rowmerge_replace_on(arg_dict['target_relation'], arg_dict['temp_relation'], partitions, columns) }}
  {%- else -%}
insert overwrite {{ arg_dict['target_relation'].render() }} by name
select {{ columns }}
from {{ arg_dict['temp_relation'] }}
  {%- endif -%}
{%- endmacro %}
