{#- dbt run-operation vacuum --args '{relation: orders, retain_hours: 168, dry_run: true}': delete files that no version needs. -#}
{% macro vacuum(relation=none, retain_hours=none, dry_run=none, table=none) %}
  {% do rowmerge_operation('vacuum', {'relation': relation, 'table': table, 'retain_hours': retain_hours, 'dry_run': dry_run}, kwargs) %}
{% endmacro %}
