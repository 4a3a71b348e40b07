-- the query is the source, and every column is named
-- config: {unique_key: id}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- without a key it only inserts
-- config: {}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on false
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- a composite key and predicates
-- config: {unique_key: [ID, day], incremental_predicates: ["DBT_INTERNAL_DEST.day > '2024-01-01' or false"]}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`ID` <=> DBT_INTERNAL_DEST.`ID`
    and DBT_INTERNAL_SOURCE.`day` <=> DBT_INTERNAL_DEST.`day`
    and (DBT_INTERNAL_DEST.day > '2024-01-01' or false)
when matched then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- a key in a struct stays as written
-- config: {unique_key: payload.id}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.payload.id <=> DBT_INTERNAL_DEST.payload.id
when matched then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- chosen columns
-- config: {unique_key: id, merge_update_columns: [AMOUNT]}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- all columns but some
-- config: {unique_key: id, merge_exclude_columns: ["`id`", Day]}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- conditions by the names of dbt-databricks
-- config: {unique_key: id, source_alias: s, target_alias: t, matched_condition: s.day >= t.day, not_matched_condition: s.amount > 0, not_matched_by_source_action: delete, not_matched_by_source_condition: "t.day < '2020-01-01'"}
merge into `main`.`orders` as t
using (
select * from new_orders
) as s
on s.`id` <=> t.`id`
when matched and (s.day >= t.day) then update set
    `id` = s.`id`,
    `day` = s.`day`,
    `amount` = s.`amount`
when not matched and (s.amount > 0) then insert
    (`id`, `day`, `amount`)
    values (s.`id`, s.`day`, s.`amount`)
when not matched by source and (t.day < '2020-01-01') then delete

-- conditions by the names of dbt-duckdb
-- config: {merge_on_using_columns: [id], merge_update_condition: DBT_INTERNAL_SOURCE.day >= DBT_INTERNAL_DEST.day, merge_insert_condition: DBT_INTERNAL_SOURCE.amount > 0}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched and (DBT_INTERNAL_SOURCE.day >= DBT_INTERNAL_DEST.day) then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched and (DBT_INTERNAL_SOURCE.amount > 0) then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- conditions by the names of dbt-athena, and its aliases
-- config: {unique_key: id, update_condition: src.day >= target.day, insert_condition: src.amount > 0, delete_condition: src.amount is null}
merge into `main`.`orders` as target
using (
select * from new_orders
) as src
on src.`id` <=> target.`id`
when matched and (src.amount is null) then delete
when matched and (src.day >= target.day) then update set
    `id` = src.`id`,
    `day` = src.`day`,
    `amount` = src.`amount`
when not matched and (src.amount > 0) then insert
    (`id`, `day`, `amount`)
    values (src.`id`, src.`day`, src.`amount`)

-- rows that the model has no more are changed
-- config: {unique_key: id, not_matched_by_source_action: update set amount = 0}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)
when not matched by source then update set amount = 0

-- no updates
-- config: {unique_key: id, skip_matched_step: true}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- no inserts
-- config: {unique_key: id, skip_not_matched_step: "True"}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`

-- schema evolution
-- config: {unique_key: id, merge_with_schema_evolution: true, delete_condition: DBT_INTERNAL_SOURCE.amount < 0}
merge with schema evolution into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched and (DBT_INTERNAL_SOURCE.amount < 0) then delete
when matched then update set
    *
when not matched then insert
    *

-- expressions
-- config: {unique_key: id, merge_update_set_expressions: {amount: DBT_INTERNAL_DEST.amount + DBT_INTERNAL_SOURCE.amount}}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `amount` = DBT_INTERNAL_DEST.amount + DBT_INTERNAL_SOURCE.amount,
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- rules of dbt-athena
-- config: {unique_key: id, merge_update_columns_default_rule: coalesce, merge_update_columns_rules: {amount: sum, day: "greatest(_new_, _old_)"}}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `day` = greatest(DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_DEST.`day`),
    `amount` = DBT_INTERNAL_SOURCE.`amount` + DBT_INTERNAL_DEST.`amount`,
    `id` = DBT_INTERNAL_SOURCE.`id`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- the newest row of a key
-- config: {unique_key: id, merge_deduplicate_by: [day, amount asc]}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * except (__dbt_rank)
from (
  select *, row_number() over (
    partition by `id`
    order by `day` desc nulls last, `amount` asc nulls last
  ) as __dbt_rank
  from (
select * from new_orders
)
)
where __dbt_rank = 1
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- new columns come with the rows
-- config: {unique_key: id, on_schema_change: sync_all_columns, merge_update_columns: [day]}
merge with schema evolution into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `day` = DBT_INTERNAL_SOURCE.`day`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)
