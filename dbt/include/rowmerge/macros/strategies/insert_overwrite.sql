{#-
  The partitions that the new rows are in are replaced, the others stay; a table without partitions is replaced whole. Columns are compared
  row by row. What a transform makes of a row is known when it is written.
-#}
{% macro rowmerge__get_incremental_insert_overwrite_sql(arg_dict) -%}
  {%- set columns = arg_dict['dest_columns'] | map(attribute='quoted') | join(', ') -%}
  {%- set asked = rowmerge_as_list(config.get('partition_by')) -%}
  {%- set dynamic = adapter.has_transforms(asked, arg_dict['dest_columns']) -%}
  {%- if dynamic -%}{%- do adapter.check_partitioned(arg_dict['target_relation']) -%}{%- endif -%}
  {%- set partitions = [] -%}
  {%- for name in ([] if dynamic else asked) -%}
    {%- do partitions.append(adapter.quote_key(name, arg_dict['dest_columns'])) -%}
  {%- endfor -%}
  {%- if partitions -%}
    {{ rowmerge_replace_on(arg_dict['target_relation'], arg_dict['temp_relation'], partitions, columns) }}
  {%- else -%}
insert {{ rowmerge_evolution() }}overwrite {{ arg_dict['target_relation'].render() }}{{ " with ('partitionOverwriteMode' = 'dynamic')" if dynamic }} by name
select {{ columns }}
from {{ arg_dict['temp_relation'] }}
  {%- endif -%}
{%- endmacro %}
