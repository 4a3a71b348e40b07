-- a stretch of time
-- config: {event_time: day, __dbt_internal_microbatch_event_time_start: "2024-01-01 00:00:00+00:00", __dbt_internal_microbatch_event_time_end: "2024-01-02 00:00:00+00:00"}
insert into `main`.`orders` by name
replace where `day` >= timestamp'2024-01-01 00:00:00+00:00'
    and `day` < timestamp'2024-01-02 00:00:00+00:00'
select `id`, `day`, `amount`
from (
select * from new_orders
)
