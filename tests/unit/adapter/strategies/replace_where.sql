-- the rows that a condition names
-- config: {replace_where: "day >= '2024-01-01'"}
insert into `main`.`orders` by name
replace where (day >= '2024-01-01')
select `id`, `day`, `amount`
from (
select * from new_orders
)

-- conditions by the name of dbt-databricks
-- config: {incremental_predicates: ["day >= '2024-01-01'", id > 5 or id is null]}
insert into `main`.`orders` by name
replace where (day >= '2024-01-01')
    and (id > 5 or id is null)
select `id`, `day`, `amount`
from (
select * from new_orders
)

-- new columns come with the rows
-- config: {replace_where: id > 5, on_schema_change: append_new_columns}
insert with schema evolution into `main`.`orders` by name
replace where (id > 5)
select `id`, `day`, `amount`
from (
select * from new_orders
)
