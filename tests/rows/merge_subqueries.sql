--- scalar subqueries in on, conditions and values
create table t (id int, v int) using delta tblproperties ({mode});
create table o (id int, n int) using delta;
insert into t values (1, 0), (2, 0), (3, 0);
insert into o values (1, 10), (2, 20);
merge into t using (values (1), (2), (3), (4)) s (id) on t.id = s.id and t.id <= (select max(id) from o)
when matched and s.id < (select max(id) from o) then update set v = (select max(n) from o)
when matched then update set v = -1
when not matched and s.id > (select count(*) from t) then insert (id, v) values (s.id, (select min(n) from o))
when not matched by source and t.id > (select min(id) from o) then update set v = (select count(*) from o);
=> 4 | 3 | 0 | 1
select * from t order by id;
=> 1 | 20
=> 2 | -1
=> 3 | 2
=> 4 | 10

--- correlated scalar subqueries in values
create table t (id int, v int) using delta tblproperties ({mode});
create table o (id int, n int) using delta;
insert into t values (1, 0), (2, 0), (3, 0);
insert into o values (1, 10), (1, 11), (2, 20);
merge into t using (values (1), (2), (3), (4)) s (id) on t.id = s.id
when matched then update set v = (select sum(n) from o where o.id = t.id)
when not matched then insert (id, v) values (s.id, (select count(*) from o where o.id < s.id));
=> 4 | 3 | 0 | 1
select * from t order by id;
=> 1 | 21
=> 2 | 20
=> 3 | NULL
=> 4 | 3

--- in and not in with nulls on both sides
create table t (id int, k int, v string) using delta tblproperties ({mode});
create table o (k int) using delta;
insert into t values (1, 10, ''), (2, 99, ''), (3, null, '');
insert into o values (10), (20);
merge into t using (values (1), (2), (3)) s (id) on t.id = s.id
when matched and t.k in (select k from o) then update set v = 'in'
when matched and t.k not in (select k from o) then update set v = 'out';
=> 2 | 2 | 0 | 0
insert into o values (null);
merge into t using (values (1), (2), (3)) s (id) on t.id = s.id
when matched and t.k not in (select k from o) then delete
when matched and not (t.k in (select k from o where k is not null)) then update set v = 'other';
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | 10 | in
=> 2 | 99 | other
=> 3 | NULL |

--- exists and not exists correlated with target and source
create table t (id int, v string) using delta tblproperties ({mode});
create table o (id int, ok boolean) using delta;
insert into t values (1, ''), (2, ''), (3, '');
insert into o values (1, true), (2, false);
merge into t using (values (1), (2), (3), (4)) s (id) on t.id = s.id
when matched and exists (select 1 from o where o.id = t.id and o.ok) then update set v = 'ok'
when matched and not exists (select 1 from o where o.id = s.id) then update set v = 'none'
when not matched and not exists (select 1 from o where o.id = s.id) then insert (id, v) values (s.id, 'new');
=> 3 | 2 | 0 | 1
select * from t order by id;
=> 1 | ok
=> 2 |
=> 3 | none
=> 4 | new

--- in and exists over one side in on
create table t (id int, v string) using delta tblproperties ({mode});
create table o (id int) using delta;
insert into t values (1, ''), (2, '');
insert into o values (1);
merge into t using (values (1), (2)) s (id) on t.id = s.id and t.id in (select id from o) when matched then update set v = 'in' when not matched then insert (id, v) values (s.id, 'new');
=> 2 | 1 | 0 | 1
merge into t using (values (1)) s (id) on t.id = s.id and exists (select 1 from o where o.id = t.id) when matched then delete;
=> 1 | 0 | 1 | 0
select * from t order by id, v;
=> 2 |
=> 2 | new

--- in and exists in by source conditions
create table t (id int, v string) using delta tblproperties ({mode});
create table o (id int) using delta;
insert into t values (1, ''), (2, ''), (3, '');
insert into o values (2);
merge into t using (values (1)) s (id) on t.id = s.id
when not matched by source and t.id in (select id from o) then update set v = 'kept'
when not matched by source and not exists (select 1 from o where o.id = t.id) then delete;
=> 2 | 1 | 1 | 0
select * from t order by id;
=> 1 |
=> 2 | kept

--- subqueries that read the target read the old version
create table t (id int, v int) using delta tblproperties ({mode});
insert into t values (1, 10), (2, 20);
merge into t using (select max(id) as id from t) s on t.id = s.id and t.v > (select avg(v) from t)
when matched and t.v = (select max(v) from t) then update set v = (select sum(v) from t)
when not matched by source and t.id in (select min(id) from t) then delete;
=> 2 | 1 | 1 | 0
select * from t;
=> 2 | 30

--- a subquery over both sides in on is rejected with advice
create table t (id int) using delta;
create table o (a int, b int) using delta;
insert into t values (1);
insert into o values (1, 1);
merge into t using (values (1)) s (id) on exists (select 1 from o where o.a = t.id and o.b = s.id) when matched then delete;
!> UnsupportedStatement: joins the data of the subquery
select * from t;
=> 1

--- an unknown table or column in a subquery is reported by name
create table t (id int) using delta;
create table o (id int) using delta;
insert into t values (1);
merge into t using (values (1)) s (id) on t.id = s.id when matched and t.id in (select id from nowhere) then delete;
!> TableNotFound: nowhere
delete from t where id in (select idd from o);
!> UnknownColumn: idd
update t set id = (select max(idd) from o);
!> UnknownColumn: idd
