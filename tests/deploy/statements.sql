--- the strategies merge, append and delete
create table orders (id bigint, day date, amount decimal(10,2)) using delta partitioned by (day);
insert into orders select id, date '2024-01-01' + cast(id % 3 as int), id * 1.50 from range(9);
insert into orders by name select date '2024-01-02' as day, 9L as id, 1.25 as amount;
merge into orders t using (select * from values (1L, date '2024-01-02', 7.00), (20L, date '2024-01-03', 8.00) as v (id, day, amount)) s
    on t.id <=> s.id when matched then update set * when not matched then insert *;
merge into orders t using (select 9L as id) s on t.id <=> s.id when matched then delete;
select count(*), sum(id), sum(amount) from orders;
=> 10 | 56 | 67.50
select day, count(*) from orders group by day order by day;
=> 2024-01-01 | 3
=> 2024-01-02 | 3
=> 2024-01-03 | 4

--- the strategies delete+insert, insert_overwrite, replace_where and microbatch
create table days (id int, day date, v string) using delta partitioned by (day);
insert into days values (1, date '2024-01-01', 'a'), (2, date '2024-01-02', 'a'), (3, date '2024-01-03', 'a');
insert into days t by name replace on s.id <=> t.id (select 2 as id, date '2024-01-02' as day, 'b' as v) as s;
insert into days t by name replace on s.day <=> t.day (select 4 as id, date '2024-01-01' as day, 'c' as v) as s;
insert into days by name replace where day = date '2024-01-03' select 5 as id, date '2024-01-03' as day, 'd' as v;
insert into days by name replace where day >= date '2024-01-04' and day < date '2024-01-05'
    select 6 as id, date '2024-01-04' as day, 'e' as v;
select * from days order by id;
=> 2 | 2024-01-02 | b
=> 4 | 2024-01-01 | c
=> 5 | 2024-01-03 | d
=> 6 | 2024-01-04 | e

--- the strategy cdc applies the newest change of each key
create table customers (id int, seq int, name string) using delta;
insert into customers values (1, 1, 'Ada'), (2, 1, 'Bob');
merge into customers t using (
    select * from (
        select *, row_number() over (partition by id order by seq desc) as newest
        from values (1, 2, 'Ida', 'u'), (1, 3, 'Eda', 'u'), (2, 2, null, 'd'), (3, 2, 'Cid', 'c') as v (id, seq, name, op)
    ) where newest = 1
) s on t.id <=> s.id
    when matched and s.op = 'd' then delete
    when matched and s.seq > t.seq then update set id = s.id, seq = s.seq, name = s.name
    when not matched and s.op <> 'd' then insert (id, seq, name) values (s.id, s.seq, s.name);
select * from customers order by id;
=> 1 | 3 | Eda
=> 3 | 2 | Cid

--- rows marked as deleted stay out of reads until the table is compacted
create table marked (id bigint, v string) using delta tblproperties ('rowmerge.write.mode' = 'merge-on-read');
insert into marked select id, repeat('x', 20) from range(20000);
delete from marked where id % 3 = 0;
update marked set v = 'new' where id in (1, 10001);
select count(*), sum(id), count_if(v = 'new') from marked;
=> 13333 | 133326667 | 2
optimize marked;
select count(*), sum(id), count_if(v = 'new') from marked;
=> 13333 | 133326667 | 2

--- a source of many rows is written by executors
create table wide using delta as select id, id % 7 as p, cast(id as string) as v from range(0, 200000, 1, 4);
merge into wide t using (select id * 2 as id, 0L as p, 'even' as v from range(0, 110000, 1, 4)) s on t.id = s.id
    when matched then update set v = s.v when not matched then insert *;
select count(*), count_if(v = 'even'), max(id) from wide;
=> 210000 | 110000 | 219998

--- a view reads a table
create table kinds (id int, n int) using delta;
insert into kinds values (1, 10), (2, 20);
create view big_kinds as select id from kinds where n > 10;
select * from big_kinds order by id;
=> 2

--- definitions change a table
create table kinds (id int, n int) using delta comment 'kinds';
insert into kinds values (1, 10), (2, 20);
alter table kinds add column note string;
insert into kinds values (3, 30, 'third');
select id, note from kinds where n > 10 order by id;
=> 2 | NULL
=> 3 | third
create table copies using delta as select * from kinds;
drop table copies;
select * from copies;
!> TableNotFound: copies

--- delta: an older version can be read and restored
create table t (id int) using delta;
insert into t values (1);
insert into t values (2);
select count(*) from t version as of 1;
=> 1
restore table t to version as of 1;
select * from t;
=> 1
vacuum t;
select * from t;
=> 1

--- iceberg: a tagged snapshot can be read, and old snapshots expire
create table t (id int) using iceberg;
insert into t values (1);
alter table t create tag first;
insert into t values (2);
select count(*) from t version as of 'first';
=> 1
call system.expire_snapshots(table => 't', older_than => timestamp '2001-01-01');
select id from t order by id;
=> 1
=> 2
