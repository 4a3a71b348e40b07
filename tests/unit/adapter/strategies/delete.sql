-- rows leave by their key
-- config: {unique_key: [id, day]}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
    and DBT_INTERNAL_SOURCE.`day` <=> DBT_INTERNAL_DEST.`day`
when matched then delete

-- of some rows only
-- config: {unique_key: id, incremental_predicates: DBT_INTERNAL_DEST.amount > 0}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
    and (DBT_INTERNAL_DEST.amount > 0)
when matched then delete
