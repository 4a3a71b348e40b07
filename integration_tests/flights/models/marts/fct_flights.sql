{#-
  Every flight that is planned or flew, by its newest message. Cancelled flights leave the table.
  merge-on-read, so that deletion vectors and position deletes are seen at work: files as small as these would be rewritten otherwise.
-#}
{{ config(
    materialized='incremental',
    incremental_strategy='merge',
    unique_key='flight_id',
    partition_by=['flight_month'],
    tblproperties={'rowmerge.write.mode': 'merge-on-read'},
    delete_condition="DBT_INTERNAL_SOURCE.status = 'cancelled'",
    matched_condition="DBT_INTERNAL_SOURCE.sent_at > DBT_INTERNAL_DEST.sent_at",
    not_matched_condition="DBT_INTERNAL_SOURCE.status <> 'cancelled'"
) }}

with ranked as (

    select
        *,
        row_number() over (partition by flight_id order by sent_at desc) as newest_first
    from {{ ref('stg_flight_messages') }}

)

select
    flight_id,
    status,
    sent_at,
    flight_date,
    carrier,
    flight,
    origin,
    dest,
    tailnum,
    scheduled_departure,
    distance,
    dep_time,
    dep_delay,
    arr_time,
    arr_delay,
    air_time,
    flight_month
from ranked
where newest_first = 1
{% if not is_incremental() %}
    and status <> 'cancelled'
{% endif %}
