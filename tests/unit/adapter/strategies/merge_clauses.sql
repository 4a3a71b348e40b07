-- as in dbt-duckdb
-- config: {unique_key: id, merge_clauses: {when_matched: [{action: delete, condition: DBT_INTERNAL_SOURCE.amount is null}, {action: update, mode: explicit, condition: [DBT_INTERNAL_SOURCE.amount > 0, DBT_INTERNAL_DEST.amount > 0], update: {include: [day], set_expressions: {amount: DBT_INTERNAL_SOURCE.amount + 1}}}], when_not_matched: [{action: insert, mode: by_name}]}}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched and (DBT_INTERNAL_SOURCE.amount is null) then delete
when matched and (DBT_INTERNAL_SOURCE.amount > 0) and (DBT_INTERNAL_DEST.amount > 0) then update set
    `amount` = DBT_INTERNAL_SOURCE.amount + 1,
    `day` = DBT_INTERNAL_SOURCE.`day`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- what it does not mention happens as always
-- config: {unique_key: id, merge_clauses: {when_matched: [{action: update, mode: explicit, update: {exclude: [id]}}]}}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched then update set
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`
when not matched then insert
    (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- rows of one side only
-- config: {unique_key: id, merge_clauses: {when_matched: [{action: do_nothing}], when_not_matched: [{action: insert, insert: {columns: [id, amount], values: [DBT_INTERNAL_SOURCE.id, "0"]}}], when_not_matched_by_source: [{action: delete, condition: DBT_INTERNAL_DEST.amount = 0}, {action: update, set_expressions: {amount: "0"}}]}}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when not matched then insert
    (`id`, `amount`)
    values (DBT_INTERNAL_SOURCE.id, 0)
when not matched by source and (DBT_INTERNAL_DEST.amount = 0) then delete
when not matched by source then update set
    `amount` = 0

-- by source, as dbt-duckdb says it
-- config: {unique_key: id, merge_clauses: {when_not_matched: [{action: insert, mode: star}, {action: delete, by: source}]}}
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
when not matched by source then delete

-- rows that are passed over, and rows that are an error
-- config: {unique_key: id, merge_clauses: {when_matched: [{action: do_nothing, condition: DBT_INTERNAL_SOURCE.amount = 0}, {action: error, condition: DBT_INTERNAL_SOURCE.amount < 0, error_message: "it's less than nothing"}, {action: update}], when_not_matched: [{action: do_nothing}]}}
merge into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.`id` <=> DBT_INTERNAL_DEST.`id`
when matched and ((DBT_INTERNAL_SOURCE.amount = 0) is not true) and (DBT_INTERNAL_SOURCE.amount < 0) then update set
    `id` = raise_error('it\'s less than nothing')
when matched and ((DBT_INTERNAL_SOURCE.amount = 0) is not true) then update set
    `id` = DBT_INTERNAL_SOURCE.`id`,
    `day` = DBT_INTERNAL_SOURCE.`day`,
    `amount` = DBT_INTERNAL_SOURCE.`amount`

-- by position
-- config: {unique_key: id, merge_clauses: {when_matched: [{action: update, mode: by_position}], when_not_matched: [{action: insert, mode: by_position}]}}
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
