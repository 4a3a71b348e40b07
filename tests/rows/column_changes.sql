--- delta: columns are renamed and dropped without rewriting files
create table t (id int, v string, s struct<x: int, y: string>, gone int, p string) using delta partitioned by (p)
  tblproperties ({mode}, 'delta.columnMapping.mode' = 'name');
insert into t values (1, 'one', named_struct('x', 1, 'y', 'a'), 7, 'p1'), (2, 'two', named_struct('x', 2, 'y', 'b'), 8, 'p2');
alter table t rename column v to `the value`;
alter table t rename column s.x to `x y`;
alter table t rename column p to part;
alter table t drop column gone;
alter table t drop columns (s.y);
select * from t order by id;
=> 1 | one | Row(x y=1) | p1
=> 2 | two | Row(x y=2) | p2
alter table t add column gone string;
merge into t using (values (2, 'TWO', 'p2'), (3, 'three', 'p3')) n (id, v, p) on t.id = n.id and t.part = n.p
  when matched then update set `the value` = n.v, s.`x y` = 20, gone = 'back'
  when not matched then insert (id, `the value`, part) values (n.id, n.v, n.p);
update t set part = 'p9' where id = 1;
delete from t where part = 'p3';
select id, `the value`, s.`x y`, part, gone from t order by id;
=> 1 | one | 1 | p9 | NULL
=> 2 | TWO | 20 | p2 | back
select v from t version as of 1 order by v;
=> one
=> two
describe t;
=> id | int | NULL
=> the value | string | NULL
=> s | struct<`x y`:int> | NULL
=> part | string | NULL
=> gone | string | NULL
=> # Partition Information |  |
=> # col_name | data_type | comment
=> part | string | NULL

--- delta: a dropped column and a new column of its name with another type are separate
create table t (id int, v string) using delta tblproperties ({mode}, 'delta.columnMapping.mode' = 'id');
insert into t values (1, 'text');
alter table t drop column v;
alter table t add column v int;
insert into t values (2, 5);
update t set v = coalesce(v, 0) + 1;
select * from t order by id;
=> 1 | 1
=> 2 | 6

--- delta: two columns swap names
create table t (a int, b int) using delta tblproperties ({mode}, 'delta.columnMapping.mode' = 'id');
insert into t values (1, 2);
alter table t rename column a to c;
alter table t rename column b to a;
alter table t rename column c to b;
update t set a = a * 10 where b = 1;
select a, b from t;
=> 20 | 1

--- delta: fields inside arrays and maps are renamed and dropped
create table t (id int, a array<struct<x: int, y: int>>, m map<string, struct<k: int, l: int>>) using delta
  tblproperties ({mode}, 'delta.columnMapping.mode' = 'id');
insert into t values (1, array(named_struct('x', 1, 'y', 2)), map('q', named_struct('k', 3, 'l', 4))), (2, null, null);
alter table t rename column a.element.y to z;
alter table t drop column m.value.k;
delete from t where id = 2;
select a[0].z, m['q'].l, a, m from t;
=> 2 | 4 | [Row(x=1, z=2)] | {'q': Row(l=4)}
update t set id = 3;
select id, a[0].z, m['q'].l from t;
=> 3 | 2 | 4

--- delta: columns that cannot be renamed or dropped are reported by name
create table t (id int, s struct<x: int>, p int) using delta partitioned by (p) tblproperties ('delta.columnMapping.mode' = 'name');
alter table t drop column p;
!> PlanError: is partitioned by the column p
alter table t drop column nowhere;
!> UnknownColumn: nowhere
alter table t drop columns if exists (nowhere);
alter table t drop column s.x;
!> PlanError: only field of its struct
alter table t rename column id to P;
!> PlanError: A column `P` already exists beside `id`
alter table t rename column s.y to z;
!> UnknownColumn: y
alter table t rename column id.z to y;
!> PlanError: `id` is int, which has no fields
alter table t rename column id to ID;
describe t;
=> ID | int | NULL
=> s | struct<x:int> | NULL
=> p | int | NULL
=> # Partition Information |  |
=> # col_name | data_type | comment
=> p | int | NULL
create table u (id int, v int) using delta;
alter table u rename column v to w;
!> PlanError: SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')
alter table u drop column v;
!> PlanError: SET TBLPROPERTIES ('delta.columnMapping.mode' = 'name')

--- columns are moved
create table t (a int, b int, s struct<x: int, y: int>) using delta tblproperties ({mode});
insert into t values (1, 2, named_struct('x', 3, 'y', 4));
alter table t alter column b first;
alter table t alter column s.x after y;
alter table t change column a a int comment 'moved' after s;
insert into t values (20, named_struct('y', 40, 'x', 30), 10);
select b, s.x, s.y, a from t order by a;
=> 2 | 3 | 4 | 1
=> 20 | 30 | 40 | 10
select * from t where a = 1;
=> 2 | Row(y=4, x=3) | 1
alter table t alter column b after nowhere;
!> UnknownColumn: nowhere
delete from t where a = 10;
describe t;
=> b | int | NULL
=> s | struct<y:int,x:int> | NULL
=> a | int | moved

--- delta: a column that a constraint or a generated column uses is not changed
create table t (id int, v int, s struct<x: int, y: int>, g int generated always as (v + 1)) using delta
  tblproperties ({mode}, 'delta.columnMapping.mode' = 'name', 'delta.enableTypeWidening' = 'true');
alter table t add constraint positive check (s.x > 0);
alter table t rename column v to w;
!> PlanError: used by the generated column `g`
alter table t drop column s.x;
!> PlanError: used by the constraint positive
alter table t drop column s;
!> PlanError: used by the constraint positive
alter table t alter column s.x type bigint;
!> PlanError: used by the constraint positive
alter table t rename column s.y to z;
alter table t drop column g;
alter table t rename column v to w;
alter table t drop constraint positive;
alter table t rename column s to r;
alter table t alter column id set not null;
alter table t rename column id to `the id`;
insert into t (`the id`, w) values (1, 2);
select * from t;
=> 1 | 2 | NULL

--- delta: fields are added to structs at any depth
create table t (id int, s struct<x: int>, a array<struct<k: int>>) using delta tblproperties ({mode}, 'delta.columnMapping.mode' = 'id');
insert into t values (1, named_struct('x', 1), array(named_struct('k', 1)));
alter table t add columns (s.`y z` string comment 'new', s.w int first, a.element.l struct<m: int> after k);
insert into t values (2, named_struct('w', 0, 'x', 2, 'y z', 'yes'), array(named_struct('k', 2, 'l', named_struct('m', 3))));
alter table t add column s.x int;
!> PlanError: already has the column `s.x`
alter table t add column id.x int;
!> PlanError: `id` is int, which has no fields
alter table t add column r.x int;
!> UnknownColumn: r
update t set s.`y z` = 'set' where id = 1;
select id, s, a[0].k, a[0].l.m from t order by id;
=> 1 | Row(w=None, x=1, y z='set') | 1 | NULL
=> 2 | Row(w=0, x=2, y z='yes') | 2 | 3
