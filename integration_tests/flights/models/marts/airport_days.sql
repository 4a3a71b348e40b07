{#- Departures by day and airport. The days that a batch speaks of are computed anew, whole. -#}
-- depends_on: {{ ref('stg_flight_messages') }}
{{ config(materialized='incremental', incremental_strategy='delete+insert', unique_key='flight_date') }}

select
    flight_date,
    origin,
    count(*) as flights,
    count_if(status = 'scheduled') as still_scheduled,
    count(dep_delay) as departed,
    sum(dep_delay) as minutes_of_delay,
    max(dep_delay) as longest_delay,
    count(distinct dest) as destinations
from {{ ref('fct_flights') }}
{% if is_incremental() %}
where flight_date in (select flight_date from {{ ref('stg_flight_messages') }})
{% endif %}
group by flight_date, origin
