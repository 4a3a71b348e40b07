{% macro rowmerge__get_incremental_merge_sql(arg_dict) %}
  {{ return(adapter.dispatch('get_merge_sql', 'dbt')(
      arg_dict['target_relation'], arg_dict['temp_relation'], arg_dict['unique_key'], arg_dict['dest_columns'], arg_dict['incremental_predicates']
  )) }}
{% endmacro %}


{% macro rowmerge__get_merge_sql(target, source, unique_key, dest_columns, incremental_predicates=none) -%}
  {%- set evolves = config.get('merge_with_schema_evolution') -%}
  {%- set chosen = config.get('merge_update_columns') or config.get('merge_exclude_columns') -%}
  {#- With schema evolution, columns are the model's own: the table may not have them yet. -#}
  {%- set columns = adapter.get_columns_in_relation(source) if evolves and chosen else dest_columns -%}
  {%- do adapter.check_merge_config(config, columns) -%}
  {%- set dest = config.get('target_alias') or 'DBT_INTERNAL_DEST' -%}
  {%- set src = config.get('source_alias') or 'DBT_INTERNAL_SOURCE' -%}
  {%- set matched_condition = config.get('matched_condition') or config.get('update_condition') -%}
  {%- set not_matched_condition = config.get('not_matched_condition') or config.get('insert_condition') -%}
  {%- set delete_condition = config.get('delete_condition') -%}
  {%- set by_source_action = config.get('not_matched_by_source_action') -%}
  {%- set by_source_condition = config.get('not_matched_by_source_condition') -%}
  {%- set update_columns = get_merge_update_columns(config.get('merge_update_columns'), config.get('merge_exclude_columns'), columns) -%}
merge {% if evolves %}with schema evolution {% endif %}into {{ target.render() }} as {{ dest }}
using {{ source }} as {{ src }}
on {{ rowmerge_on_clause(unique_key, dest, src, dest_columns, incremental_predicates) }}
  {%- if unique_key and delete_condition %}
when matched and ({{ delete_condition }}) then delete
  {%- endif %}
  {%- if unique_key and update_columns and not config.get('skip_matched_step') %}
when matched{% if matched_condition %} and ({{ matched_condition }}){% endif %} then update set
    {% if evolves and not chosen -%}
    *
    {%- else -%}
    {%- for column in update_columns -%}
      {{ column }} = {{ src }}.{{ column }}{{ ',\n    ' if not loop.last }}
    {%- endfor %}
    {%- endif %}
  {%- endif %}
  {%- if not config.get('skip_not_matched_step') %}
when not matched{% if not_matched_condition %} and ({{ not_matched_condition }}){% endif %} then insert
    {% if evolves -%}
    *
    {%- else -%}
    ({{ dest_columns | map(attribute='quoted') | join(', ') }})
    values ({% for column in dest_columns %}{{ src }}.{{ column.quoted }}{{ ', ' if not loop.last }}{% endfor %})
    {%- endif %}
  {%- endif %}
  {%- if by_source_action %}
when not matched by source{% if by_source_condition %} and ({{ by_source_condition }}){% endif %} then {{ by_source_action }}
  {%- endif %}
{%- endmacro %}


{#- Rows without a value in a key column match one another: a NULL key does not duplicate its row with every run. -#}
{% macro rowmerge_on_clause(unique_key, dest, src, columns, predicates) -%}
  {%- set terms = [] -%}
  {%- for key in rowmerge_as_list(unique_key) -%}
    {%- set name = adapter.quote_key(key, columns) -%}
    {%- do terms.append(src ~ '.' ~ name ~ ' <=> ' ~ dest ~ '.' ~ name) -%}
  {%- endfor -%}
  {%- if not terms -%}
    {%- do terms.append('false') -%}
  {%- endif -%}
  {%- for predicate in rowmerge_as_list(predicates) -%}
    {%- do terms.append('(' ~ predicate ~ ')') -%}
  {%- endfor -%}
  {{ terms | join('\n    and ') }}
{%- endmacro %}


{#- Quoted names of the columns that an update sets; an empty list when there is none to set. -#}
{% macro rowmerge__get_merge_update_columns(merge_update_columns, merge_exclude_columns, dest_columns) %}
  {%- set chosen = [] -%}
  {%- set updated = rowmerge_as_list(merge_update_columns) -%}
  {%- set excluded = rowmerge_as_list(merge_exclude_columns) -%}
  {%- set updated = updated | map('lower') | list -%}
  {%- set excluded = excluded | map('lower') | list -%}
  {%- for column in dest_columns -%}
    {%- set names = [column.name | lower, column.quoted | lower] -%}
    {%- if updated -%}
      {%- if names[0] in updated or names[1] in updated -%}{%- do chosen.append(column.quoted) -%}{%- endif -%}
    {%- elif names[0] not in excluded and names[1] not in excluded -%}
      {%- do chosen.append(column.quoted) -%}
    {%- endif -%}
  {%- endfor -%}
  {{ return(chosen) }}
{% endmacro %}
