-- rows are added
-- config: {}
insert into `main`.`orders` by name
select `id`, `day`, `amount`
from (
select * from new_orders
)

-- new columns come with the rows
-- config: {on_schema_change: append_new_columns}
insert with schema evolution into `main`.`orders` by name
select `id`, `day`, `amount`
from (
select * from new_orders
)
