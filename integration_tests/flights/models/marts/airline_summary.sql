{#- How punctual each airline is, month by month. -#}
{{ config(materialized='table') }}

select
    flights.flight_month,
    flights.carrier,
    airlines.name as airline,
    count(*) as flights,
    count_if(flights.status = 'landed') as landed,
    count_if(flights.arr_delay <= 15) as on_time,
    count_if(flights.status = 'diverted') as diverted,
    cast(sum(flights.distance) as bigint) as miles,
    sum(flights.arr_delay) / count(flights.arr_delay) as average_arrival_delay
from {{ ref('fct_flights') }} as flights
left join {{ ref('airlines') }} as airlines on flights.carrier = airlines.carrier
group by flights.flight_month, flights.carrier, airlines.name
