{#- The log of all messages, repeated ones included: nothing is ever changed in it. -#}
{{ config(materialized='incremental', incremental_strategy='append') }}

select
    batch,
    flight_id,
    status,
    sent_at,
    dep_delay,
    arr_delay
from {{ ref('stg_flight_messages') }}
