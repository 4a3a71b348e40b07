-- rows are added
-- config: {}
insert into `main`.`orders` (`id`, `day`, `amount`)
select `id`, `day`, `amount`
from (
select * from new_orders
)
