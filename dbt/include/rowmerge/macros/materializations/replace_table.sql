{#-
  Calls its body, which creates or replaces the relation of the argument. A statement cannot replace a table of another format. In this
  case, the body first writes the new rows to a table with a temporary name. An error then leaves the old table unchanged.
-#}
{% macro rowmerge_replace_table(existing_relation, target_relation) %}
  {% if not rowmerge_changes_format(existing_relation) %}
    {% do caller(target_relation) %}
    {% do rowmerge_drop_audit_branch(existing_relation, target_relation) %}
    {{ return('') }}
  {% endif %}
  {% do adapter.check_format_change(existing_relation, adapter.location_root(config)) %}
  {% set staged = target_relation.incorporate(path={'identifier': adapter.temporary_name(target_relation.identifier)}) %}
  {% do caller(staged) %}
  {{ log('Dropping ' ~ existing_relation ~ ' because it is a table of the format ' ~ adapter.format_of(existing_relation)) }}
  {% do adapter.drop_relation(existing_relation) %}
  {% call statement('main') -%}
    {{ create_table_as(False, target_relation, 'select * from ' ~ staged.render()) }}
  {%- endcall %}
  {% do adapter.drop_relation(staged) %}
{% endmacro %}


{#-
  Drops the branch of the config `wap_branch` after a replacement of its table, which changes the main branch. The branch has the rows of the
  replaced table. Without it, the next run and the tests begin with the new rows.
-#}
{% macro rowmerge_drop_audit_branch(existing_relation, target_relation) %}
  {% set branch = config.get('wap_branch') %}
  {% set is_audited = (config.get('tblproperties') or {}).get('write.wap.enabled') | string | lower == 'true' %}
  {% if existing_relation is not none and existing_relation.is_table and branch and branch != 'main' and is_audited %}
    {% call statement('drop_audit_branch') -%}
      alter table {{ target_relation }} drop branch if exists {{ adapter.quote(branch) }}
    {%- endcall %}
  {% endif %}
{% endmacro %}


{#- Whether the existing table has another format than the config of the model. -#}
{% macro rowmerge_changes_format(existing_relation) %}
  {{ return(existing_relation is not none and adapter.format_of(existing_relation) not in (none, adapter.table_format(config))) }}
{% endmacro %}
