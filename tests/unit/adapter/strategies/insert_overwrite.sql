-- the partitions of the rows
-- config: {partition_by: [day, "`id`"]}
insert into `main`.`orders` as DBT_INTERNAL_DEST by name
replace on DBT_INTERNAL_SOURCE.`day` <=> DBT_INTERNAL_DEST.`day`
and DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
(
select `id`, `day`, `amount`
from (
select * from new_orders
)
) as DBT_INTERNAL_SOURCE

-- a table without partitions
-- config: {}
insert overwrite `main`.`orders` by name
select `id`, `day`, `amount`
from (
select * from new_orders
)

-- new columns come with the rows
-- config: {on_schema_change: append_new_columns}
insert with schema evolution overwrite `main`.`orders` by name
select `id`, `day`, `amount`
from (
select * from new_orders
)
