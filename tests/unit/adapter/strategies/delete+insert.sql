-- one statement
-- config: {unique_key: [id, day]}
insert into `main`.`orders` as DBT_INTERNAL_DEST by name
replace on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
and DBT_INTERNAL_SOURCE.`day` <=> DBT_INTERNAL_DEST.`day`
(
select `id`, `day`, `amount`
from (
select * from new_orders
)
) as DBT_INTERNAL_SOURCE

-- without a key rows are added
-- config: {}
insert into `main`.`orders` by name
select `id`, `day`, `amount`
from (
select * from new_orders
)

-- predicates narrow what is deleted
-- config: {unique_key: id, incremental_predicates: ["day > '2024-01-01'"]}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
  select rows.*, __dbt_step
  from (
    select
      `id` as __dbt_column_1,
      `day` as __dbt_column_2,
      `amount` as __dbt_column_3,
      `id` as __dbt_key_1,
      row_number() over (partition by `id` order by `id`) as __dbt_rank
    from (
select * from new_orders
)
  ) as rows
  cross join (values ('delete'), ('insert')) as steps(__dbt_step)
  where __dbt_step = 'insert' or __dbt_rank = 1
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.__dbt_step = 'delete'
    and DBT_INTERNAL_SOURCE.__dbt_key_1 <=> DBT_INTERNAL_DEST.`id`
    and (day > '2024-01-01')
when matched then delete
when not matched and DBT_INTERNAL_SOURCE.__dbt_step = 'insert' then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.__dbt_column_1, DBT_INTERNAL_SOURCE.__dbt_column_2, DBT_INTERNAL_SOURCE.__dbt_column_3)

-- new columns come with the rows
-- config: {unique_key: id, on_schema_change: append_new_columns}
insert with schema evolution into `main`.`orders` as DBT_INTERNAL_DEST by name
replace on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
(
select `id`, `day`, `amount`
from (
select * from new_orders
)
) as DBT_INTERNAL_SOURCE
