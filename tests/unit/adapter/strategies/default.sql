-- a model with a key merges
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

-- a model without a key appends
-- config: {}
insert into `main`.`orders` by name
select `id`, `day`, `amount`
from (
select * from new_orders
)
