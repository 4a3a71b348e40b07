-- the newest change of a key
-- config: {unique_key: id, cdc_operation_column: op, cdc_order_by: day}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * except (__dbt_rank)
from (
  select *, case when lower(`op`) in ('d', 'delete') then true
    when lower(`op`) in ('c', 'r', 'i', 'insert', 'create', 'read', 'bootstrap-insert', 'u', 'update', 'update_postimage', 'after') then false
    else raise_error(concat('No operation of cdc_operations: `op` is ', coalesce(`op`, 'NULL')))
  end as __dbt_deleted, row_number() over (
    partition by `id`
    order by `day` desc nulls last
  ) as __dbt_rank
  from (
select * from new_orders
)
  where coalesce(lower(`op`), '') not in ('update_preimage', 'before')
)
where __dbt_rank = 1
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched and DBT_INTERNAL_SOURCE.__dbt_deleted and (DBT_INTERNAL_SOURCE.`day` < DBT_INTERNAL_DEST.`day` or DBT_INTERNAL_SOURCE.`day` is null and DBT_INTERNAL_DEST.`day` is not null) is not true then delete
when matched and not DBT_INTERNAL_SOURCE.__dbt_deleted and (DBT_INTERNAL_SOURCE.`day` < DBT_INTERNAL_DEST.`day` or DBT_INTERNAL_SOURCE.`day` is null and DBT_INTERNAL_DEST.`day` is not null) is not true then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched and not DBT_INTERNAL_SOURCE.__dbt_deleted then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- an order of several columns, and operations of its own
-- config: {unique_key: id, cdc_operation_column: op, cdc_order_by: [day, amount], cdc_operations: {delete: [X], ignore: [b, old]}}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * except (__dbt_rank)
from (
  select *, case when lower(`op`) in ('x') then true
    when lower(`op`) in ('c', 'r', 'i', 'insert', 'create', 'read', 'bootstrap-insert', 'u', 'update', 'update_postimage', 'after') then false
    else raise_error(concat('No operation of cdc_operations: `op` is ', coalesce(`op`, 'NULL')))
  end as __dbt_deleted, row_number() over (
    partition by `id`
    order by `day` desc nulls last, `amount` desc nulls last
  ) as __dbt_rank
  from (
select * from new_orders
)
  where coalesce(lower(`op`), '') not in ('b', 'old')
)
where __dbt_rank = 1
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched and DBT_INTERNAL_SOURCE.__dbt_deleted and (DBT_INTERNAL_SOURCE.`day` < DBT_INTERNAL_DEST.`day` or DBT_INTERNAL_SOURCE.`day` is null and DBT_INTERNAL_DEST.`day` is not null or DBT_INTERNAL_SOURCE.`day` <=> DBT_INTERNAL_DEST.`day` and (DBT_INTERNAL_SOURCE.`amount` < DBT_INTERNAL_DEST.`amount` or DBT_INTERNAL_SOURCE.`amount` is null and DBT_INTERNAL_DEST.`amount` is not null)) is not true then delete
when matched and not DBT_INTERNAL_SOURCE.__dbt_deleted and (DBT_INTERNAL_SOURCE.`day` < DBT_INTERNAL_DEST.`day` or DBT_INTERNAL_SOURCE.`day` is null and DBT_INTERNAL_DEST.`day` is not null or DBT_INTERNAL_SOURCE.`day` <=> DBT_INTERNAL_DEST.`day` and (DBT_INTERNAL_SOURCE.`amount` < DBT_INTERNAL_DEST.`amount` or DBT_INTERNAL_SOURCE.`amount` is null and DBT_INTERNAL_DEST.`amount` is not null)) is not true then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched and not DBT_INTERNAL_SOURCE.__dbt_deleted then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- deleted rows stay, to be known
-- config: {unique_key: id, cdc_operation_column: day, cdc_order_by: amount, cdc_keep_deletes: true}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * except (__dbt_rank)
from (
  select *, case when lower(`day`) in ('d', 'delete') then true
    when lower(`day`) in ('c', 'r', 'i', 'insert', 'create', 'read', 'bootstrap-insert', 'u', 'update', 'update_postimage', 'after') then false
    else raise_error(concat('No operation of cdc_operations: `day` is ', coalesce(`day`, 'NULL')))
  end as __dbt_deleted, row_number() over (
    partition by `id`
    order by `amount` desc nulls last
  ) as __dbt_rank
  from (
select * from new_orders
)
  where coalesce(lower(`day`), '') not in ('update_preimage', 'before')
)
where __dbt_rank = 1
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched and DBT_INTERNAL_SOURCE.__dbt_deleted and (DBT_INTERNAL_SOURCE.`amount` < DBT_INTERNAL_DEST.`amount` or DBT_INTERNAL_SOURCE.`amount` is null and DBT_INTERNAL_DEST.`amount` is not null) is not true then update set
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when matched and not DBT_INTERNAL_SOURCE.__dbt_deleted and (DBT_INTERNAL_SOURCE.`amount` < DBT_INTERNAL_DEST.`amount` or DBT_INTERNAL_SOURCE.`amount` is null and DBT_INTERNAL_DEST.`amount` is not null) is not true then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- new columns come with the rows
-- config: {unique_key: id, cdc_operation_column: op, cdc_order_by: day, on_schema_change: append_new_columns}
merge with schema evolution into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * except (__dbt_rank)
from (
  select *, case when lower(`op`) in ('d', 'delete') then true
    when lower(`op`) in ('c', 'r', 'i', 'insert', 'create', 'read', 'bootstrap-insert', 'u', 'update', 'update_postimage', 'after') then false
    else raise_error(concat('No operation of cdc_operations: `op` is ', coalesce(`op`, 'NULL')))
  end as __dbt_deleted, row_number() over (
    partition by `id`
    order by `day` desc nulls last
  ) as __dbt_rank
  from (
select * from new_orders
)
  where coalesce(lower(`op`), '') not in ('update_preimage', 'before')
)
where __dbt_rank = 1
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched and DBT_INTERNAL_SOURCE.__dbt_deleted and (DBT_INTERNAL_SOURCE.`day` < DBT_INTERNAL_DEST.`day` or DBT_INTERNAL_SOURCE.`day` is null and DBT_INTERNAL_DEST.`day` is not null) is not true then delete
when matched and not DBT_INTERNAL_SOURCE.__dbt_deleted and (DBT_INTERNAL_SOURCE.`day` < DBT_INTERNAL_DEST.`day` or DBT_INTERNAL_SOURCE.`day` is null and DBT_INTERNAL_DEST.`day` is not null) is not true then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched and not DBT_INTERNAL_SOURCE.__dbt_deleted then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)
