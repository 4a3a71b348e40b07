-- one merge
-- config: {}
merge with schema evolution into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.dbt_scd_id = DBT_INTERNAL_DEST.dbt_scd_id
when matched and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    and (DBT_INTERNAL_DEST.dbt_valid_to is null)
    then update set dbt_valid_to = DBT_INTERNAL_SOURCE.dbt_valid_to
when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
    then insert (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)

-- current rows have an end, and columns other names
-- config: {dbt_valid_to_current: "timestamp'9999-12-31'", snapshot_table_column_names: {dbt_valid_to: until, dbt_scd_id: scd}}
merge with schema evolution into `main`.`orders` as DBT_INTERNAL_DEST
using (
select * from new_orders
) as DBT_INTERNAL_SOURCE
on DBT_INTERNAL_SOURCE.scd = DBT_INTERNAL_DEST.scd
when matched and DBT_INTERNAL_SOURCE.dbt_change_type in ('update', 'delete')
    and (DBT_INTERNAL_DEST.until is null or DBT_INTERNAL_DEST.until = timestamp'9999-12-31')
    then update set until = DBT_INTERNAL_SOURCE.until
when not matched and DBT_INTERNAL_SOURCE.dbt_change_type = 'insert'
    then insert (`id`, `day`, `amount`)
    values (DBT_INTERNAL_SOURCE.`id`, DBT_INTERNAL_SOURCE.`day`, DBT_INTERNAL_SOURCE.`amount`)
