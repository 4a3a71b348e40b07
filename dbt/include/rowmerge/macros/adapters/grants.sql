{% macro rowmerge__apply_grants(relation, grant_config, should_revoke=True) %}
  {% if grant_config and adapter.is_first_time('grants of ' ~ relation) %}
    {% do exceptions.warn('The `grants` of ' ~ relation ~ ' are not applied: there are no users to grant to. Set permissions where the files are stored.') %}
  {% endif %}
{% endmacro %}
