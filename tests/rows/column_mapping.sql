--- a table with column mapping by name accepts every statement
create table t (`the id` bigint, `a,b;{}()=c` string, s struct<`x y`: int, z: array<struct<`k=`: string>>>) using delta
  tblproperties ({mode}, 'delta.columnMapping.mode' = 'name');
insert into t values (1, 'one', named_struct('x y', 10, 'z', array(named_struct('k=', 'p')))), (2, 'two', null);
insert into t values (3, 'three', named_struct('x y', 30, 'z', null));
merge into t using (values (2, 'TWO'), (4, 'four')) s (id, v) on t.`the id` = s.id
  when matched then update set t.`a,b;{}()=c` = s.v
  when not matched then insert (`the id`, `a,b;{}()=c`) values (s.id, s.v);
update t set s.`x y` = s.`x y` + 1 where `the id` in (1, 3);
delete from t where s.`x y` = 31;
select `the id`, `a,b;{}()=c`, s.`x y`, s.z[0].`k=` from t order by 1;
=> 1 | one | 11 | p
=> 2 | TWO | NULL | NULL
=> 4 | four | NULL | NULL

--- a table with column mapping by id accepts every statement
create table t (id bigint, v string, s struct<x: int, m: map<string, struct<y: int>>>) using delta
  tblproperties ({mode}, 'delta.columnMapping.mode' = 'id');
insert into t select id, concat('v', id), named_struct('x', cast(id as int), 'm', map('k', named_struct('y', cast(id * 2 as int)))) from range(6);
merge into t using (values (2, 'TWO'), (9, 'nine')) s (id, v) on t.id = s.id
  when matched then update set v = s.v when not matched then insert (id, v) values (s.id, s.v) when not matched by source and t.id > 4 then delete;
update t set s.x = -1 where id = 3;
delete from t where id = 0;
select id, v, s.x, s.m['k'].y from t order by id;
=> 1 | v1 | 1 | 2
=> 2 | TWO | 2 | 4
=> 3 | v3 | -1 | 6
=> 4 | v4 | 4 | 8
=> 9 | nine | NULL | NULL

--- partition columns of a table with column mapping may have any name
create table t (id int, `p q` string, `d=` date) using delta partitioned by (`p q`, `d=`)
  tblproperties ({mode}, 'delta.columnMapping.mode' = 'name');
insert into t values (1, 'a b', date'2024-01-01'), (2, 'a/b', date'2024-01-02'), (3, null, null), (4, 'a b', date'2024-01-01');
merge into t using (values (1, 'a b'), (5, 'new')) s (id, p) on t.id = s.id and t.`p q` = s.p
  when matched then delete when not matched then insert (id, `p q`) values (s.id, s.p);
update t set `p q` = 'moved' where id = 2;
delete from t where `p q` is null;
select id, `p q`, `d=` from t order by id;
=> 2 | moved | 2024-01-02
=> 4 | a b | 2024-01-01
=> 5 | new | NULL

--- a table created from a query has column mapping from its first file
create table t using delta partitioned by (`p p`) tblproperties ({mode}, 'delta.columnMapping.mode' = 'id') as
  select id as `the id`, id % 2 as `p p`, named_struct('a b', id) as s from range(4);
update t set s.`a b` = 9 where `the id` = 3;
create or replace table u using delta tblproperties ({mode}, 'delta.columnMapping.mode' = 'name') as select * from t;
create or replace table u using delta tblproperties ({mode}, 'delta.columnMapping.mode' = 'name') as select *, 1 as `one more` from u;
select `the id`, `p p`, s.`a b`, `one more` from u order by 1;
=> 0 | 0 | 0 | 1
=> 1 | 1 | 1 | 1
=> 2 | 0 | 2 | 1
=> 3 | 1 | 9 | 1
insert overwrite t select 7, 1, named_struct('a b', 8);
select * from t;
=> 7 | 1 | Row(a b=8)
truncate table u;
select count(*) from u;
=> 0

--- a table gets column mapping later, and its older files stay readable
create table t (id int, s struct<x: int>, p string) using delta partitioned by (p) tblproperties ({mode});
insert into t values (1, named_struct('x', 1), 'a'), (2, named_struct('x', 2), 'b');
alter table t set tblproperties ('delta.columnMapping.mode' = 'name');
alter table t add columns (`new one` int);
insert into t values (3, named_struct('x', 3), 'a', 30);
update t set `new one` = 10 where id = 1;
merge into t using (values (2, 20), (3, 33)) n (id, v) on t.id = n.id when matched then update set `new one` = n.v;
select id, s.x, p, `new one` from t order by id;
=> 1 | 1 | a | 10
=> 2 | 2 | b | 20
=> 3 | 3 | a | 33

--- without column mapping, names that are invalid in files are rejected
create table t (`a b` int) using delta;
!> PlanError: 'delta.columnMapping.mode' = 'name'
create table t using delta as select 1 as `a;b`;
!> PlanError: 'a;b'
create table t (id int) using delta;
alter table t add columns (`a(b` int);
!> PlanError: 'a(b'
alter table t set tblproperties ('delta.columnMapping.mode' = 'id');
!> ConfigurationError: cannot be changed from none to id
create table u (id int) using delta tblproperties ('delta.columnMapping.mode' = 'serial');
!> ConfigurationError: Set it to none, name or id
