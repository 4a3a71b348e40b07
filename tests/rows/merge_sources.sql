--- a table without aliases
create table t (id int, v string) using delta tblproperties ({mode});
create table updates (id int, v string) using delta;
insert into t values (1, 'a'), (2, 'b');
insert into updates values (2, 'y'), (3, 'z');
merge into t using updates on t.id = updates.id when matched then update set v = updates.v when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | a
=> 2 | y
=> 3 | z

--- a view, and a temporary view over it
create table t (id int, v string) using delta tblproperties ({mode});
create table base (id int, v string) using delta;
insert into base values (1, 'x'), (2, 'y');
create view fresh as select id, upper(v) as v from base;
create temporary view fresher as select * from fresh where id > 1;
merge into t using fresh on fresh.id = t.id when not matched then insert *;
=> 2 | 0 | 0 | 2
insert into base values (3, 'z');
merge into t using fresher f on t.id = f.id when matched then update set v = f.v || '!' when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | X
=> 2 | Y!
=> 3 | Z

--- a query with a common table expression, a join and an aggregate
create table t (id int, total bigint) using delta tblproperties ({mode});
create table sales (id int, n int) using delta;
insert into t values (1, 0);
insert into sales values (1, 5), (1, 6), (2, 7);
merge into t using (
  with sums as (select id, sum(n) as total from sales group by id), seen as (select id from t)
  select sums.id, total, seen.id is not null as known from sums left join seen on sums.id = seen.id
) s on t.id = s.id
when matched and s.known then update set total = s.total
when not matched and not s.known then insert (id, total) values (s.id, s.total);
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | 11
=> 2 | 7

--- values with and without column names
create table t (id int, v string) using delta tblproperties ({mode});
merge into t using values (1, 'a'), (2, 'b') as s (id, v) on t.id = s.id when not matched then insert *;
=> 2 | 0 | 0 | 2
merge into t using (values (1, 'c')) on t.id = col1 when matched then update set v = col2;
=> 1 | 1 | 0 | 0
merge into t using (values (2, 'd')) s on t.id = s.col1 when matched then update set v = s.col2;
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | c
=> 2 | d

--- range and other table functions
create table t (id bigint) using delta tblproperties ({mode});
merge into t using range(3) r on t.id = r.id when not matched then insert *;
=> 3 | 0 | 0 | 3
merge into t using (select * from range(2, 5)) r on t.id = r.id when matched then delete when not matched then insert *;
=> 3 | 0 | 1 | 2
merge into t using explode(array(3L, 9L)) as e (n) on t.id = e.n when matched then update set id = t.id + 100 when not matched then insert (id) values (e.n);
=> 2 | 1 | 0 | 1
select id from t order by id;
=> 0
=> 1
=> 4
=> 9
=> 103

--- delta: an older version of a table, of the target too
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b');
delete from t where id = 1;
update t set v = 'wrong';
merge into t using t version as of 1 as old on t.id = old.id when matched then update set v = old.v when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | a
=> 2 | b

--- delta: an older version in a subquery
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a');
update t set v = 'b';
merge into t using (select * from t version as of 1) s on t.id = s.id when matched then update set v = s.v || t.v;
select v from t;
=> ab

--- the target itself as the source
create table t (id int, parent int, v string) using delta tblproperties ({mode});
insert into t values (1, null, 'root'), (2, 1, 'child');
merge into t using t as p on t.parent = p.id when matched then update set v = p.v || '/' || t.v;
=> 1 | 1 | 0 | 0
select * from t order by id;
=> 1 | NULL | root
=> 2 | 1 | root/child

--- the target itself without an alias is ambiguous
create table t (id int) using delta;
insert into t values (1);
merge into t using t on t.id = t.id when matched then delete;
!> PlanError: alias

--- a source of the same name in another schema
create schema staging;
create table t (id int, v string) using delta tblproperties ({mode});
create table staging.t (id int, v string) using delta;
insert into t values (1, 'a');
insert into staging.t values (1, 'x'), (2, 'y');
merge into default.t using staging.t on default.t.id = staging.t.id when matched then update set v = staging.t.v when not matched then insert *;
=> 2 | 1 | 0 | 1
merge into t using staging.t as n on t.id = n.id and n.id = 2 when matched then update set v = n.v || '!';
=> 1 | 1 | 0 | 0
select * from default.t order by id;
=> 1 | x
=> 2 | y!

--- names can be qualified by schema and catalog even if the statement omits them
create table t (id int, v string) using delta tblproperties ({mode});
create table u (id int, v string) using delta;
insert into t values (1, 'a');
insert into u values (1, 'x');
merge into t using u on default.t.id = default.u.id when matched then update set default.t.v = default.u.v;
=> 1 | 1 | 0 | 0
merge into spark_catalog.default.t using u on spark_catalog.default.t.id = u.id and default.t.v = 'x' when matched then update set t.v = upper(t.v);
=> 1 | 1 | 0 | 0
select * from t;
=> 1 | X

--- a source alias that equals a target column, and a target alias that equals a source column
create table t (s int, u struct<k: int>) using delta tblproperties ({mode});
insert into t values (1, named_struct('k', 5));
merge into t using (values (5, 9)) u (k, n) on t.u.k = u.k when matched then update set s = u.n;
=> 1 | 1 | 0 | 0
merge into t using (values (9, 10)) s (s, n) on t.s = s.s when matched then update set s = s.n;
=> 1 | 1 | 0 | 0
select s from t;
=> 10

--- the target's alias hides its name
create table t (id int) using delta;
insert into t values (1);
merge into t as x using (values (1)) s (id) on t.id = s.id when matched then delete;
!> UnknownColumn: t.id
merge into t as x using (values (1)) s (id) on x.id = s.id when matched then update set t.id = 1;
!> UnknownColumn: `t`

--- the source's alias hides its name
create table t (id int) using delta;
create table u (id int) using delta;
merge into t using u as s on t.id = u.id when not matched then insert *;
!> UnknownColumn: u.id

--- one alias for target and source is rejected
create table t (id int) using delta;
merge into t as x using (values (1)) x (id) on x.id = x.id when not matched then insert *;
!> PlanError: both have the alias `x`
merge into t using (values (1)) t (id) on t.id = 1 when not matched then insert *;
!> PlanError: both have the alias `t`

--- a target called source, a source query without an alias
create table source (id int) using delta tblproperties ({mode});
merge into source using (select 1 as n) on source.id = n when not matched then insert (id) values (n);
=> 1 | 0 | 0 | 1
select * from source;
=> 1

--- names that need backquotes: dots, keywords, unicode, quotes
create table `täble` (`select` int, `a.b` string, `ключ` int, `d``q` string) using delta tblproperties ({mode});
insert into `täble` values (1, 'a', 10, 'x');
merge into `täble` as `order` using (select 1 as `select`, 'A' as `a.b`, 20 as `ключ`, 'y' as `d``q` union all select 2, 'B', 30, 'z') as `group`
on `order`.`select` = `group`.`select` and `order`.`a.b` = lower(`group`.`a.b`)
when matched then update set `a.b` = `group`.`a.b`, `order`.`ключ` = `group`.`ключ` + `order`.`ключ`, `d``q` = `group`.`d``q`
when not matched then insert (`select`, `a.b`, `d``q`) values (`select`, `a.b`, `d``q`);
=> 2 | 1 | 0 | 1
select * from `täble` order by `select`;
=> 1 | A | 30 | y
=> 2 | B | NULL | z

--- columns named as clauses and functions
create table t (matched int, `when` int, `then` string, target int, source int, value int) using delta tblproperties ({mode});
insert into t values (1, 2, 'x', 3, 4, 5);
merge into t using (select 1 as matched, 9 as `when`, 'y' as `then`, 8 as source) s on t.matched = s.matched
when matched and t.`when` = 2 and s.source = 8 then update set `when` = s.`when`, `then` = s.`then`, value = t.target + s.source;
=> 1 | 1 | 0 | 0
select `when`, `then`, value from t;
=> 9 | y | 11

--- a nondeterministic source returns each row once
create table t (id bigint, u string) using delta tblproperties ({mode});
merge into t using (select id, uuid() as u from range(50)) s on t.id = s.id when not matched then insert *;
=> 50 | 0 | 0 | 50
merge into t using (select id, uuid() as u, rand() as r from range(100)) s on t.id = s.id and s.r >= 0
when matched and s.r < 0.5 then update set u = 'low' when matched and s.r >= 0.5 then update set u = 'high' when not matched then insert *;
=> 100 | 50 | 0 | 50
select count(*), count(distinct id), count_if(u in ('low', 'high')) from t;
=> 100 | 100 | 50

--- a limit without an order is evaluated once
create table t (id bigint) using delta tblproperties ({mode});
merge into t using (select id from range(1000) limit 10) s on t.id = s.id when matched then delete when not matched then insert *;
=> 10 | 0 | 0 | 10

--- empty source, empty target, both
create table t (id int, v string) using delta tblproperties ({mode});
create table s (id int, v string) using delta;
merge into t using s on t.id = s.id when matched then update set * when not matched then insert * when not matched by source then delete;
=> 0 | 0 | 0 | 0
insert into s values (1, 'x'), (1, 'x');
merge into t using s on t.id = s.id when matched then update set * when not matched then insert * when not matched by source then delete;
=> 2 | 0 | 0 | 2
delete from s;
merge into t using s on t.id = s.id when matched then delete when not matched then insert * when not matched by source then update set v = 'alone';
=> 2 | 2 | 0 | 0
select * from t;
=> 1 | alone
=> 1 | alone

--- union, except and order by in the source
create table t (id int, v string) using delta tblproperties ({mode});
merge into t using (select 1 as id, 'a' as v union all (select 2, 'b' union select 2, 'b') except select 9, 'z' order by id desc) s
on t.id = s.id when not matched then insert *;
=> 2 | 0 | 0 | 2

--- a with list before merge applies to the source, the conditions and the values
create table t (id int, v string) using delta tblproperties ({mode});
insert into t values (1, 'a'), (2, 'b'), (3, 'c');
with fresh as (select 1 as id, 'x' as v union all select 2, 'y'), top as (select max(id) as id from fresh)
merge into t using fresh as s on t.id = s.id
when matched and s.id = (select id from top) then update set v = (select max(v) from fresh)
when matched then delete
when not matched by source and t.id > (select id from top) then update set v = 'above';
=> 3 | 2 | 1 | 0
select * from t order by id;
=> 2 | y
=> 3 | above

--- a name of a with list hides a table of that name
create table t (id int) using delta tblproperties ({mode});
create table s (id int) using delta;
insert into s values (100);
with s as (select 1 as id) merge into t using s on t.id = s.id when not matched then insert *;
=> 1 | 0 | 0 | 1
select * from t;
=> 1

--- a missing source is reported with similar names
create table t (id int) using delta;
create table updates (id int) using delta;

merge into t using updatess s on t.id = s.id when not matched then insert *;
!> TableNotFound: updatess
merge into t using (select * from nowhere.updates) s on t.id = s.id when not matched then insert *;
!> TableNotFound: nowhere

--- a target that is missing or a view is rejected by name
create table t (id int) using delta;
create view v as select * from t;
create temporary view tv as select * from t;
merge into tt using (values (1)) s (id) on tt.id = s.id when not matched then insert *;
!> TableNotFound: Did you mean `default.t`
merge into v using (values (1)) s (id) on v.id = s.id when not matched then insert *;
!> TableError: view
merge into tv using (values (1)) s (id) on tv.id = s.id when not matched then insert *;
!> TableError: view
merge into nowhere.t using (values (1)) s (id) on t.id = s.id when not matched then insert *;
!> SchemaNotFound: nowhere
merge into a.b.c.d using (values (1)) s (id) on d.id = s.id when not matched then insert *;
!> TableNotFound: a.b.c.d

--- a lateral view, a pivot and a sample in the source
create table t (id int, v string) using delta tblproperties ({mode});
merge into t using (select id, x as v from values (1, array('a', 'b')), (2, array('c')) as q (id, xs) lateral view explode(xs) e as x) s
on t.id = s.id and t.v = s.v when not matched then insert *;
=> 3 | 0 | 0 | 3
select * from t order by v;
=> 1 | a
=> 1 | b
=> 2 | c

--- star does not include hidden columns of the engine
create table t (id int, v string) using delta tblproperties ({mode});
merge into t using (select struct(s.*) as all, s.id from (values (1, 'a')) s (id, v)) s on t.id = s.id when not matched then insert (id, v) values (s.id, to_json(s.all));
merge into t using (values (1, 'b')) s (id, v) on t.id = s.id when matched then update set v = to_json(struct(s.*));
merge into t using (values (1)) s (id) on t.id = s.id when matched then update set v = concat(t.v, ' ', to_json(struct(t.*)), to_json(struct(*)));
merge into t using (values (2, 'c')) s (id, v) on t.id = s.id when not matched then insert (id, v) values (s.id, to_json(struct(*)));
select * from t order by id;
=> 1 | {"id":1,"v":"b"} {"id":1,"v":"{\"id\":1,\"v\":\"b\"}"}{"id":1,"v":"{\"id\":1,\"v\":\"b\"}","id":1}
=> 2 | {"id":2,"v":"c"}

--- no name of a source column conflicts with the engine's columns
create table t (id int, gone array<int>) using delta tblproperties ({mode});
insert into t values (1, array(1));
merge into t using (values (1, array(2)), (2, array(3))) s (id, gone) on t.id = s.id
when matched then update set * when not matched then insert *;
=> 2 | 1 | 0 | 1
select * from t order by id;
=> 1 | [2]
=> 2 | [3]
