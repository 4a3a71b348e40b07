{#- One batch of the feed as it came: repeated and outdated messages included. A line that does not fit the types stops the build. -#}
with lines as (

    select value from text.`{{ var('feed') }}/flights/batch_{{ '%02d' % (var('batch') | int) }}.csv`

),

messages as (

    select from_csv(
        value,
        'flight_id string, status string, sent_at timestamp, flight_date date, carrier string, flight int, origin string, dest string,
         tailnum string, scheduled_departure timestamp, sched_dep_time int, sched_arr_time int, distance int,
         dep_time int, dep_delay int, arr_time int, arr_delay int, air_time int',
        map('mode', 'FAILFAST')
    ) as message
    from lines
    where value not like 'flight_id,%'

)

select
    message.*,
    cast(date_trunc('month', message.flight_date) as date) as flight_month,
    {{ var('batch') | int }} as batch
from messages
